"""Guardrails, the keys and members they are assigned to, and what their holders have spent."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from accounts.admin.fields import (
    EnforcementField,
    ModelsField,
    UsdField,
    WordsField,
    build_checkboxes,
)
from accounts.models import Guardrail, GuardrailKey, GuardrailMember, SpendCounter
from accounts.models.guardrail import DATA_REGIONS
from accounts.ports import higher_apps
from accounts.services import guardrail_assignments as assignments
from accounts.services.guardrails import (
    SETTINGS,
    change_guardrail,
    create_guardrail,
    delete_guardrail,
)
from accounts.services.records import operator_actor
from accounts.spending import find_window_starts, parse_holder
from accounts.views.schemas.external_guards import resolve_guards
from accounts.views.schemas.guardrail import check_patterns, read_filters
from gateway.admin import (
    Form,
    KeptRowsAdmin,
    PageAdmin,
    ReadOnlyInline,
    changed_fields,
    count_column,
    usd_column,
)
from gateway.http.errors import GatewayError, SchemaInvalid
from gateway.http.jsonio import JsonObject, format_usd

_NEW = ("workspace", "name", "description")
_SETTINGS = (
    *("limit_usd", "reset_interval", "budget_enforcement", "include_byok_in_budgets"),
    *("allowed_models", "ignored_models", "allowed_providers", "ignored_providers"),
    *("enforce_zdr_anthropic", "enforce_zdr_openai", "enforce_zdr_google"),
    *("enforce_zdr_xai", "enforce_zdr_other", "enable_paid_model_training"),
    *("enable_free_model_training", "enable_free_model_publication"),
    *("content_filters", "content_filter_builtins", "allowed_data_regions"),
    *(
        "output_filters",
        "output_filter_builtins",
        "output_shadow",
        "enforce_schema",
        "external_guards",
    ),
)
_SHOWN = ("id", "is_default", "spending", "created_at", "updated_at")
_WINDOW = {"daily": "day", "weekly": "week", "monthly": "month"}
_SPENDERS_MAX = 20


class GuardrailKeyInline(ReadOnlyInline):
    """The keys under it."""

    model = GuardrailKey
    fields = ("api_key", "assigned_by", "created_at")
    related = ("api_key", "guardrail", "assigned_by")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).filter(api_key__deleted_at__isnull=True)


class GuardrailMemberInline(ReadOnlyInline):
    """The members under it."""

    model = GuardrailMember
    fields = ("membership", "assigned_by", "created_at")
    related = ("membership__user", "membership__account", "guardrail", "assigned_by")


class GuardrailForm(Form):
    """A guardrail, held to the rules of the API."""

    limit_usd = UsdField(
        required=False, label="Limit in USD", help_text="Of each holder, with a reset interval."
    )
    budget_enforcement = EnforcementField()
    allowed_models = ModelsField(required=False, help_text="Model ids; empty allows all.")
    ignored_models = ModelsField(required=False)
    allowed_providers = WordsField(required=False, help_text="Slugs; empty allows all.")
    ignored_providers = WordsField(required=False)
    allowed_data_regions = forms.TypedMultipleChoiceField(
        choices=[(name, name) for name in DATA_REGIONS],
        widget=build_checkboxes(),
        required=False,
        empty_value=None,
        help_text="None allows all.",
    )

    class Meta:
        model = Guardrail
        fields = (*_NEW, *(name for name in _SETTINGS if name != "limit_usd"))

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.instance.limit_nano is not None:
            self.initial["limit_usd"] = format_usd(self.instance.limit_nano)

    def clean_allowed_providers(self) -> list[str] | None:
        return _resolve_providers(self.cleaned_data["allowed_providers"])

    def clean_ignored_providers(self) -> list[str] | None:
        return _resolve_providers(self.cleaned_data["ignored_providers"])

    def clean_content_filters(self) -> Any:
        return self._filters("content_filters")

    def clean_content_filter_builtins(self) -> Any:
        return self._filters("content_filter_builtins")

    def clean_output_filters(self) -> Any:
        return self._filters("output_filters")

    def clean_output_filter_builtins(self) -> Any:
        return self._filters("output_filter_builtins")

    def clean_external_guards(self) -> Any:
        return self._filters("external_guards")

    def _filters(self, field: str) -> Any:
        try:
            filters = read_filters(field, self.cleaned_data[field])
            if field == "external_guards":
                return resolve_guards(field, filters)
            if not field.endswith("_builtins"):
                check_patterns(field, filters)
        except SchemaInvalid as error:
            raise forms.ValidationError(error.text) from None
        return filters

    def clean(self) -> JsonObject:
        cleaned = super().clean() or {}
        if (cleaned.get("limit_usd") is None) != (not cleaned.get("reset_interval")):
            raise forms.ValidationError("A limit and its reset interval come together.")
        if cleaned.get("limit_usd") == 0:
            raise forms.ValidationError("A limit is more than nothing.")
        self.instance.limit_nano = cleaned.get("limit_usd")
        cleaned["reset_interval"] = cleaned.get("reset_interval") or None
        return cleaned


def _resolve_providers(names: list[str] | None) -> list[str] | None:
    if not names:
        return None
    slugs = higher_apps().find_provider_slugs(names)
    return list(dict.fromkeys(slugs.get(name, name.casefold()) for name in names))


@admin.register(Guardrail)
class GuardrailAdmin(KeptRowsAdmin):
    """Made, changed and deleted through the services, so every rule holds here too."""

    form = GuardrailForm
    limit = usd_column("limit_nano", "limit")
    list_display = (
        *("name", "workspace", "is_default", "limit", "reset_interval"),
        *("keys", "members", "created_at"),
    )
    list_filter = ("is_default", "reset_interval")
    search_fields = ("name", "workspace__name", "workspace__account__name")
    search_help_text = "Name, workspace, account or id"
    ordering = ("-created_at",)
    autocomplete_fields = ("workspace",)
    inlines = (GuardrailKeyInline, GuardrailMemberInline)
    keys = count_column("key_count", "keys")
    members = count_column("member_count", "members")
    new_fields = (*_NEW, *_SETTINGS)
    fields = (*new_fields, *_SHOWN)
    fixed_fields = ("workspace", *_SHOWN)
    related = ("workspace__account",)

    def get_queryset(self, request: HttpRequest) -> Any:
        living = Count(
            "key_assignments",
            filter=Q(key_assignments__api_key__deleted_at__isnull=True),
            distinct=True,
        )
        members = Count("member_assignments", distinct=True)
        return super().get_queryset(request).annotate(key_count=living, member_count=members)

    def get_readonly_fields(self, request: HttpRequest, obj: Guardrail | None = None) -> Any:
        shown = super().get_readonly_fields(request, obj)
        return (*shown, "name") if obj and obj.is_default else shown

    def get_inlines(self, request: HttpRequest, obj: Guardrail | None) -> Any:
        return () if obj and obj.is_default else super().get_inlines(request, obj)

    @admin.display(description="spent in this interval (USD)")
    def spending(self, guardrail: Guardrail) -> SafeString:
        """Each holder's share of the limit, the largest first."""
        if guardrail.reset_interval is None:
            return format_html_join("", "{}", [("No budget.",)])
        window = _WINDOW[guardrail.reset_interval]
        rows = SpendCounter.objects.filter(
            scope="guardrail",
            scope_id__startswith=f"{guardrail.pk.hex}:",
            window=window,
            window_start=find_window_starts(datetime.now(UTC))[window],
        ).order_by("-spent_nano", "scope_id")[:_SPENDERS_MAX]
        shares = []
        for row in rows:
            kind, number = parse_holder(row.scope_id)
            holder = f"{'key' if kind == 'k' else 'user'} {number}"
            shares.append((holder, format_usd(row.spent_nano)))
        return format_html_join(" · ", "{}: {}", shares or [("Nobody", "0")])

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        by, account_id = operator_actor(request.user), obj.workspace.account_id
        if not change:
            made = create_guardrail(
                account_id=account_id,
                workspace_id=obj.workspace_id,
                by=by,
                settings={name: getattr(obj, name) for name in SETTINGS},
            )
            # The page goes on with the row that is really there.
            obj.pk = made.pk
            obj.refresh_from_db()
            return
        fields = changed_fields(obj, form)
        if "limit_usd" in form.changed_data:
            fields.append("limit_nano")
        if fields:
            changes = {name: getattr(obj, name) for name in fields}
            change_guardrail(account_id=account_id, guardrail_id=obj.pk, by=by, changes=changes)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        delete_guardrail(
            account_id=obj.workspace.account_id,
            guardrail_id=obj.pk,
            by=operator_actor(request.user),
        )


