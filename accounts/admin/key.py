"""API keys: pages and forms. A key's string is shown once, when it is made, and stored nowhere."""

from datetime import UTC, datetime
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import BigIntegerField, CharField, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Cast, Coalesce
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from accounts.admin.fields import (
    EnforcementField,
    RateLimitsField,
    UsdField,
    WordsField,
    build_checkboxes,
    resolve_models,
)
from accounts.admin.history import render_key_histories, render_usage
from accounts.models import Account, ApiKey, Membership, SpendCounter, Workspace
from accounts.models.key import ApiKeyQuerySet
from accounts.scopes import SCOPES, clean_networks
from accounts.services.key_limits import read_usage
from accounts.services.keys import change_key, create_key, delete_keys, set_disabled
from accounts.services.records import operator_actor
from gateway.admin import Form, PageAdmin, usd_column
from gateway.http.jsonio import format_usd

_LIMIT_HELP = "Empty for no limit; 0 blocks every paid call."


class _BoundsForm(Form):
    """What a key may do, and from where."""

    scopes = forms.MultipleChoiceField(
        choices=[(word, word) for word in SCOPES],
        widget=build_checkboxes(),
        required=False,
        help_text="Management keys only; none for everything.",
    )
    allowed_models = WordsField(
        required=False, help_text="Inference keys only: model ids; empty for all models."
    )
    allowed_ips = WordsField(
        label="Allowed addresses",
        required=False,
        help_text="Addresses and networks, such as 192.0.2.0/24; empty for all.",
    )
    rate_limits = RateLimitsField()

    def clean_scopes(self) -> list[str] | None:
        return self.cleaned_data["scopes"] or None

    def clean_allowed_models(self) -> list[str] | None:
        return resolve_models(self.cleaned_data["allowed_models"])

    def clean_allowed_ips(self) -> list[str] | None:
        texts = self.cleaned_data["allowed_ips"]
        try:
            return clean_networks(texts) if texts else None
        except ValueError:
            raise forms.ValidationError("One of these is no address or network.") from None


class NewKeyForm(_BoundsForm):
    """What a new key is made from. A key without a workspace manages."""

    limit_usd = UsdField(label="Limit in USD", required=False, min_value=0, help_text=_LIMIT_HELP)
    limit_enforcement = EnforcementField()

    class Meta:
        model = ApiKey
        fields = (
            *("account", "kind", "workspace", "creator", "name"),
            *("limit_usd", "limit_reset", "limit_enforcement", "expires_at"),
            *("scopes", "allowed_models", "allowed_ips", "rate_limits"),
        )
        help_texts = {
            "workspace": "Inference keys only; empty for the account's default workspace.",
            "creator": "The member the key belongs to. It stops working when that member leaves.",
        }

    def clean_expires_at(self) -> datetime | None:
        expires_at: datetime | None = self.cleaned_data["expires_at"]
        if expires_at is not None and expires_at <= datetime.now(UTC):
            raise forms.ValidationError("This time has passed.")
        return expires_at

    def clean(self) -> dict[str, Any]:
        said: dict[str, Any] = super().clean() or self.cleaned_data
        if "account" not in said or "workspace" not in said:
            return said
        account = said["account"]
        if said["workspace"] is None and said.get("kind") != ApiKey.Kind.MANAGEMENT:
            said["workspace"] = Workspace.objects.filter(account=account, is_default=True).first()
        _check_owner(self, account, said.get("kind"))
        return said


class KeyForm(_BoundsForm):
    """What may change of a key; the limit applies to what is already counted."""

    limit_usd = UsdField(label="Limit in USD", required=False, min_value=0, help_text=_LIMIT_HELP)
    limit_enforcement = EnforcementField()

    class Meta:
        model = ApiKey
        fields = (
            *("name", "workspace", "creator"),
            *("limit_usd", "limit_reset", "limit_enforcement", "include_byok_in_limit", "disabled"),
            *("scopes", "allowed_models", "allowed_ips", "rate_limits"),
        )
        help_texts = {
            "workspace": "A key that moves keeps its string, limit and spending.",
            "creator": "The member the key belongs to; a key whose member left is taken up by "
            "another one here.",
        }

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        limit_nano = self.instance.limit_nano
        # Someone who may only look gets the page without the field.
        if limit_nano is not None and "limit_usd" in self.fields:
            self.fields["limit_usd"].initial = format_usd(limit_nano)
        if self.instance.intern_id is not None and "workspace" in self.fields:
            self.fields["workspace"].disabled = True
            self.fields["workspace"].help_text = "An intern's key stays where the intern works."

    def clean(self) -> dict[str, Any]:
        said: dict[str, Any] = super().clean() or self.cleaned_data
        _check_owner(self, self.instance.account, self.instance.kind)
        return said

    def changes(self) -> dict[str, Any]:
        """What was changed, as the key's row has it."""
        return dict(_to_column(name, self.cleaned_data[name]) for name in self.changed_data)


