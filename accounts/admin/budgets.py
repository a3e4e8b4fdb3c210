"""What workspaces may spend, set as the API sets it."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import (
    BigIntegerField,
    Case,
    F,
    OuterRef,
    QuerySet,
    Subquery,
    Value,
    When,
)
from django.http import HttpRequest

from accounts.admin.fields import EnforcementField, UsdField
from accounts.models import SpendCounter, WorkspaceBudget
from accounts.services.budgets import read_spending_of_many
from accounts.services.records import operator_actor
from accounts.services.workspace_budgets import (
    LimitsNotDecreasing,
    apply_limit,
    check_decreasing,
    delete_budget,
    find_budgets,
    set_budget,
)
from accounts.spending import WINDOW_OF_WORD, build_workspace_scopes, find_window_starts
from gateway.admin import Form, PageAdmin, ReadOnlyInline, usd_column
from gateway.http.jsonio import format_usd


def _annotate_counters(rows: QuerySet[Any]) -> QuerySet[Any]:
    """Budgets, each with what its counter says counts against it now (`counted_nano`), without what
    is held. It is None where the ledger writer has not met it as it is."""
    starts = find_window_starts(datetime.now(UTC))
    counted = F("spent_nano") + Case(
        When(counts_byok=True, then=F("byok_spent_nano")), default=Value(0)
    )
    by_interval = [
        When(
            interval=interval,
            then=Subquery(
                SpendCounter.objects.filter(
                    scope=SpendCounter.Scope.WORKSPACE,
                    workspace=OuterRef("workspace"),
                    window=window,
                    window_start=starts[window],
                    counts_byok=OuterRef("workspace__include_byok_in_budgets"),
                    limit_nano__isnull=False,
                ).values(counted_nano=counted)[:1]
            ),
        )
        for interval, window in WINDOW_OF_WORD.items()
    ]
    # A row is named after its workspace, and that after its account.
    found: QuerySet[Any] = rows.select_related("workspace__account").annotate(
        counted_nano=Case(*by_interval, output_field=BigIntegerField())
    )
    return found


class _SpentColumn:
    """A column of what counts against a budget now."""

    @admin.display(description="spent (USD)", ordering="counted_nano")
    def spending(self, row: Any) -> str:
        # Where the counter does not say it, which is rare, by a question of its own.
        if row.counted_nano is None:
            _load_spending([row])
        return format_usd(int(row.counted_nano))


def _load_spending(rows: Sequence[Any]) -> None:
    budgets = [
        (row.workspace.account_id, build_workspace_scopes(row.workspace, [row])[0]) for row in rows
    ]
    for row, spent_nano in zip(
        rows, read_spending_of_many(budgets, at=datetime.now(UTC)), strict=True
    ):
        row.counted_nano = spent_nano


class BudgetInline(_SpentColumn, ReadOnlyInline):
    """What the workspace may spend, and what it has spent."""

    model = WorkspaceBudget
    limit = usd_column("limit_nano", "limit")
    fields = ("interval", "limit", "enforcement", "spending", "updated_at")
    ordering = ("-limit_nano",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return _annotate_counters(super().get_queryset(request))


class BudgetForm(Form):
    """A budget; it holds from the moment it is saved."""

    limit_usd = UsdField(min_value=0.000000001, label="Limit in USD")
    enforcement = EnforcementField()
    include_byok_in_budgets = forms.BooleanField(
        required=False,
        help_text="Spending on credentials of the account's own counts, at list price: for all "
        "budgets of the workspace.",
    )

    class Meta:
        model = WorkspaceBudget
        fields = ("workspace", "interval", "enforcement")

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        if not self.instance._state.adding:
            self.initial["limit_usd"] = format_usd(self.instance.limit_nano)
            flag = self.instance.workspace.include_byok_in_budgets
            self.initial["include_byok_in_budgets"] = flag

    def clean(self) -> Any:
        cleaned = super().clean() or self.cleaned_data
        row = self.instance
        workspace = cleaned.get("workspace") or (None if row._state.adding else row.workspace)
        limit_nano, interval = cleaned.get("limit_usd"), cleaned.get("interval") or row.interval
        if workspace and limit_nano and interval:
            found = find_budgets(workspace.account_id, str(workspace.pk))
            if row._state.adding and found.find(interval):
                raise forms.ValidationError("The workspace has a budget of this interval.")
            try:
                check_decreasing(apply_limit(found, interval, limit_nano))
            except LimitsNotDecreasing as error:
                raise forms.ValidationError(error.text) from None
        return cleaned


@admin.register(WorkspaceBudget)
class WorkspaceBudgetAdmin(_SpentColumn, PageAdmin):
    """Set and taken away through the services, so that every rule holds here too."""

    form = BudgetForm
    limit = usd_column("limit_nano", "limit")
    list_display = ("workspace", "interval", "limit", "enforcement", "spending", "updated_at")
    list_filter = ("interval",)
    search_fields = ("workspace__name", "workspace__slug", "workspace__account__name")
    ordering = ("workspace__account__name", "workspace__slug", "-limit_nano")
    autocomplete_fields = ("workspace",)
    actions = None
    new_fields = ("workspace", "interval", "limit_usd", "enforcement", "include_byok_in_budgets")
    fields = (*new_fields, "spending", "created_at", "updated_at")
    viewer_fields = (
        *("workspace", "interval", "limit", "enforcement"),
        *("spending", "created_at", "updated_at"),
    )
    fixed_fields = ("workspace", "interval", "spending", "created_at", "updated_at", "limit")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return _annotate_counters(super().get_queryset(request))

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """The page's rows, with what their counters do not say asked for all at once."""
        found = super().get_changelist_instance(request)
        _load_spending([row for row in found.result_list if row.counted_nano is None])
        return found

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        _, row = set_budget(
            account_id=obj.workspace.account_id,
            reference=str(obj.workspace.pk),
            interval=obj.interval,
            limit_nano=form.cleaned_data["limit_usd"],
            enforcement=form.cleaned_data["enforcement"],
            include_byok=form.cleaned_data["include_byok_in_budgets"],
            by=operator_actor(request.user),
        )
        # The page goes on with the row that is really there.
        obj.pk = row.pk
        obj.refresh_from_db()

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        delete_budget(
            account_id=obj.workspace.account_id,
            reference=str(obj.workspace.pk),
            interval=obj.interval,
            by=operator_actor(request.user),
        )
