"""Members of workspaces. All who are named are moved, or nobody."""

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from accounts.models import (
    ApiKey,
    ClaimMapping,
    Membership,
    ScimGroupMapping,
    Workspace,
    WorkspaceMembership,
)
from accounts.roles import Action, list_account_roles
from accounts.services.lost_keys import disable_lost_keys
from accounts.services.records import Actor
from accounts.services.workspaces import find_workspace, record_workspace
from gateway.http.errors import InvalidRequest, NotFound, SchemaInvalid
from gateway.http.paging import Page
from gateway.http.validation import Issue

_HAS_KEYS: Final = "Member still has active API keys in this workspace"
_IN_GROUP: Final = "Member belongs to a directory group that is mapped to this workspace"


class WorkspaceMember(NamedTuple):
    """A person in a workspace; `role` is `admin` or `member`."""

    id: UUID
    workspace_id: UUID
    user_id: str
    role: str
    created_at: datetime


class DefaultMembersFixed(InvalidRequest):
    message = "Members of the default workspace cannot be removed"


def list_members(
    *, account_id: UUID, reference: str, page: Page
) -> tuple[list[WorkspaceMember], int]:
    """One page, newest first, and how many there are. Raises `NotFound`."""
    workspace = find_workspace(account_id, reference)
    rows: Any = _select_members(workspace).order_by("-created_at", "pk")
    return [_build_member(workspace, row) for row in rows[page.rows]], rows.count()


def add_members(
    *, account_id: UUID, reference: str, by: Actor, user_ids: Sequence[str]
) -> tuple[list[WorkspaceMember], int]:
    """The members named, and how many memberships were made or renewed.

    Everybody of the account belongs to its default workspace already. Raises `NotFound`, and
    `SchemaInvalid` for people who are not of the account.
    """
    with transaction.atomic():
        workspace = find_workspace(account_id, reference)
        joining = _load_memberships(workspace, user_ids)
        if workspace.is_default:
            return [_build_member(workspace, each) for each in joining], 0
        WorkspaceMembership.objects.bulk_create(
            [
                WorkspaceMembership(
                    workspace=workspace,
                    membership=each,
                    role=WorkspaceMembership.Role.ADMIN if each.leads else _shorten_role(each.role),
                    own_role=_shorten_role(each.role),
                )
                for each in joining
            ],
            update_conflicts=True,
            unique_fields=["workspace", "membership"],
            update_fields=["role", "own_role"],
        )
        rows = _select_members(workspace).filter(membership__in=joining)
        record_workspace(
            by,
            "members added",
            workspace,
            None,
            {"user_ids": [each.user.public_id for each in joining]},
        )
    return [_build_member(workspace, row) for row in rows.order_by("-created_at", "pk")], len(
        joining
    )


def remove_members(*, account_id: UUID, reference: str, by: Actor, user_ids: Sequence[str]) -> int:
    """How many of those named were members and are so no longer.

    Raises `NotFound`, `DefaultMembersFixed`, and `SchemaInvalid` for whoever still has an active
    key there, or is there by a group. The workspace is locked meanwhile, so that nobody gets one.
    """
    with transaction.atomic():
        workspace = find_workspace(account_id, reference, lock=True)
        if workspace.is_default:
            raise DefaultMembersFixed
        keys = ApiKey.objects.usable(datetime.now(UTC)).filter(
            workspace=OuterRef("workspace"), creator=OuterRef("membership__user")
        )
        groups = match_groups(user="membership__user", workspace=OuterRef("workspace"))
        members = _select_members(workspace).filter(membership__user__public_id__in=user_ids)
        leaving = list(members.annotate(has_keys=Exists(keys), has_groups=groups))
        reasons = {
            row.membership.user.public_id: _IN_GROUP if row.has_groups else _HAS_KEYS
            for row in leaving
            if row.has_keys or row.has_groups
        }
        if reasons:
            raise SchemaInvalid(
                [
                    Issue(f"user_ids.{i}", reasons[each])
                    for i, each in enumerate(user_ids)
                    if each in reasons
                ]
            )
        WorkspaceMembership.objects.filter(pk__in=[row.pk for row in leaving]).delete()
        if leaving:
            removed_ids = [row.membership.user.public_id for row in leaving]
            record_workspace(by, "members removed", workspace, {"user_ids": removed_ids}, None)
    return len(leaving)