def _to_column(name: str, value: Any) -> tuple[str, Any]:
    match name:
        case "workspace" | "creator":
            return f"{name}_id", value.pk if value else None
        case "limit_usd":
            return "limit_nano", value
        case _:
            return name, value


def _check_owner(form: Form, account: Account, kind: str | None) -> None:
    """Workspace and creator must be the account's own, and a management key has no workspace."""
    workspace, creator = (form.cleaned_data.get(name) for name in ("workspace", "creator"))
    if kind != ApiKey.Kind.MANAGEMENT and form.cleaned_data.get("scopes"):
        form.add_error("scopes", "Scopes are for management keys.")
    if kind == ApiKey.Kind.MANAGEMENT:
        if workspace is not None:
            form.add_error("workspace", "A management key has no workspace.")
        if form.cleaned_data.get("allowed_models"):
            form.add_error("allowed_models", "A management key sends no requests to models.")
    elif workspace is None:
        form.add_error("workspace", "An inference key needs a workspace.")
    elif workspace.account_id != account.pk:
        form.add_error("workspace", "This workspace belongs to another account.")
    members = Membership.objects.filter(account=account, user=creator)
    # Somebody who left already stays named until somebody else takes the key up.
    if creator is not None and "creator" in form.changed_data and not members.exists():
        form.add_error("creator", "This person is no member of the account.")


_WINDOWS = {"total": "All time", "day": "Today", "week": "This week", "month": "This month"}


class StateFilter(admin.SimpleListFilter):
    """Deleted keys are shown on request only."""

    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        words = ("usable", "disabled", "expired", "deleted", "any")
        return [(word, word.capitalize()) for word in words]

    def choices(self, changelist: Any) -> Any:
        every = list(super().choices(changelist))
        every[0]["display"] = "Not deleted"
        return every

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        now = datetime.now(UTC)
        living = queryset.filter(deleted_at__isnull=True)
        match self.value():
            case "usable":
                return queryset.usable(now)
            case "disabled":
                return living.filter(disabled=True)
            case "expired":
                return living.filter(expires_at__lte=now)
            case "deleted":
                return queryset.filter(deleted_at__isnull=False)
            case "any":
                return queryset
        return living


