"""Who comes from elsewhere. These are people of identity providers and what their claims give, and
programs with tokens of trusted issuers. People and groups of directories are written by
directories."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Count
from django.http import HttpRequest

from accounts.admin.fields import UsdField
from accounts.admin.recorded import RecordedAdmin, RecordedMixin
from accounts.models import (
    ApiKey,
    ClaimMapping,
    DeletedScimUser,
    PersonIdentity,
    ScimGroup,
    ScimGroupMapping,
    ScimSyncJob,
    ScimUser,
    TrustedIssuer,
    Workload,
    Workspace,
)
from accounts.scopes import SCOPES
from accounts.services.directory.claim_mappings import delete_mapping, save_mapping
from accounts.services.directory.users import forget_deletion
from accounts.services.records import operator_actor
from accounts.services.workloads import change_workload, create_workload, delete_workload
from gateway.admin import Form, PageAdmin, ReadOnlyAdmin, count_column
from gateway.http.tags import TAGS_MAX, select_tags


@admin.register(ClaimMapping)
class ClaimMappingAdmin(RecordedAdmin):
    """Claim → account, workspace and role. The workspace and the roles that it gave go with it at
    once; all else counts from the next sign-in on."""

    object_type = "claim_mapping"
    facts = ("provider", "claim", "value", "role", "workspace_id", "workspace_role")
    list_display = ("claim", "value", "provider", "account", "role", "workspace", "workspace_role")
    list_filter = ("role",)
    list_select_related = ("account", "workspace")
    search_fields = ("claim", "value", "account__name")
    autocomplete_fields = ("account", "workspace")
    ordering = ("account__name", "claim", "value")
    actions = None

    def save_row(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        save_mapping(mapping=obj, by=operator_actor(request.user))

    def delete_row(self, request: HttpRequest, obj: Any) -> None:
        delete_mapping(mapping=obj, by=operator_actor(request.user))


@admin.register(PersonIdentity)
class PersonIdentityAdmin(RecordedMixin, ReadOnlyAdmin):
    """Who is who at a provider. One that is deleted is made anew at the next sign-in."""

    object_type = "identity"
    facts = ("user_id", "issuer", "subject")
    list_display = ("user", "issuer", "subject", "created_at")
    list_select_related = ("user",)
    search_fields = ("user__username", "subject")
    ordering = ("user__username", "pk")
    can_delete = True

    def find_account_id(self, obj: object) -> None:
        """Nobody's own: a person may belong to several."""


@admin.register(TrustedIssuer)
class TrustedIssuerAdmin(RecordedAdmin):
    """Whose tokens an account takes. Disabled, none of them counts within a second."""

    object_type = "trusted_issuer"
    facts = ("name", "url", "jwks_url", "audience", "enabled")
    list_display = ("name", "account", "url", "audience", "enabled")
    list_filter = ("enabled",)
    list_select_related = ("account",)
    search_fields = ("name", "url", "account__name")
    autocomplete_fields = ("account",)
    ordering = ("account__name", "name")
    actions = None
    fixed_fields = ("account",)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Not while workloads stand behind it: their keys end with them."""
        is_used = obj is not None and obj.workloads.exists()
        return not is_used and super().has_delete_permission(request, obj)


class WorkloadForm(Form):
    """A new workload, with the limits that its key begins with; the key's page changes them."""

    name = forms.CharField(max_length=100, required=False)
    workspace = forms.ModelChoiceField(
        Workspace.objects.select_related("account"),
        required=False,
        help_text="Where its requests count. Empty: it manages the account, by scopes.",
    )
    limit_usd = UsdField(label="Limit in USD", required=False, min_value=0)
    limit_reset = forms.ChoiceField(
        label="The limit begins anew",
        required=False,
        choices=[("", "Never"), *ApiKey.Reset.choices],
    )
    scopes = forms.MultipleChoiceField(
        choices=[(each, each) for each in SCOPES],
        required=False,
        help_text="Of one that manages; none is everything.",
    )

    class Meta:
        model = Workload
        fields = ("issuer", "conditions", "tags")
        help_texts = {
            "conditions": 'A pattern for each claim: {"sub": "repo:acme/app:*"}',
            "tags": 'Of its requests, as texts or claims: {"team": "build", "branch": "{ref}"}',
        }

    def clean_conditions(self) -> dict[str, str]:
        found = self.cleaned_data["conditions"]
        is_good = isinstance(found, dict) and all(
            isinstance(pattern, str) and pattern.strip("*") for pattern in found.values()
        )
        if not found or not is_good:
            raise forms.ValidationError("Name at least one claim, each with a pattern of text.")
        return dict(found)

    def clean_tags(self) -> dict[str, str] | None:
        found = self.cleaned_data["tags"]
        if found and (not isinstance(found, dict) or select_tags(found) != found):
            raise forms.ValidationError(
                f"Name at most {TAGS_MAX} tags, each with a text, as `X-Tags` may have them."
            )
        return found or None

    def clean(self) -> None:
        issuer = self.cleaned_data.get("issuer")
        workspace = self.cleaned_data.get("workspace")
        if issuer and workspace and workspace.account_id != issuer.account_id:
            self.add_error("workspace", "This workspace belongs to another account.")
        if workspace and self.cleaned_data.get("scopes"):
            self.add_error("scopes", "Scopes are for workloads that manage.")


