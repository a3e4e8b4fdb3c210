"""/organization and /scim: an account's members, its settings, groups of its directory."""

from typing import Final

from django.http import HttpRequest, HttpResponseBase
from drf_spectacular.utils import OpenApiParameter

from accounts.models import Account
from accounts.services import organization
from accounts.services.directory import groups as scim_groups
from accounts.services.directory import jobs as scim_jobs
from accounts.services.directory.groups import GroupFilter
from accounts.services.records import key_actor
from accounts.views.managed import PAGE, ManagedViewSet, describe_operations, managed_body, read_id
from accounts.views.schemas.organization import (
    KeepMembers,
    MappingChanges,
    MappingObject,
    NewMapping,
    OrganizationChanges,
    OrganizationMember,
    OrganizationSettings,
    ScimGroupObject,
    SyncJobObject,
    serialize_group,
    serialize_mapping,
    serialize_member,
    serialize_organization,
)
from gateway.database.db import Lane, run_queries
from gateway.http.errors import SchemaInvalid
from gateway.http.paging import parse_page
from gateway.http.responses import json_response
from gateway.http.validation import Issue, describe_options
from gateway.openapi.components import TEXT, UUID_TEXT, answer_of, component, deletion_of, list_of

_MAPPING: Final = OpenApiParameter(
    "mapping", UUID_TEXT, OpenApiParameter.PATH, description="The mapping's `id`."
)
_JOB: Final = OpenApiParameter(
    "job", UUID_TEXT, OpenApiParameter.PATH, description="The job's `id`."
)
_GROUP_FILTERS: Final = [
    OpenApiParameter("display_name", TEXT, description="Exactly this name."),
    OpenApiParameter("external_id", TEXT, description="Exactly this id of the directory's."),
]
_KEEP: Final = {"true": True, "false": False}
_organization = describe_operations("Organization")
_groups = describe_operations("Directory groups", path=[_MAPPING])