@admin.register(ApiKey)
class ApiKeyAdmin(PageAdmin):
    """Made, limited, disabled and deleted through the services, so every rule holds here too."""

    limit = usd_column("limit_nano", "limit")
    spent = usd_column("spent_nano", "usage")
    list_display = (
        *("name", "label", "account", "workspace_slug", "kind", "state"),
        *("spent", "limit", "limit_reset", "last_used_at"),
    )
    list_filter = (StateFilter, "kind", "limit_reset")
    search_fields = ("name", "label", "hash__exact", "account__name")
    search_help_text = "Name, label, hash, account"
    ordering = ("-id",)
    actions = ("disable", "enable")
    autocomplete_fields = ("account", "workspace", "creator")
    _FIXED = (
        *("label", "hash", "state", "account", "kind", "expires_at"),
        *("external_user", "created_at", "updated_at", "deleted_at", "last_used_at"),
        *("usage", "lately", "histories"),
    )

    def get_queryset(self, request: HttpRequest) -> Any:
        spent = SpendCounter.objects.filter(
            scope=SpendCounter.Scope.KEY,
            scope_id=Cast(OuterRef("pk"), CharField()),
            window=SpendCounter.Window.TOTAL,
        ).values("spent_nano")[:1]
        rows = super().get_queryset(request).select_related("account", "workspace__account")
        whole = Coalesce(Subquery(spent), 0, output_field=BigIntegerField())
        return rows.annotate(spent_nano=whole)

    def get_form(self, request: Any, obj: Any = None, change: bool = False, **options: Any) -> Any:
        return super().get_form(
            request, obj, change, **{"form": KeyForm if obj else NewKeyForm, **options}
        )

    def get_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> Any:
        if obj is None:
            return NewKeyForm.Meta.fields
        if self.has_change_permission(request, obj):
            return (*KeyForm.Meta.fields, *self._FIXED)
        shown = (
            *("name", "workspace", "creator", "limit", "limit_reset", "limit_enforcement"),
            *("include_byok_in_limit", "scopes", "allowed_models", "allowed_ips", "rate_limits"),
        )
        return (*shown, *self._FIXED)

    def get_readonly_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> Any:
        return self._FIXED if obj else ()

    @admin.display(description="workspace", ordering="workspace__slug")
    def workspace_slug(self, key: ApiKey) -> str | None:
        return key.workspace.slug if key.workspace else None

    @admin.display(description="state")
    def state(self, key: ApiKey) -> str:
        if key.deleted_at:
            return "deleted"
        if key.disabled:
            return "disabled"
        return "expired" if key.expires_at and key.expires_at <= datetime.now(UTC) else "usable"

    @admin.display(description="usage (USD)")
    def usage(self, key: ApiKey) -> SafeString:
        spent_nano = read_usage(key=key, at=datetime.now(UTC)).spent
        rows = ((title, format_usd(spent_nano[window])) for window, title in _WINDOWS.items())
        return format_html_join(" · ", "{}: {}", rows)

    @admin.display(description="used")
    def lately(self, key: ApiKey) -> SafeString:
        return render_usage(key.account_id, "key", key.pk)

    @admin.display(description="history")
    def histories(self, key: ApiKey) -> SafeString:
        return render_key_histories(key.pk)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        gone = obj is not None and obj.deleted_at is not None
        return not gone and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        gone = obj is not None and obj.deleted_at is not None
        return not gone and super().has_delete_permission(request, obj)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if change:
            keys = ApiKey.objects.filter(pk=obj.pk)
            change_key(keys=keys, changes=form.changes(), by=operator_actor(request.user))
            return
        said = form.cleaned_data
        key, string = create_key(
            account=said["account"],
            name=said["name"],
            workspace=said["workspace"],
            creator=said["creator"],
            limit_nano=said["limit_usd"],
            limit_reset=said["limit_reset"],
            limit_enforcement=said["limit_enforcement"],
            expires_at=said["expires_at"],
            scopes=said["scopes"],
            allowed_models=said["allowed_models"],
            allowed_ips=said["allowed_ips"],
            rate_limits=said["rate_limits"],
            by=operator_actor(request.user),
        )
        obj.pk = key.pk
        obj.refresh_from_db()
        # Carried to the page that answers this request, and forgotten with it.
        obj.string_shown_once = string

    def response_add(
        self, request: HttpRequest, obj: Any, post_url_continue: Any = None
    ) -> HttpResponse:
        """The page with the key: not a message of the next page, which would have to be stored."""
        context = {
            **self.admin_site.each_context(request),
            "title": "API key made",
            "opts": self.opts,
            "key": obj,
            "string": obj.string_shown_once,
        }
        return TemplateResponse(request, "admin/accounts/apikey/made.html", context)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        delete_keys(keys=ApiKey.objects.filter(pk=obj.pk), by=operator_actor(request.user))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        keys = ApiKey.objects.filter(pk__in=list(queryset.values_list("pk", flat=True)))
        delete_keys(keys=keys, by=operator_actor(request.user))

    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[str], dict[str, int], set[str], list[str]]:
        """The keys alone: history that belongs to them stays, and does not stand in the way."""
        names = [str(key) for key in objs]
        return names, {str(self.opts.verbose_name_plural): len(names)}, set(), []

    @admin.action(description="Disable keys", permissions=["change"])
    def disable(self, request: HttpRequest, keys: ApiKeyQuerySet) -> None:
        self._set_disabled(request, keys, disabled=True)

    @admin.action(description="Enable keys", permissions=["change"])
    def enable(self, request: HttpRequest, keys: ApiKeyQuerySet) -> None:
        self._set_disabled(request, keys, disabled=False)

    def _set_disabled(self, request: HttpRequest, keys: ApiKeyQuerySet, *, disabled: bool) -> None:
        verb = "Disabled" if disabled else "Enabled"
        moving = list(keys.filter(Q(deleted_at__isnull=True) & ~Q(disabled=disabled)))
        chosen = ApiKey.objects.filter(pk__in=[key.pk for key in moving])
        count = set_disabled(keys=chosen, disabled=disabled, by=operator_actor(request.user))
        for key in moving:
            self.log_change(request, key, f"{verb}.")
        messages.success(request, f"{verb} {count} key{'' if count == 1 else 's'}.")
