"""What claims of identity providers give, and whom these providers brought."""

from typing import Any

from django.contrib import admin
from django.db import transaction
from django.http import HttpRequest

from accounts.models import ClaimMapping, PersonIdentity
from accounts.services.records import operator_actor, read_fields, record_change
from gateway.admin import PageAdmin, ReadOnlyAdmin

_FACTS = ("provider", "claim", "value", "role", "workspace_id", "workspace_role")


@admin.register(ClaimMapping)
class ClaimMappingAdmin(PageAdmin):
    """Claim → account, workspace and role. A change counts from the next sign-in on."""

    list_display = ("claim", "value", "provider", "account", "role", "workspace", "workspace_role")
    list_filter = ("role",)
    list_select_related = ("account", "workspace")
    search_fields = ("claim", "value", "account__name")
    autocomplete_fields = ("account", "workspace")
    ordering = ("account__name", "claim", "value")
    actions = None

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        with transaction.atomic():
            before = None
            if change:
                before = read_fields(ClaimMapping.objects.get(pk=obj.pk), _FACTS)
            super().save_model(request, obj, form, change)
            self._record(request, obj, before, read_fields(obj, _FACTS))

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        with transaction.atomic():
            self._record(request, obj, read_fields(obj, _FACTS), None)
            super().delete_model(request, obj)

    def _record(self, request: HttpRequest, obj: Any, before: Any, after: Any) -> None:
        record_change(
            by=operator_actor(request.user),
            action="deleted" if after is None else "updated" if before else "created",
            object_type="claim_mapping",
            object_id=obj.pk,
            account_id=obj.account_id,
            before=before,
            after=after,
        )


@admin.register(PersonIdentity)
class PersonIdentityAdmin(ReadOnlyAdmin):
    """Who is who at a provider. One that is deleted is made anew at the next sign-in."""

    list_display = ("user", "issuer", "subject", "created_at")
    list_select_related = ("user",)
    search_fields = ("user__username", "subject")
    ordering = ("user__username", "pk")