class _AssignmentAdmin(PageAdmin):
    """Assigning and taking away, through the services."""

    can_change = False
    readonly_fields = ("assigned_by", "created_at")

    # What a subclass brings: assigning a row, and the lookup of whoever it is about.
    assign: Callable[[HttpRequest, Any], None]
    holder: Callable[[Any], JsonObject]

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        try:
            self.assign(request, obj)
        except GatewayError as error:
            # The page has checked what it can; the rest was changed by somebody else meanwhile.
            messages.error(request, error.text)
        found = type(obj).objects.filter(**self.holder(obj)).first()
        if found is not None:
            obj.pk = found.pk


class _AssignmentForm(Form):
    """An assignment within one account, to a guardrail that is assigned at all."""

    holder = ""

    def clean(self) -> JsonObject:
        cleaned = super().clean() or {}
        guardrail, holder = cleaned.get("guardrail"), cleaned.get(self.holder)
        if guardrail is not None and guardrail.is_default:
            raise forms.ValidationError("A default guardrail governs its workspace by itself.")
        if guardrail and holder and guardrail.workspace.account_id != holder.account_id:
            raise forms.ValidationError("They belong to two accounts.")
        return cleaned


class GuardrailKeyForm(_AssignmentForm):
    holder = "api_key"

    class Meta:
        model = GuardrailKey
        fields = ("guardrail", "api_key")

    def clean_api_key(self) -> Any:
        key = self.cleaned_data["api_key"]
        if key.is_management or key.deleted_at is not None:
            raise forms.ValidationError("Inference keys only.")
        return key


