"""What claims of identity providers give, and whom these providers brought."""

from django.contrib import admin

from accounts.admin.recorded import RecordedAdmin
from accounts.models import ClaimMapping, PersonIdentity
from gateway.admin import ReadOnlyAdmin


@admin.register(ClaimMapping)
class ClaimMappingAdmin(RecordedAdmin):
    """Claim → account, workspace and role. A change counts from the next sign-in on."""

    object_type = "claim_mapping"
    facts = ("provider", "claim", "value", "role", "workspace_id", "workspace_role")
    list_display = ("claim", "value", "provider", "account", "role", "workspace", "workspace_role")
    list_filter = ("role",)
    list_select_related = ("account", "workspace")
    search_fields = ("claim", "value", "account__name")
    autocomplete_fields = ("account", "workspace")
    ordering = ("account__name", "claim", "value")
    actions = None


@admin.register(PersonIdentity)
class PersonIdentityAdmin(ReadOnlyAdmin):
    """Who is who at a provider. One that is deleted is made anew at the next sign-in."""

    list_display = ("user", "issuer", "subject", "created_at")
    list_select_related = ("user",)
    search_fields = ("user__username", "subject")
    ordering = ("user__username", "pk")
