"""API keys: pages and forms. A key's string is shown once, when it is made, and stored nowhere."""

from datetime import UTC, datetime
from typing import Any

from django.contrib import admin, messages
from django.db.models import BigIntegerField, CharField, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Cast, Coalesce
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from accounts.admin.history import render_key_histories, render_usage
from accounts.admin.key_forms import KeyForm, NewKeyForm, list_managed_slugs
from accounts.models import ApiKey, SpendCounter
from accounts.models.key import ApiKeyQuerySet
from accounts.services.key_limits import read_usage
from accounts.services.keys import change_key, create_key, delete_keys, set_disabled
from accounts.services.records import operator_actor
from gateway.admin import KeptRowsAdmin, usd_column
from gateway.http.jsonio import format_usd

_WINDOWS = {"total": "All time", "day": "Today", "week": "This week", "month": "This month"}


class StateFilter(admin.SimpleListFilter):
    """Deleted keys are shown on request only."""

    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: object) -> list[tuple[str, str]]:
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
class ApiKeyAdmin(KeptRowsAdmin):
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
    form, new_form = KeyForm, NewKeyForm
    new_fields = NewKeyForm.Meta.fields
    fields = (*KeyForm.Meta.fields, *_FIXED)
    fixed_fields = ("managed_workspaces", *_FIXED)
    viewer_fields = (
        *("name", "workspace", "creator", "limit", "limit_reset", "limit_enforcement"),
        *("include_byok_in_limit", "scopes", "managed_workspaces", "allowed_models"),
        *("allowed_ips", "rate_limits", "hedge", "rescue", *_FIXED),
    )
    related = ("account", "workspace__account")

    def get_queryset(self, request: HttpRequest) -> Any:
        spent = SpendCounter.objects.filter(
            scope=SpendCounter.Scope.KEY,
            scope_id=Cast(OuterRef("pk"), CharField()),
            window=SpendCounter.Window.TOTAL,
        ).values("spent_nano")[:1]
        whole = Coalesce(Subquery(spent), 0, output_field=BigIntegerField())
        return super().get_queryset(request).annotate(spent_nano=whole)

    @admin.display(description="for workspaces")
    def managed_workspaces(self, key: ApiKey) -> str:
        slugs = list_managed_slugs(key)
        return "all" if slugs is None else ", ".join(slugs)

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
        cleaned = form.cleaned_data
        key, string = create_key(
            account=cleaned["account"],
            name=cleaned["name"],
            workspace=cleaned["workspace"],
            creator=cleaned["creator"],
            limit_nano=cleaned["limit_usd"],
            limit_reset=cleaned["limit_reset"],
            limit_enforcement=cleaned["limit_enforcement"],
            expires_at=cleaned["expires_at"],
            scopes=cleaned["scopes"],
            managed_workspaces=cleaned["for_workspaces"],
            allowed_models=cleaned["allowed_models"],
            allowed_ips=cleaned["allowed_ips"],
            rate_limits=cleaned["rate_limits"],
            hedge=cleaned["hedge"],
            rescue=cleaned["rescue"],
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
