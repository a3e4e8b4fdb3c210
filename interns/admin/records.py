"""Records of interns, read-only: chats (without what was said), moves, create requests, and the
machines they run on."""

from typing import Any

from django.contrib import admin

from gateway.admin import ReadOnlyAdmin, ReadOnlyInline
from interns.models import (
    ChatInteraction,
    ChatRun,
    ChatSession,
    InternCreation,
    InternHost,
    InternTransition,
)


class InteractionInline(ReadOnlyInline):
    """What the run asked."""

    model = ChatInteraction
    fields = (
        *("tool_call_id", "kind", "state", "answered_with", "asked_at", "deadline_at"),
        "answered_at",
    )


@admin.register(ChatRun)
class ChatRunAdmin(ReadOnlyAdmin):
    """Turns, newest first: who has an intern now, and how each turn ended."""

    list_display = (
        *("started_at", "intern", "session", "by", "state", "ended_because", "approval_mode"),
        *("ended_at", "tokens", "cost"),
    )
    list_select_related = ("intern", "session", "by")
    list_filter = ("state", "approval_mode", "started_at")
    ordering = ("-started_at",)
    search_fields = ("intern__name", "session__session_id__exact")
    search_help_text = "Name of the intern, session, or id"
    fields = (
        *("id", "intern", "session", "by", "approval_mode", "state", "lease_expires_at"),
        *("started_at", "ended_at", "ended_because", "usage"),
    )
    inlines = (InteractionInline,)

    @admin.display(description="tokens")
    def tokens(self, run: ChatRun) -> Any:
        return (run.usage or {}).get("total_tokens")

    @admin.display(description="cost (USD)")
    def cost(self, run: ChatRun) -> Any:
        usd = (run.usage or {}).get("cost")
        return None if usd is None else f"{usd:.9f}".rstrip("0").rstrip(".")


@admin.register(ChatSession)
class ChatSessionAdmin(ReadOnlyAdmin):
    """Conversations, by the ids that their callers gave them."""

    list_display = ("session_id", "intern", "created_at")
    list_select_related = ("intern",)
    ordering = ("-id",)
    search_fields = ("session_id__exact", "intern__name")
    search_help_text = "Id of the session, name of the intern"
    fields = ("session_id", "intern", "created_at")


@admin.register(ChatInteraction)
class ChatInteractionAdmin(ReadOnlyAdmin):
    """Questions of interns, newest first. Of an answer only its kind is kept."""

    list_display = (
        *("asked_at", "run", "kind", "state", "answered_with", "deadline_at", "answered_at"),
    )
    list_select_related = ("run", "run__session")
    list_filter = ("state", "kind")
    ordering = ("-id",)
    search_fields = ("run__intern__name", "tool_call_id__exact")
    search_help_text = "Name of the intern, id of the tool call"
    fields = (
        *("run", "tool_call_id", "kind", "arguments", "state", "answered_with", "asked_at"),
        *("deadline_at", "answered_at"),
    )


@admin.register(InternTransition)
class InternTransitionAdmin(ReadOnlyAdmin):
    """Every move of every intern, also of those that are gone, newest first."""

    list_display = (
        *("at", "intern_name", "account", "rule", "from_status", "to_status", "by", "why"),
    )
    list_select_related = ("account",)
    list_filter = ("to_status", "rule", "at")
    date_hierarchy = "at"
    ordering = ("-id",)
    search_fields = ("intern_name", "account__name", "by")
    search_help_text = "Name of the intern, account, who"
    fields = (
        *("at", "intern_id", "intern_name", "account", "rule", "from_status", "to_status"),
        *("why", "by", "operation_id"),
    )


@admin.register(InternCreation)
class InternCreationAdmin(ReadOnlyAdmin):
    """Requests that made an intern, for as long as they are remembered."""

    list_display = ("intern", "created_at", "finished_at", "expires_at", "wants_provision")
    list_select_related = ("intern",)
    ordering = ("-created_at",)
    search_fields = ("intern__name",)
    search_help_text = "Name of the intern, or id"
    fields = ("id", "intern", "wants_provision", "created_at", "finished_at", "expires_at")


@admin.register(InternHost)
class InternHostAdmin(ReadOnlyAdmin):
    """Machines that run interns, as each last told. `manage.py interns_host` drains one."""

    list_display = (
        *("name", "last_seen_at", "draining", "interns", "free_memory_bytes", "memory_bytes"),
    )
    list_filter = ("draining",)
    ordering = ("name",)
    search_fields = ("name",)
    search_help_text = "Name of the machine"
    fields = (
        *("name", "home_id", "alive_since", "last_seen_at", "draining", "interns"),
        *("free_memory_bytes", "memory_bytes"),
    )