@admin.register(Workload)
class WorkloadAdmin(PageAdmin):
    """Programs by the claims of their tokens. The first that fits counts."""

    form = WorkloadForm
    list_display = ("key", "issuer", "conditions", "created_at")
    list_select_related = ("key", "issuer__account")
    search_fields = ("key__name", "issuer__name", "issuer__account__name")
    autocomplete_fields = ("issuer",)
    ordering = ("pk",)
    actions = None
    new_fields = (
        *("issuer", "name", "conditions", "tags", "workspace"),
        *("limit_usd", "limit_reset", "scopes"),
    )
    fields = ("issuer", "key", "conditions", "tags")
    fixed_fields = ("issuer", "key")

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        by, cleaned = operator_actor(request.user), form.cleaned_data
        if change:
            before = Workload.objects.get(pk=obj.pk)
            facts = {"conditions": cleaned["conditions"], "tags": cleaned["tags"]}
            change_workload(workload=before, by=by, **facts)
            return
        made = create_workload(
            issuer=cleaned["issuer"],
            name=cleaned["name"] or "workload",
            conditions=cleaned["conditions"],
            workspace=cleaned["workspace"],
            limit_nano=cleaned["limit_usd"],
            limit_reset=cleaned["limit_reset"] or None,
            scopes=cleaned["scopes"] or None,
            tags=cleaned["tags"],
            by=by,
        )
        # The page goes on with what was made.
        obj.pk, obj.key = made.pk, made.key
        obj._state.adding = False

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        delete_workload(workload=obj, by=operator_actor(request.user))


@admin.register(ScimUser)
class ScimUserAdmin(ReadOnlyAdmin):
    """People who are not active have lost membership and keys."""

    list_display = ("user_name", "account", "active", "external_id", "updated_at")
    list_filter = ("active",)
    list_select_related = ("account",)
    search_fields = ("user_name", "external_id", "account__name")
    ordering = ("account__name", "user_name")


@admin.register(DeletedScimUser)
class DeletedScimUserAdmin(RecordedMixin, ReadOnlyAdmin):
    """People whom a directory deleted, and no provider brings back. A person who is deleted here
    may come again.
    """

    object_type = "deleted_scim_user"
    facts = ("user_id", "user_name", "external_id")
    list_display = ("user_name", "account", "user", "external_id", "deleted_at")
    list_select_related = ("account", "user")
    search_fields = ("user_name", "external_id", "account__name")
    ordering = ("account__name", "user_name")
    can_delete = True

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        forget_deletion(obj)


@admin.register(ScimGroup)
class ScimGroupAdmin(ReadOnlyAdmin):
    """Deleted groups are not among them."""

    list_display = ("display_name", "account", "external_id", "member_count", "updated_at")
    list_select_related = ("account",)
    search_fields = ("display_name", "external_id", "account__name")
    ordering = ("account__name", "display_name")

    member_count = count_column("people", "members")

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).annotate(people=Count("members"))


@admin.register(ScimGroupMapping)
class ScimGroupMappingAdmin(ReadOnlyAdmin):
    """Which group gets into which workspace; the API makes and changes them."""

    list_display = ("group", "workspace", "role", "updated_at")
    list_filter = ("role",)
    list_select_related = ("group", "workspace__account")
    search_fields = ("group__display_name", "workspace__slug", "workspace__account__name")
    ordering = ("workspace__account__name", "group__display_name")


@admin.register(ScimSyncJob)
class ScimSyncJobAdmin(ReadOnlyAdmin):
    """Runs over an account's groups, newest first."""

    list_display = ("created_at", "account", "status", "synced_groups", "deleted_groups")
    list_filter = ("status",)
    list_select_related = ("account",)
    search_fields = ("account__name",)
    ordering = ("-created_at",)
