"""Interns: how they are, what happened to them, and what an operator can do about it."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin, messages
from django.db import transaction
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from accounts.admin.fields import UsdField
from accounts.admin.history import render_usage
from accounts.services.records import operator_actor, read_fields, record_row
from gateway.admin import Form, PageAdmin, usd_column
from gateway.http.jsonio import JsonObject, format_usd
from gateway.sandbox.isolation import NONE
from interns import operations, slack
from interns.errors import InternError
from interns.keys import change_budget, read_budget
from interns.leases import is_pickup_overdue
from interns.machine import STEPS, WAITING_TEXT
from interns.models import Intern, InternTransition, Status, Vault
from interns.operations import update_intern
from interns.reach import reach_agents
from interns.runtime.sandbox import NO_ISOLATION_TEXT
from interns.vault.service import detach_vault
from interns.views.schemas.intern import MODEL_PATTERN

FIELDS = ("description", "instructions", "model", "budget_usd", "budget_reset")


class InternForm(Form):
    """`budget_usd` is the budget as people write it."""

    instructions = forms.CharField(
        required=False,
        max_length=100_000,
        widget=forms.Textarea(attrs={"rows": 6, "cols": 90}),
        help_text="Take effect at the next boot.",
    )
    model = forms.RegexField(
        MODEL_PATTERN,
        required=False,
        max_length=200,
        help_text="author/slug; empty for the workspace's default. Takes effect at the next boot.",
    )
    budget_usd = UsdField(
        label="Budget in USD",
        required=False,
        min_value=0,
        help_text="The limit of the intern's own key; the intern is suspended when it is used up. "
        "Empty for none.",
    )

    class Meta:
        model = Intern
        fields = FIELDS

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # A manager may have changed the key since.
        budget_nano, self.initial["budget_reset"] = read_budget(self.instance)
        if budget_nano is not None and "budget_usd" in self.fields:
            self.initial["budget_usd"] = format_usd(budget_nano)

    def clean(self) -> JsonObject:
        fields: JsonObject = super().clean() or self.cleaned_data
        if fields.get("budget_reset") and fields.get("budget_usd") is None:
            self.add_error("budget_reset", "There is no budget to reset.")
        return fields

    def changes(self) -> JsonObject:
        """The columns that differ; a budget is one thing, as the key has it."""
        fields = {name: self.cleaned_data[name] for name in self.changed_data}
        if fields.keys() & {"budget_usd", "budget_reset"}:
            fields["budget_nano"] = self.cleaned_data["budget_usd"]
            fields["budget_reset"] = self.cleaned_data["budget_reset"]
            fields.pop("budget_usd", None)
        for name in ("instructions", "model", "budget_reset"):
            if name in fields:
                fields[name] = fields[name] or None
        return fields


_FACTS = ("description", "instructions", "model", "budget_nano", "budget_reset")
_HISTORY_ROWS = 50
_LOG_LINES = 100
# Django says None of a page's own columns; of its fields it says this.
_NONE = "-"
_TIME = "%Y-%m-%d %H:%M:%S"
_SHOWN = (
    *("id", "account", "workspace", "creator", "name", "hostname", "status", "progress", "age"),
    *("status_reason", "last_failure_message", "lease", "vault", "attached_vault_id", "key"),
    *(
        "host",
        "disk_host",
        "is_disk_partial",
        "spend",
        "booted_at",
        "runtime_facts",
        "failed_probes",
        "slack_installed_at",
    ),
    *("created_at", "updated_at", "history", "log_tail"),
)


@admin.register(Intern)
class InternAdmin(PageAdmin):
    """Made by callers. Everything that moves one goes through the same doors as theirs."""

    form = InternForm
    budget = usd_column("budget_nano", "budget")
    list_display = (
        *("name", "account", "status", "progress", "age", "last_failure", "lease"),
        *("creator", "workspace_slug", "hostname", "budget", "created_at"),
    )
    list_filter = ("status", "lease_kind", "created_at")
    list_select_related = ("workspace__account", "creator")
    search_fields = ("name", "hostname", "workspace__account__name", "creator__username")
    search_help_text = "Name, hostname, account, creator or id"
    ordering = ("-created_at", "-id")
    actions = (
        *("provision", "suspend", "delete_interns", "delete_without_archive"),
        *("release_lease", "install_slack", "detach_vault"),
    )
    change_list_template = "admin/interns/intern/change_list.html"
    # A row alone is never removed: `Delete` takes the whole intern down.
    can_add = can_delete = False
    fields = (*FIELDS, *_SHOWN)
    viewer_fields = ("description", "instructions", "model", "budget", "budget_reset", *_SHOWN)
    readonly_fields = (*_SHOWN, "budget")
    related = ("api_key", "workspace__account", "creator")

    class Media:
        css = {"all": ("interns/admin.css",)}

    def has_operate_permission(self, request: HttpRequest) -> bool:
        return bool(self.has_change_permission(request))

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        statuses = Intern.objects.values_list("status").annotate(count=Count("pk"))
        counts = dict(statuses.order_by())
        board = [
            {"status": each.value, "label": each.label, "count": counts.get(each.value, 0)}
            for each in Status
        ]
        bare = Intern.objects.filter(status=Status.RUNNING, runtime__isolation=NONE).count()
        context = {"board": board, "bare": bare, "plainly": NO_ISOLATION_TEXT}
        return super().changelist_view(request, {**(extra_context or {}), **context})

    @admin.display(description="account", ordering="workspace__account__name")
    def account(self, intern: Intern) -> str:
        return intern.workspace.account.name

    @admin.display(description="workspace", ordering="workspace__slug")
    def workspace_slug(self, intern: Intern) -> str:
        return intern.workspace.slug

    @admin.display(description="progress")
    def progress(self, intern: Intern) -> str:
        if is_pickup_overdue(intern, datetime.now(UTC)):
            return WAITING_TEXT
        step = intern.progress_step
        return f"{step} of {len(STEPS)}: {STEPS[step - 1]}" if step else _NONE

    @admin.display(description="in it for", ordering="-status_since")
    def age(self, intern: Intern) -> str:
        seconds = int((datetime.now(UTC) - intern.status_since).total_seconds())
        return str(timedelta(seconds=max(0, seconds)))

    @admin.display(description="held by")
    def lease(self, intern: Intern) -> str:
        if intern.lease_expires_at is None:
            return _NONE
        until = intern.lease_expires_at.astimezone(UTC).strftime("%H:%M:%S")
        return f"{intern.lease_kind} until {until}, attempt {intern.lease_attempt + 1}"

    @admin.display(description="last failure")
    def last_failure(self, intern: Intern) -> str | None:
        return (intern.last_failure_message or intern.status_reason)[:80] or None

    @admin.display(description="vault")
    def vault(self, intern: Intern) -> str:
        found = Vault.objects.filter(intern=intern.pk).values_list("pk", flat=True).first()
        return _NONE if found is None else str(found)

    @admin.display(description="API key")
    def key(self, intern: Intern) -> str:
        if intern.api_key is None:
            return _NONE
        path = reverse("admin:accounts_apikey_change", args=[intern.api_key.pk])
        return format_html('<a href="{}">{}</a>', path, intern.api_key)

    @admin.display(description="spend")
    def spend(self, intern: Intern) -> str:
        if intern.api_key_id is None:
            return _NONE
        return render_usage(intern.workspace.account_id, "key", intern.api_key_id)

    @admin.display(description="runtime")
    def runtime_facts(self, intern: Intern) -> str:
        if not intern.runtime:
            return _NONE
        facts = dict(intern.runtime)
        if isinstance(begun_at := facts.get("begun_at"), float):
            # As the history tells moments.
            facts["begun_at"] = datetime.fromtimestamp(begun_at, UTC).strftime(_TIME)
        return _render_table(facts.items())

    @admin.display(description="history")
    def history(self, intern: Intern) -> SafeString:
        rows = InternTransition.objects.filter(intern_id=intern.pk).order_by("-pk")
        shown = [
            (
                row.at.strftime(_TIME),
                row.rule,
                f"{row.from_status or '-'} → {row.to_status or '-'}",
                row.by,
                row.why,
            )
            for row in rows[:_HISTORY_ROWS]
        ]
        return _render_table(shown)

    @admin.display(description="log")
    def log_tail(self, intern: Intern) -> SafeString:
        lines = reach_agents(intern).log_tail(intern.pk, lines=_LOG_LINES)
        return format_html('<pre class="runtime-log">{}</pre>', "\n".join(lines))

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        try:
            if changes := form.changes():
                with transaction.atomic():
                    before = read_fields(Intern.objects.get(pk=obj.pk), _FACTS)
                    intern = update_intern(obj.pk, changes)
                    if {"budget_nano", "budget_reset"} & changes.keys():
                        change_budget(intern)
                    by, after = operator_actor(request.user), read_fields(intern, _FACTS)
                    record_row("intern", by, "updated", intern, before, after)
        except InternError as error:
            messages.error(request, f"{obj}: {error.text}")

    @admin.action(description="Provision or resume", permissions=["operate"])
    def provision(self, request: HttpRequest, interns: QuerySet[Intern]) -> None:
        self._run_each(request, interns, "is being provisioned", operations.provision)

    @admin.action(description="Suspend", permissions=["operate"])
    def suspend(self, request: HttpRequest, interns: QuerySet[Intern]) -> None:
        self._run_each(request, interns, "is being suspended", operations.begin_suspend)

    @admin.action(description="Delete", permissions=["operate"])
    def delete_interns(self, request: HttpRequest, interns: QuerySet[Intern]) -> None:
        self._run_each(request, interns, "is being deleted", operations.delete)

    @admin.action(
        description="Delete, even if the workspace cannot be archived", permissions=["operate"]
    )
    def delete_without_archive(self, request: HttpRequest, interns: QuerySet[Intern]) -> None:
        delete = partial(operations.delete, acknowledged=True)
        self._run_each(request, interns, "is being deleted", delete)

    @admin.action(description="Release the lease", permissions=["operate"])
    def release_lease(self, request: HttpRequest, interns: QuerySet[Intern]) -> None:
        self._run_each(request, interns, "was released", operations.release_intern)

    @admin.action(description="Slack was installed", permissions=["operate"])
    def install_slack(self, request: HttpRequest, interns: QuerySet[Intern]) -> None:
        self._run_each(request, interns, "has Slack installed", slack.record_install)

    @admin.action(description="Detach the borrowed vault", permissions=["operate"])
    def detach_vault(self, request: HttpRequest, interns: QuerySet[Intern]) -> None:
        def detach(intern_id: UUID, *, by: str) -> None:
            detach_vault(intern_id, by=operator_actor(request.user))

        self._run_each(request, interns, "borrows no vault", detach)

    def _run_each(
        self,
        request: HttpRequest,
        interns: QuerySet[Intern],
        done_text: str,
        operation: Callable[..., object],
    ) -> None:
        """`operation` takes the intern's id and `by`, and raises `InternError`."""
        by = f"operator {request.user.get_username()}"
        for intern in interns:
            try:
                operation(intern.pk, by=by)
            except InternError as error:
                messages.error(request, f"{intern}: {error.text}")
            else:
                self.log_change(request, intern, done_text)
                messages.success(request, f"{intern} {done_text}.")


def _render_table(rows: Any) -> SafeString:
    cells = format_html_join(
        "",
        "<tr>{}</tr>",
        ((format_html_join("", "<td>{}</td>", ((str(cell),) for cell in row)),) for row in rows),
    )
    return format_html("<table>{}</table>", cells)
