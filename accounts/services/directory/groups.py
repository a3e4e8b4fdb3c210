"""Groups of a directory, their mappings to workspaces, and the memberships that follow."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q

from accounts.models import (
    Account,
    ClaimMapping,
    Membership,
    ScimGroup,
    ScimGroupMapping,
    ScimUser,
    Workspace,
    WorkspaceMembership,
)
from accounts.services.lost_keys import Place, disable_lost_keys
from accounts.services.records import Actor, read_fields, record_change, record_row
from gateway.http.errors import Conflict, InvalidRequest, NotFound, SchemaInvalid
from gateway.http.jsonio import JsonObject
from gateway.http.paging import Page
from gateway.http.validation import Issue

_record_group: Final = partial(record_row, "scim_group")
_record_mapping: Final = partial(record_row, "scim_mapping")

_ADMIN: Final = WorkspaceMembership.Role.ADMIN
_VIEWER: Final = WorkspaceMembership.Role.VIEWER
_FROM_HIGHEST: Final = WorkspaceMembership.Role.values
_MAPPING_FACTS: Final = ("group_id", "workspace_id", "role")


class MappedOtherwise(Conflict):
    message = "This group is mapped to the workspace with another role. Change that mapping."


class DefaultWorkspaceMapped(InvalidRequest):
    message = "Everybody of the account belongs to its default workspace"


class GroupNameTaken(Conflict):
    scim_type, message = "uniqueness", "This displayName is taken"


class GroupFilter(NamedTuple):
    """Exact matches; an empty one says nothing."""

    display_name: str = ""
    external_id: str = ""


def list_groups(account_id: UUID, wanted: GroupFilter, page: Page) -> tuple[list[ScimGroup], int]:
    """One page, newest first, and how many there are."""
    if any("\x00" in value for value in wanted):
        # No text in the database has it.
        return [], 0
    rows = ScimGroup.objects.filter(account_id=account_id)
    rows = rows.filter(**{name: value for name, value in wanted._asdict().items() if value})
    return list(rows.order_by("-created_at", "pk")[page.rows]), rows.count()


def list_mappings(account_id: UUID, page: Page) -> tuple[list[ScimGroupMapping], int]:
    """One page, newest first, with their groups, and how many there are."""
    rows = select_mappings(account_id)
    return list(rows.order_by("-created_at", "pk")[page.rows]), rows.count()


def select_mappings(account_id: UUID) -> Any:
    """Mappings of living groups to living workspaces, with their groups."""
    rows = ScimGroupMapping.objects.filter(
        group__account=account_id,
        group__deleted_at__isnull=True,
        workspace__deleted_at__isnull=True,
    )
    return rows.select_related("group")


def find_mapping(account_id: UUID, mapping_id: UUID) -> ScimGroupMapping:
    """Raises `NotFound`."""
    found: ScimGroupMapping | None = select_mappings(account_id).filter(pk=mapping_id).first()
    if found is None:
        raise NotFound
    return found


def create_mapping(
    *, account_id: UUID, group_id: UUID, workspace_id: UUID, role: str, by: Actor
) -> ScimGroupMapping:
    """The mapping, also where it was there with this role.

    Raises `SchemaInvalid`, `DefaultWorkspaceMapped`, and `MappedOtherwise` for another role.
    """
    now = datetime.now(UTC)
    with transaction.atomic():
        lock_account(account_id)
        group = ScimGroup.objects.filter(account_id=account_id, pk=group_id).first()
        workspace = Workspace.objects.filter(account_id=account_id, pk=workspace_id).first()
        if group is None or workspace is None:
            text = "Invalid input: not of this account"
            named = {"scim_group_id": group, "workspace_id": workspace}
            raise SchemaInvalid([Issue(name, text) for name, row in named.items() if row is None])
        if workspace.is_default:
            raise DefaultWorkspaceMapped
        mapping, is_new = ScimGroupMapping.objects.get_or_create(
            group=group,
            workspace=workspace,
            defaults={"role": role, "created_at": now, "updated_at": now},
        )
        if mapping.role != role:
            raise MappedOtherwise
        if is_new:
            facts = read_fields(mapping, _MAPPING_FACTS)
            _record_mapping(by, "created", mapping, None, facts, account_id=account_id)
            apply_groups(account_id=account_id, by=by)
    return mapping


def change_mapping(*, account_id: UUID, mapping_id: UUID, role: str, by: Actor) -> ScimGroupMapping:
    """The mapping with this role. Raises `NotFound`."""
    with transaction.atomic():
        lock_account(account_id)
        mapping = find_mapping(account_id, mapping_id)
        if mapping.role != role:
            before = read_fields(mapping, _MAPPING_FACTS)
            mapping.role, mapping.updated_at = role, datetime.now(UTC)
            mapping.save(update_fields=["role", "updated_at"])
            after = read_fields(mapping, _MAPPING_FACTS)
            _record_mapping(by, "updated", mapping, before, after, account_id=account_id)
            apply_groups(account_id=account_id, by=by)
    return mapping


def delete_mapping(*, account_id: UUID, mapping_id: UUID, keep_members: bool, by: Actor) -> None:
    """With `keep_members` whoever it reached stays, as if somebody had added it by hand; else those
    go whose only access it was. Raises `NotFound`."""
    with transaction.atomic():
        lock_account(account_id)
        mapping = find_mapping(account_id, mapping_id)
        if keep_members:
            group = mapping.group
            people = ScimUser.objects.filter(Q(groups=group) | Q(claimed_groups=group), active=True)
            kept = WorkspaceMembership.objects.filter(
                workspace=mapping.workspace_id, membership__user__in=people.values("user")
            )
            # A higher role of somebody's own stays.
            lower = _FROM_HIGHEST[_FROM_HIGHEST.index(mapping.role) + 1 :]
            kept.filter(Q(own_role__isnull=True) | Q(own_role__in=lower)).update(
                own_role=mapping.role
            )
        before = read_fields(mapping, _MAPPING_FACTS)
        ScimGroupMapping.objects.filter(pk=mapping.pk).delete()
        facts = before | {"keep_members": keep_members}
        _record_mapping(by, "deleted", mapping, facts, None, account_id=account_id)
        apply_groups(account_id=account_id, by=by)


def lock_account(account_id: UUID) -> Account:
    """Let changes of an account's groups and mappings wait for one another."""
    return Account.objects.select_for_update(no_key=True).get(pk=account_id)