class OrganizationViewSet(ManagedViewSet):
    """The account as an organization."""

    @_organization(
        "listOrganizationMembers",
        "List members of the organization",
        "Who belongs to the account, newest first. A personal account has no such list.",
        list_of(OrganizationMember),
        400,
        404,
        parameters=PAGE,
    )
    def list_members(self, request: HttpRequest) -> HttpResponseBase:
        caller, page = self.manager(request), parse_page(request.GET)
        return self.answer_page(
            lambda: organization.list_members(caller.account_id, page),
            serialize_member,
        )

    @_organization(
        "getOrganizationSettings",
        "Get settings of the organization",
        "What holds for all keys of the account.",
        answer_of(OrganizationSettings),
    )
    def retrieve(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        account = run_queries(Lane.READ, lambda: Account.objects.get(pk=caller.account_id))
        return json_response({"data": serialize_organization(account)})

    @_organization(
        "updateOrganizationSettings",
        "Change settings of the organization",
        "The settings as they are now; requests follow within a second.",
        answer_of(OrganizationSettings),
        400,
        body=OrganizationChanges,
    )
    def partial_update(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        body = OrganizationChanges.read(managed_body(request))
        account = run_queries(
            Lane.OPERATOR,
            lambda: organization.change_account(
                account_id=caller.account_id,
                changes={
                    "is_filtered_model_catalog_enabled": body.is_filtered_model_catalog_enabled
                },
                by=key_actor(caller),
            ),
        )
        return json_response({"data": serialize_organization(account)})


class ScimGroupsViewSet(ManagedViewSet):
    """Groups of the account's directory."""

    @_groups(
        "listScimGroups",
        "List groups of the directory",
        "Groups that the directory (`/scim/v2`) or an operator's command filled, newest first.",
        list_of(ScimGroupObject),
        400,
        parameters=[*PAGE, *_GROUP_FILTERS],
    )
    def list(self, request: HttpRequest) -> HttpResponseBase:
        caller, page = self.manager(request), parse_page(request.GET)
        wanted = GroupFilter(
            request.GET.get("display_name", ""), request.GET.get("external_id", "")
        )
        return self.answer_page(
            lambda: scim_groups.list_groups(caller.account_id, wanted, page),
            serialize_group,
        )


class GroupMappingsViewSet(ManagedViewSet):
    """Which groups get into which workspaces."""

    @_groups(
        "listScimGroupMappings",
        "List group mappings",
        "Mappings of groups to workspaces, newest first.",
        list_of(MappingObject),
        400,
        parameters=PAGE,
    )
    def list(self, request: HttpRequest) -> HttpResponseBase:
        caller, page = self.manager(request), parse_page(request.GET)
        return self.answer_page(
            lambda: scim_groups.list_mappings(caller.account_id, page),
            serialize_mapping,
        )

    @_groups(
        "createScimGroupMapping",
        "Map a group to a workspace",
        "The mapping, whose members are in the workspace from now on. The same mapping again is "
        "the same answer; with another role it is refused.",
        answer_of(MappingObject),
        400,
        409,
        success=201,
        body=NewMapping,
        parameters=[],
    )
    def create(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        body = NewMapping.read(managed_body(request))
        row = run_queries(
            Lane.OPERATOR,
            lambda: scim_groups.create_mapping(
                account_id=caller.account_id,
                group_id=body.scim_group_id,
                workspace_id=body.workspace_id,
                role=body.role,
                by=key_actor(caller),
            ),
        )
        return json_response({"data": serialize_mapping(row)}, status=201)

    @_groups(
        "getScimGroupMapping",
        "Get a group mapping",
        "The mapping.",
        answer_of(MappingObject),
        400,
        404,
    )
    def retrieve(self, request: HttpRequest, mapping: str) -> HttpResponseBase:
        caller, mapping_id = self.manager(request), read_id(mapping)
        row = run_queries(
            Lane.READ, lambda: scim_groups.find_mapping(caller.account_id, mapping_id)
        )
        return json_response({"data": serialize_mapping(row)})

    @_groups(
        "updateScimGroupMapping",
        "Change a group mapping",
        "The mapping with its new role, which its members have from now on.",
        answer_of(MappingObject),
        400,
        404,
        body=MappingChanges,
    )
    def partial_update(self, request: HttpRequest, mapping: str) -> HttpResponseBase:
        caller, mapping_id = self.manager(request), read_id(mapping)
        body = MappingChanges.read(managed_body(request))
        row = run_queries(
            Lane.OPERATOR,
            lambda: scim_groups.change_mapping(
                account_id=caller.account_id,
                mapping_id=mapping_id,
                role=body.role,
                by=key_actor(caller),
            ),
        )
        return json_response({"data": serialize_mapping(row)})

    @_groups(
        "deleteScimGroupMapping",
        "Delete a group mapping",
        "With `keep_members=true` its members stay as if somebody had added them by hand; with "
        "`false` those go whose only access it was, and their keys there are disabled.",
        deletion_of(MappingObject),
        400,
        404,
        parameters=[_MAPPING, component(KeepMembers)],
    )
    def destroy(self, request: HttpRequest, mapping: str) -> HttpResponseBase:
        caller, mapping_id = self.manager(request), read_id(mapping)
        keep = _KEEP.get(request.GET.get("keep_members", ""))
        if keep is None:
            raise SchemaInvalid([Issue("keep_members", describe_options(tuple(_KEEP)))])
        run_queries(
            Lane.OPERATOR,
            lambda: scim_groups.delete_mapping(
                account_id=caller.account_id,
                mapping_id=mapping_id,
                keep_members=keep,
                by=key_actor(caller),
            ),
        )
        return json_response({"deleted": True})


class SyncJobsViewSet(ManagedViewSet):
    """Runs over the account's groups."""

    @_groups(
        "createScimSyncJob",
        "Sync groups",
        "A job that lets memberships follow the groups once more and removes deleted groups. It "
        "begins within seconds.",
        answer_of(SyncJobObject),
        400,
        success=202,
        parameters=[],
    )
    def create(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        job = run_queries(
            Lane.OPERATOR,
            lambda: scim_jobs.queue_job(
                account_id=caller.account_id, management_key_id=caller.key_id
            ),
        )
        return json_response({"data": SyncJobObject.from_row(job)}, status=202)

    @_groups(
        "getScimSyncJob",
        "Get a sync job",
        "How far it is.",
        answer_of(SyncJobObject),
        400,
        404,
        parameters=[_JOB],
    )
    def retrieve(self, request: HttpRequest, job: str) -> HttpResponseBase:
        caller, job_id = self.manager(request), read_id(job)
        row = run_queries(Lane.READ, lambda: scim_jobs.find_job(caller.account_id, job_id))
        return json_response({"data": SyncJobObject.from_row(row)})
