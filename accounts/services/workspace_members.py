"""Members of workspaces (management reference 5.7). All who are named are moved, or nobody."""

import uuid
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef

from accounts.models import ApiKey, Membership, Workspace, WorkspaceMembership
from accounts.services.records import Actor
from accounts.services.workspaces import find_workspace, record_of_workspace
from gateway.http.errors import InvalidRequest, SchemaInvalid
from gateway.http.paging import Page
from gateway.http.validation import Issue


class Member(NamedTuple):
    """A person in a workspace; `role` is `admin` or `member`."""

    id: UUID
    workspace_id: UUID
    user_id: str
    role: str
    created_at: datetime


class DefaultHasEverybody(InvalidRequest):
    message = "Members of the default workspace cannot be removed"


def page_of_members(*, account_id: UUID, reference: str, page: Page) -> tuple[list[Member], int]:
    """One page, newest first, and how many there are. Raises `NotFound`."""
    workspace = find_workspace(account_id, reference)
    rows: Any = _rows_of(workspace).order_by("-created_at", "pk")
    return [_member(workspace, row) for row in rows[page.rows]], rows.count()


def add_members(
    *, account_id: UUID, reference: str, by: Actor, user_ids: Sequence[str]
) -> tuple[list[Member], int]:
    """The members named, and how many memberships were made or renewed.

    Everybody of the account belongs to its default workspace already. Raises `NotFound`, and
    `SchemaInvalid` for whoever is not of the account.
    """
    with transaction.atomic():
        workspace = find_workspace(account_id, reference)
        joining = _of_the_account(account_id, user_ids)
        if workspace.is_default:
            return [_member(workspace, each) for each in joining], 0
        _join(workspace, joining)
        rows = _rows_of(workspace).filter(membership__in=joining)
        record_of_workspace(
            by, "members added", workspace, None, _told(each.user.public_id for each in joining)
        )
    return [_member(workspace, row) for row in rows.order_by("-created_at", "pk")], len(joining)


def remove_members(*, account_id: UUID, reference: str, by: Actor, user_ids: Sequence[str]) -> int:
    """How many of those named were members and are so no longer.

    Raises `NotFound`, `DefaultHasEverybody`, and `SchemaInvalid` for whoever still has an active
    key there: the workspace is locked meanwhile, so that nobody gets one.
    """
    with transaction.atomic():
        workspace = find_workspace(account_id, reference, lock=True)
        if workspace.is_default:
            raise DefaultHasEverybody
        leaving = list(_leaving(workspace, user_ids))
        busy = {row.membership.user.public_id for row in leaving if row.has_keys}
        if busy:
            text = "Member still has active API keys in this workspace"
            raise SchemaInvalid(
                [Issue(f"user_ids.{i}", text) for i, each in enumerate(user_ids) if each in busy]
            )
        WorkspaceMembership.objects.filter(pk__in=[row.pk for row in leaving]).delete()
        if leaving:
            told = [row.membership.user.public_id for row in leaving]
            record_of_workspace(by, "members removed", workspace, _told(told), None)
    return len(leaving)


def _rows_of(workspace: Workspace) -> Any:
    """Who is in it: everybody of the account where it is the default one."""
    if workspace.is_default:
        return Membership.objects.filter(account_id=workspace.account_id).select_related("user")
    mine = WorkspaceMembership.objects.filter(workspace=workspace)
    return mine.select_related("membership__user")


def _leaving(workspace: Workspace, user_ids: Sequence[str]) -> Any:
    keys = ApiKey.objects.usable(datetime.now(UTC)).filter(
        workspace=OuterRef("workspace"), creator=OuterRef("membership__user")
    )
    return (
        _rows_of(workspace)
        .filter(membership__user__public_id__in=user_ids)
        .annotate(has_keys=Exists(keys))
    )


def _of_the_account(account_id: UUID, user_ids: Sequence[str]) -> list[Membership]:
    rows = Membership.objects.filter(account_id=account_id, user__public_id__in=user_ids)
    known = {row.user.public_id: row for row in rows.select_related("user")}
    text = "Invalid input: no member of this account"
    issues = [Issue(f"user_ids.{i}", text) for i, each in enumerate(user_ids) if each not in known]
    if issues:
        raise SchemaInvalid(issues)
    return list(known.values())


def _join(workspace: Workspace, joining: Sequence[Membership]) -> None:
    rows = [
        WorkspaceMembership(workspace=workspace, membership=each, role=_short(each.role))
        for each in joining
    ]
    WorkspaceMembership.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["workspace", "membership"],
        update_fields=["role"],
    )


def _member(workspace: Workspace, row: Membership | WorkspaceMembership) -> Member:
    """A membership of the account stands for one of its default workspace, under an own id."""
    if isinstance(row, WorkspaceMembership):
        user = row.membership.user
        return Member(row.pk, workspace.pk, user.public_id, row.role, row.created_at)
    implied = uuid.uuid5(workspace.pk, row.user.public_id)
    return Member(implied, workspace.pk, row.user.public_id, _short(row.role), row.created_at)


def _short(role: str) -> str:
    """`admin` or `member`, of a role in the account."""
    return role.removeprefix("org:")


def _told(user_ids: Iterable[str]) -> dict[str, Any]:
    return {"user_ids": list(user_ids)}