def apply_groups(*, account_id: UUID, by: Actor) -> None:
    """Let memberships of workspaces follow groups, claims and mappings; the account is locked.

    A member that loses a workspace by it, or becomes a viewer, loses the keys there, unless
    another role allows them: they are disabled.
    """
    roles = _find_group_roles(account_id)
    # A member that leaves the account meanwhile leaves when this is done.
    rows = Membership.objects.select_for_update(no_key=True).filter(account_id=account_id)
    members = dict(rows.order_by("pk").values_list("user_id", "pk"))
    by_groups = Q(own_role__isnull=True) | Q(workspace__in={place[0] for place in roles})
    mapped = WorkspaceMembership.objects.filter(by_groups, workspace__account=account_id)
    # Roles that a former mapping gave beside somebody's own.
    raised = WorkspaceMembership.objects.filter(
        ~Q(role=F("own_role")), workspace__account=account_id, own_role__isnull=False
    )
    there = {
        (row.workspace_id, row.membership.user_id): row
        for row in (mapped | raised).select_related("membership")
    }
    leaving = [row for place, row in there.items() if row.own_role is None and place not in roles]
    changed = []
    for place, row in there.items():
        role = _find_highest({row.own_role, roles.get(place)})
        if role is not None and role != row.role:
            row.role = role
            changed.append(row)
    new = [
        WorkspaceMembership(workspace_id=place[0], membership_id=members[place[1]], role=role)
        for place, role in roles.items()
        if place not in there and place[1] in members
    ]
    _add_memberships(new)
    WorkspaceMembership.objects.bulk_update(changed, ["role"])
    WorkspaceMembership.objects.filter(pk__in=[row.pk for row in leaving]).delete()
    disable_lost_keys([*leaving, *(row for row in changed if row.role == _VIEWER)], by)
    _record_moves(account_id, by, {"added": new, "changed": changed, "removed": leaving})


def _add_memberships(rows: Sequence[WorkspaceMembership]) -> None:
    """Make them. A person who is added by hand at the same time, which takes no lock, keeps that
    role unless groups give a higher one."""
    WorkspaceMembership.objects.bulk_create(rows, ignore_conflicts=True)
    leading = Q(pk__in=[])
    for row in rows:
        if row.role == _ADMIN:
            leading |= Q(workspace=row.workspace_id, membership=row.membership_id)
    WorkspaceMembership.objects.filter(leading).exclude(role=_ADMIN).update(role=_ADMIN)


def fill_groups(
    *, account: Account, groups: Mapping[str, Sequence[str]], by: Actor
) -> tuple[int, int]:
    """Let the account's groups be these: display names, and their members by user name, address or
    id. How many there are, and how many were deleted. Raises `SchemaInvalid` for no member."""
    now = datetime.now(UTC)
    with transaction.atomic():
        lock_account(account.pk)
        people = _find_people(account, groups)
        gone = ScimGroup.objects.filter(account=account).exclude(display_name__in=groups)
        deleted = [_delete_group(group, by, now) for group in gone]
        for name, members in groups.items():
            group, is_new = ScimGroup.objects.get_or_create(
                account=account,
                display_name=name,
                defaults={"created_at": now, "updated_at": now},
            )
            before = None if is_new else sorted(group.members.values_list("user_name", flat=True))
            wanted = [people[member] for member in members]
            after = sorted(each.user_name for each in wanted)
            if before != after:
                group.members.set(wanted)
                ScimGroup.objects.filter(pk=group.pk).update(updated_at=now)
                _record_group(by, "filled", group, {"members": before}, {"members": after})
        apply_groups(account_id=account.pk, by=by)
    return len(groups), len(deleted)