class GuardrailMemberForm(_AssignmentForm):
    holder = "membership"

    class Meta:
        model = GuardrailMember
        fields = ("guardrail", "membership")


@admin.register(GuardrailKey)
class GuardrailKeyAdmin(_AssignmentAdmin):
    """One guardrail for each key: take the old one away first."""

    form = GuardrailKeyForm
    list_display = ("api_key", "guardrail", "assigned_by", "created_at")
    list_select_related = ("api_key", "guardrail", "assigned_by")
    search_fields = ("api_key__name", "api_key__label", "guardrail__name")
    ordering = ("-created_at",)
    autocomplete_fields = ("guardrail", "api_key")

    def holder(self, obj: Any) -> JsonObject:
        return {"api_key": obj.api_key_id}

    def assign(self, request: HttpRequest, obj: Any) -> None:
        assignments.assign_keys(
            account_id=obj.api_key.account_id,
            guardrail_id=obj.guardrail_id,
            by=operator_actor(request.user),
            assigner=request.user.pk,
            key_hashes=[obj.api_key.hash],
        )

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        assignments.unassign_keys(
            account_id=obj.api_key.account_id,
            guardrail_id=obj.guardrail_id,
            by=operator_actor(request.user),
            key_hashes=[obj.api_key.hash],
        )


@admin.register(GuardrailMember)
class GuardrailMemberAdmin(_AssignmentAdmin):
    """One guardrail for each member: take the old one away first."""

    form = GuardrailMemberForm
    list_display = ("membership", "guardrail", "assigned_by", "created_at")
    list_select_related = (
        *("membership__user", "membership__account"),
        *("guardrail", "assigned_by"),
    )
    search_fields = ("membership__user__username", "guardrail__name")
    ordering = ("-created_at",)
    autocomplete_fields = ("guardrail", "membership")

    def holder(self, obj: Any) -> JsonObject:
        return {"membership": obj.membership_id}

    def assign(self, request: HttpRequest, obj: Any) -> None:
        assignments.assign_members(
            account_id=obj.membership.account_id,
            guardrail_id=obj.guardrail_id,
            by=operator_actor(request.user),
            assigner=request.user.pk,
            user_ids=[obj.membership.user.public_id],
        )

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        assignments.unassign_members(
            account_id=obj.membership.account_id,
            guardrail_id=obj.guardrail_id,
            by=operator_actor(request.user),
            user_ids=[obj.membership.user.public_id],
        )