def change_role(*, account_id: UUID, reference: str, user_id: str, role: str, by: Actor) -> None:
    """Make a member an admin, a plain member or a viewer of a workspace other than the default one.
    A viewer's keys there are disabled. A group of a directory may say more. Raises `NotFound`.
    """
    with transaction.atomic():
        workspace = find_workspace(account_id, reference, lock=True)
        rows = WorkspaceMembership.objects.filter(workspace=workspace)
        members = rows.filter(membership__user__public_id=user_id)
        row = members.select_related("membership").first()
        if row is None:
            raise NotFound
        leading = match_groups(
            user="membership__user", workspace=workspace.pk, role=WorkspaceMembership.Role.ADMIN
        )
        leads = rows.filter(leading, pk=row.pk).exists()
        before = row.role
        row.own_role = role
        row.role = WorkspaceMembership.Role.ADMIN if leads else role
        row.save(update_fields=["role", "own_role"])
        disable_lost_keys([row], by)
        facts = [{"user_id": user_id, "role": each} for each in (before, row.role)]
        if before != row.role:
            record_workspace(by, "member changed", workspace, *facts)


def _select_members(workspace: Workspace) -> Any:
    """Who is in it: everybody of the account where it is the default one."""
    if workspace.is_default:
        return Membership.objects.filter(account_id=workspace.account_id).select_related("user")
    mine = WorkspaceMembership.objects.filter(workspace=workspace)
    return mine.select_related("membership__user")


def match_groups(*, user: str, workspace: Any, role: str = "") -> Q:
    """Whether a group or a claim gives the outer query's `user` the workspace, in that role where
    one is named."""
    groups = ScimGroupMapping.objects.filter(group__deleted_at__isnull=True, workspace=workspace)
    claims = ClaimMapping.objects.filter(workspace=workspace)
    if role:
        groups, claims = groups.filter(role=role), claims.filter(workspace_role=role)
    found = Q()
    for rows, people in (
        (groups, "group__members"),
        (groups, "group__claimants"),
        (claims, "people"),
    ):
        person = {f"{people}__active": True, f"{people}__user": OuterRef(user)}
        found |= Q(Exists(rows.filter(**person)))
    return found


def _load_memberships(workspace: Workspace, user_ids: Sequence[str]) -> list[Any]:
    """Each with `leads`: whether a group makes it an admin of the workspace."""
    leading = match_groups(user="user", workspace=workspace.pk, role=WorkspaceMembership.Role.ADMIN)
    rows: Any = Membership.objects.filter(
        account_id=workspace.account_id, user__public_id__in=user_ids
    ).annotate(leads=leading)
    known = {row.user.public_id: row for row in rows.select_related("user")}
    text = "Invalid input: no member of this account"
    issues = [Issue(f"user_ids.{i}", text) for i, each in enumerate(user_ids) if each not in known]
    if issues:
        raise SchemaInvalid(issues)
    return list(known.values())


def _build_member(workspace: Workspace, row: Membership | WorkspaceMembership) -> WorkspaceMember:
    """A membership of the account stands for one of its default workspace, under an own id."""
    if isinstance(row, WorkspaceMembership):
        user = row.membership.user
        return WorkspaceMember(row.pk, workspace.pk, user.public_id, row.role, row.created_at)
    implied = uuid.uuid5(workspace.pk, row.user.public_id)
    return WorkspaceMember(
        implied, workspace.pk, row.user.public_id, _shorten_role(row.role), row.created_at
    )


def _shorten_role(role: str) -> str:
    """`admin` or `member`, of a role in the account."""
    return "admin" if role in list_account_roles(Action.WORKSPACES) else "member"
