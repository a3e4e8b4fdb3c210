"""Organizations, groups of directories and their mappings: the fields of bodies and objects."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import ConfigDict, Field

from accounts.limit_words import ManagedBody
from accounts.models import Account, Membership, ScimGroup, ScimGroupMapping
from accounts.roles import Action, list_account_roles
from accounts.views.schemas.fields import Id
from gateway.http.jsonio import JsonObject
from gateway.http.resources import Query, ResourceObject

Role = Literal["admin", "member", "viewer"]


class OrganizationMember(ResourceObject):
    """Who belongs to the account."""

    id: str
    email: str
    first_name: str
    last_name: str
    role: Literal["org:admin", "org:member"]


class OrganizationSettings(ResourceObject):
    """What holds for all keys of the account."""

    id: UUID
    is_filtered_model_catalog_enabled: bool = Field(
        description="`GET /models` with a key of the account lists what that key may use."
    )


class OrganizationChanges(ManagedBody):
    """What may change of them."""

    is_filtered_model_catalog_enabled: bool


class ScimGroupObject(ResourceObject):
    """A group of the account's directory."""

    model_config = ConfigDict(title="ScimGroup")

    id: UUID
    organization_id: UUID
    display_name: str
    external_id: str | None
    created_at: datetime
    updated_at: datetime


class NewMapping(ManagedBody):
    """Members of the group get into the workspace with the role."""

    model_config = ConfigDict(title="ScimGroupMappingWanted")

    scim_group_id: Id
    workspace_id: Id
    role: Role


class MappingChanges(ManagedBody):
    """What may change of a mapping."""

    model_config = ConfigDict(title="ScimGroupMappingChanges")

    role: Role


class MappingObject(ResourceObject):
    """A group that is mapped to a workspace. The highest role wins where several reach a member."""

    model_config = ConfigDict(title="ScimGroupMapping")

    id: UUID
    organization_id: UUID
    scim_group_id: UUID
    workspace_id: UUID
    role: Role
    created_at: datetime
    updated_at: datetime


class KeepMembers(Query):
    """What becomes of members when a mapping is deleted."""

    keep_members: str = Field(json_schema_extra={"enum": ["true", "false"]})


class SyncJobObject(ResourceObject):
    """One run over the account's groups."""

    model_config = ConfigDict(title="ScimSyncJob")

    id: UUID
    status: Literal["queued", "running", "succeeded", "failed"]
    synced_groups: int | None = Field(description="Groups there are, once it succeeded.")
    deleted_groups: int | None = Field(description="Groups removed that had been deleted.")
    error_message: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


def serialize_member(row: Membership) -> JsonObject:
    """The JSON of an `OrganizationMember`."""
    user = row.user
    return OrganizationMember.from_row(
        user,
        id=user.public_id,
        role="org:admin" if row.role in list_account_roles(Action.MEMBERS) else "org:member",
        email=user.email or user.username,
    )


def serialize_organization(account: Account) -> JsonObject:
    """The JSON of an `OrganizationSettings`."""
    return OrganizationSettings.from_row(account)


def serialize_group(row: ScimGroup) -> JsonObject:
    """The JSON of a `ScimGroupObject`."""
    return ScimGroupObject.from_row(row, organization_id=str(row.account_id))


def serialize_mapping(row: ScimGroupMapping) -> JsonObject:
    """The JSON of a `MappingObject`."""
    return MappingObject.from_row(
        row, organization_id=str(row.group.account_id), scim_group_id=str(row.group_id)
    )
