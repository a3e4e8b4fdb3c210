"""Records of interns: read-only ones of chats (without what was said), moves, create requests and
machines they run on. Also archives of their disks, those that an operator made too."""

import re
from typing import Any, Final

from django import forms
from django.contrib import admin, messages
from django.http import HttpRequest

from accounts.services.records import operator_actor
from gateway.admin import Form, PageAdmin, ReadOnlyAdmin, ReadOnlyInline
from interns.archives.service import ArchiveNotExpected, add_archive, delete_archive
from interns.models import (
    ChatInteraction,
    ChatRun,
    ChatSession,
    Intern,
    InternCreation,
    InternHost,
    InternTransition,
    Status,
    WorkspaceArchive,
)

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_ARCHIVE_FACTS: Final = (
    *("id", "intern_id", "intern_name", "account", "workspace_id", "uri", "sha256", "bytes"),
    *("files", "source", "created_at", "expires_at"),
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
    """Machines that run interns, as each last reported. `manage.py interns_host` drains one."""

    list_display = (
        *("name", "last_seen_at", "draining", "interns", "free_memory_bytes", "memory_bytes"),
    )
    list_filter = ("draining",)
    ordering = ("name",)
    search_fields = ("name",)
    search_help_text = "Name of the machine"
    fields = (
        *("name", "url", "home_id", "alive_since", "last_seen_at", "draining", "interns"),
        *("free_memory_bytes", "memory_bytes"),
    )


# --- Archives -------------------------------------------------------------------------------------


class ArchiveForm(Form):
    """An archive made by hand, for an intern whose teardown waits for one."""

    intern = forms.ModelChoiceField(
        Intern.objects.filter(status=Status.DESTROY_FAILED),
        help_text="Interns whose teardown failed.",
    )

    class Meta:
        model = WorkspaceArchive
        fields = ("uri", "sha256", "bytes")

    def clean_sha256(self) -> str:
        sha256: str = self.cleaned_data["sha256"].lower()
        if not _SHA256.fullmatch(sha256):
            raise forms.ValidationError("64 hexadecimal digits.")
        return sha256


@admin.register(WorkspaceArchive)
class WorkspaceArchiveAdmin(PageAdmin):
    """Newest first. `restore_intern_workspace` brings the files back."""

    can_change = False
    list_display = (
        *("intern_name", "account", "created_at", "expires_at", "bytes", "files", "source", "uri"),
    )
    list_filter = ("source", "created_at")
    list_select_related = ("account",)
    date_hierarchy = "created_at"
    ordering = ("-created_at", "pk")
    search_fields = ("intern_name", "account__name", "sha256")
    search_help_text = "Name of the intern, account, checksum or id"
    new_form, new_fields = ArchiveForm, ("intern", "uri", "sha256", "bytes")
    fields = fixed_fields = _ARCHIVE_FACTS

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        given = form.cleaned_data
        try:
            made = add_archive(
                intern=given["intern"],
                uri=given["uri"],
                sha256=given["sha256"],
                size=given["bytes"],
                by=operator_actor(request.user),
            )
        except ArchiveNotExpected as error:
            messages.error(request, str(error))
            return
        obj.pk, obj.intern_name, obj.created_at = made.pk, made.intern_name, made.created_at

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        if not delete_archive(obj, by=operator_actor(request.user)):
            messages.error(request, "The store does not let go of it; see the log")