def delete_group(*, group: ScimGroup, by: Actor) -> None:
    """Nobody has anything by it any more; the account is locked."""
    _delete_group(group, by, datetime.now(UTC))
    apply_groups(account_id=group.account_id, by=by)


def find_group(account_id: UUID, group_id: UUID) -> ScimGroup:
    """Raises `NotFound`."""
    rows = ScimGroup.objects.filter(account_id=account_id, pk=group_id)
    found = rows.prefetch_related("members").first()
    if found is None:
        raise NotFound
    return found


def save_group(*, group: ScimGroup, members: Sequence[ScimUser] | None, by: Actor) -> ScimGroup:
    """Save the group as the directory sends it, new or changed; None leaves its members. The
    account is locked.

    Raises `GroupNameTaken`.
    """
    taken = ScimGroup.objects.filter(account=group.account_id, display_name=group.display_name)
    if taken.exclude(pk=group.pk).exists():
        raise GroupNameTaken
    is_new = group._state.adding
    before = None if is_new else _read_group(ScimGroup.objects.get(pk=group.pk))
    group.updated_at = datetime.now(UTC)
    if is_new:
        group.created_at = group.updated_at
    group.save()
    if members is not None:
        group.members.set(members)
        apply_groups(account_id=group.account_id, by=by)
    _record_group(by, "created" if is_new else "updated", group, before, _read_group(group))
    return find_group(group.account_id, group.pk)


def _read_group(group: ScimGroup) -> JsonObject:
    names = group.members.order_by("user_name").values_list("user_name", flat=True)
    facts = {"display_name": group.display_name, "external_id": group.external_id}
    return facts | {"members": list(names)}


def _find_people(account: Account, groups: Mapping[str, Sequence[str]]) -> dict[str, ScimUser]:
    """The directory's user of each name; members get one here. Raises `SchemaInvalid`."""
    now, people = datetime.now(UTC), dict[str, ScimUser]()
    memberships = Membership.objects.filter(account=account).select_related("user")
    users = [each.user for each in memberships.order_by("-pk")]
    # A name counts before an address, which some providers let people choose.
    by_word = {
        str(getattr(user, column)).lower(): user
        for column in ("email", "username", "public_id")
        for user in users
    }
    by_word.pop("", None)
    for group, members in groups.items():
        for name in members:
            user = by_word.get(name.lower())
            if user is None:
                raise SchemaInvalid([Issue(group, f"{name} is no member of the account")])
            people[name], _ = ScimUser.objects.get_or_create(
                account=account,
                user=user,
                defaults={"user_name": user.username, "created_at": now, "updated_at": now},
            )
    return people


def _delete_group(group: ScimGroup, by: Actor, now: datetime) -> ScimGroup:
    ScimGroup.objects.filter(pk=group.pk).update(deleted_at=now, updated_at=now)
    _record_group(by, "deleted", group, {"display_name": group.display_name}, None)
    return group


def _find_group_roles(account_id: UUID) -> dict[Place, str]:
    """The highest role that groups and claims give, by workspace and user."""
    found: dict[Place, str] = {}
    groups = select_mappings(account_id)
    claims = ClaimMapping.objects.filter(
        account=account_id, workspace__isnull=False, workspace__deleted_at__isnull=True
    )
    by_directory, by_claim, by_mapping = (
        rows.filter(**{f"{people}__active": True}).values_list(
            "workspace_id", f"{people}__user_id", role
        )
        for rows, people, role in (
            (groups, "group__members", "role"),
            (groups, "group__claimants", "role"),
            (claims, "people", "workspace_role"),
        )
    )
    for workspace, user, role in by_directory.union(by_claim, by_mapping, all=True):
        found[workspace, user] = _find_highest({role, found.get((workspace, user))})
    return found


def _find_highest(roles: set[Any]) -> Any:
    """The highest of some roles, among which may be None."""
    return next((role for role in _FROM_HIGHEST if role in roles), None)


def _record_moves(
    account_id: UUID, by: Actor, moves: Mapping[str, Sequence[WorkspaceMembership]]
) -> None:
    """One record for each workspace: which memberships were added, changed and removed."""
    by_workspace: dict[UUID, dict[str, list[int]]] = defaultdict(dict)
    for what, rows in moves.items():
        for row in rows:
            by_workspace[row.workspace_id].setdefault(what, []).append(row.membership_id)
    for workspace_id, after in by_workspace.items():
        record_change(
            by=by,
            action="members by groups",
            object_type="workspace",
            object_id=workspace_id,
            account_id=account_id,
            before=None,
            after=after,
        )
