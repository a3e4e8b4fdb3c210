"""Workspaces of a view with their members, and people of an account with their roles."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db.models import Count, F, Q, QuerySet
from django.db.models.expressions import OrderBy

from accounts.models import ApiKey, Membership, Workspace, WorkspaceMembership
from accounts.roles import Action, list_account_roles
from console.queries.budgets import BudgetUse, list_budgets
from console.queries.usage import sum_spend_by
from console.scope import Scope, widen_scope
from console.words import Badge

PEOPLE_ROWS: Final = 100
_PEOPLE_ORDERS: Final[Mapping[str, tuple[str | OrderBy, ...]]] = {
    "name": ("user__username", "pk"),
    "-name": ("-user__username", "-pk"),
    "seen": (F("user__last_login").asc(nulls_first=True), "pk"),
    "-seen": (F("user__last_login").desc(nulls_last=True), "-pk"),
    "joined": ("created_at", "pk"),
    "-joined": ("-created_at", "-pk"),
}


class WorkspaceRow(NamedTuple):
    """A workspace, how many belong to it, its living keys, what it spent in the period, and its
    fullest budget."""

    workspace: Workspace
    members: int
    keys: int
    spend_nano: int
    budget: BudgetUse | None

    @property
    def budget_state(self) -> Badge | None:
        """How full the fullest budget is, in a word."""
        if self.budget is None:
            return None
        return Badge(self.budget.tone, f"{self.budget.percent} % of {self.budget.window}")


def list_workspaces(scope: Scope, start: datetime, now: datetime) -> list[WorkspaceRow]:
    """Those of the view that the person leads, by name: a view of one's own keys has them all."""
    if scope.view.is_own:
        scope = scope.widen()
    rows = list_led_workspaces(scope)
    people = Membership.objects.filter(account=scope.account).count()
    members = _count(WorkspaceMembership.objects.filter(workspace__in=rows))
    keys = ApiKey.objects.living().filter(kind=ApiKey.Kind.INFERENCE, workspace__in=rows)
    counts = _count(keys)
    spent = sum_spend_by(scope, start, now, "workspace_id")
    fullest: dict[UUID, BudgetUse] = {}
    for use in list_budgets(scope, now):
        fullest.setdefault(use.workspace.pk, use)
    return [
        WorkspaceRow(
            row,
            people if row.is_default else members.get(row.pk, 0),
            counts.get(row.pk, 0),
            spent.get(str(row.pk), 0),
            fullest.get(row.pk),
        )
        for row in rows
    ]


def list_led_workspaces(scope: Scope) -> list[Workspace]:
    """Those of the view that the person leads, by name, without what they did."""
    ids = scope.view.workspace_ids
    return [
        each
        for each in scope.workspaces
        if (ids is None or each.pk in ids) and scope.leads(each.pk)
    ]


def _count(rows: Any) -> Mapping[UUID, int]:
    return dict(rows.order_by().values_list("workspace").annotate(Count("pk")))


def find_workspace(seen: Scope, workspace_id: UUID) -> tuple[Workspace, Scope] | None:
    """The workspace with the person's widest scope, if they lead it."""
    row = next((each for each in seen.workspaces if each.pk == workspace_id), None)
    row = row or Workspace.objects.filter(pk=workspace_id).first()
    if row is None:
        return None
    scope = widen_scope(seen, row.account_id)
    return (row, scope) if scope.leads(row.pk) else None


class Member(NamedTuple):
    """Somebody in a workspace; `role` is `admin`, `member` or `viewer`, `by_groups` whether a
    directory put them there."""

    user: Any
    role: str
    by_groups: bool

    @property
    def role_word(self) -> str:
        return "Lead" if self.role == WorkspaceMembership.Role.ADMIN else self.role.title()

    @property
    def other_roles(self) -> list[tuple[str, str]]:
        """What they can be made, with its word."""
        words = {"admin": "lead", "member": "member", "viewer": "viewer"}
        return [(role, word) for role, word in words.items() if role != self.role]


class MemberPage(NamedTuple):
    """Rows by name, what their names contain, and where the next page begins (empty: nowhere)."""

    rows: list[Member]
    text: str
    next_cursor: str


def list_members(workspace: Workspace, text: str = "", cursor: str = "") -> MemberPage:
    """By name: everybody of the account in the default workspace."""
    rows: QuerySet[Any] = workspace.memberships.select_related("membership__user")
    to_user = "membership__user"
    if workspace.is_default:
        rows = Membership.objects.filter(account_id=workspace.account_id).select_related("user")
        to_user = "user"
    if text:
        rows = rows.filter(**{f"{to_user}__username__icontains": text})
    first = int(cursor) if cursor.isdecimal() and len(cursor) < 7 else 0
    found = list(rows.order_by(f"{to_user}__username", "pk")[first : first + PEOPLE_ROWS + 1])
    members = [_build_member(row) for row in found[:PEOPLE_ROWS]]
    return MemberPage(members, text, str(first + PEOPLE_ROWS) if len(found) > PEOPLE_ROWS else "")


def _build_member(row: Membership | WorkspaceMembership) -> Member:
    if isinstance(row, Membership):
        return Member(row.user, row.role.removeprefix("org:"), False)
    return Member(row.membership.user, row.role, row.own_role is None)


def list_people_outside(workspace: Workspace) -> list[Any]:
    """People of the account who can be added to the workspace."""
    inside = WorkspaceMembership.objects.filter(workspace=workspace).values("membership")
    people = Membership.objects.filter(account_id=workspace.account_id).exclude(pk__in=inside)
    found = people.select_related("user").order_by("user__username")[: 10 * PEOPLE_ROWS]
    return [row.user for row in found]


@dataclass(frozen=True)
class Person:
    """Somebody in an account, where they belong, their living keys, and what these spent."""

    membership: Membership
    workspaces: str
    keys: int
    spend_nano: int

    @property
    def role(self) -> Badge:
        is_admin = self.membership.role in list_account_roles(Action.MEMBERS)
        return Badge("good" if is_admin else "plain", self.membership.get_role_display())


class PeoplePage(NamedTuple):
    """Rows by name, and where the next page begins (empty: nowhere)."""

    rows: list[Person]
    next_cursor: str


def list_people(
    scope: Scope, text: str, start: datetime, now: datetime, order: str = "", cursor: str = ""
) -> PeoplePage:
    """People of the account whose name or address contains the text."""
    people = Membership.objects.filter(account=scope.account).select_related("user")
    if text:
        people = people.filter(Q(user__username__icontains=text) | Q(user__email__icontains=text))
    first = int(cursor) if cursor.isdecimal() and len(cursor) < 7 else 0
    spent = _sum_spend_of_people(scope, start, now)
    if order.removeprefix("-") == "spent":
        ordered = _order_by_spend(people, spent, descends=order.startswith("-"))
        by_pk = people.in_bulk(ordered[first : first + PEOPLE_ROWS + 1])
        found = [by_pk[pk] for pk in ordered if pk in by_pk]
    else:
        rows = people.order_by(*_PEOPLE_ORDERS.get(order, _PEOPLE_ORDERS["name"]))
        found = list(rows[first : first + PEOPLE_ROWS + 1])
    more = str(first + PEOPLE_ROWS) if len(found) > PEOPLE_ROWS else ""
    return PeoplePage(_load_people(scope, found[:PEOPLE_ROWS], spent), more)


def _sum_spend_of_people(scope: Scope, start: datetime, now: datetime) -> Mapping[str, int]:
    """What each spent in all of the account, whichever view is chosen: their keys are counted in
    all of it too."""
    return sum_spend_by(scope.widen(), start, now, "user")


def _order_by_spend(
    people: QuerySet[Membership], spent: Mapping[str, int], *, descends: bool
) -> list[int]:
    """Keys of the memberships; those of equal spend by name."""
    rows = people.order_by("user__username", "pk").values_list("pk", "user_id")
    found = sorted(rows, key=lambda row: spent.get(str(row[1]), 0), reverse=descends)
    return [pk for pk, _ in found]


def load_person(scope: Scope, row: Membership, start: datetime, now: datetime) -> Person:
    (person,) = _load_people(scope, [row], _sum_spend_of_people(scope, start, now))
    return person


def _load_people(scope: Scope, people: list[Membership], spent: Mapping[str, int]) -> list[Person]:
    keys = ApiKey.objects.living().filter(
        kind=ApiKey.Kind.INFERENCE,
        account=scope.account,
        creator__in=[row.user_id for row in people],
    )
    counts = dict(keys.order_by().values_list("creator").annotate(Count("pk")))
    places = _name_workspaces(people)
    return [
        Person(
            row, places.get(row.pk, ""), counts.get(row.user_id, 0), spent.get(str(row.user_id), 0)
        )
        for row in people
    ]


def _name_workspaces(people: list[Membership]) -> dict[int, str]:
    """Names of workspaces beside the default one, with a mark for those somebody leads."""
    rows = WorkspaceMembership.objects.filter(
        membership__in=people, workspace__deleted_at__isnull=True
    ).order_by("workspace__name")
    names: dict[int, list[str]] = {}
    for pk, name, role in rows.values_list("membership", F("workspace__name"), "role"):
        leads = role == WorkspaceMembership.Role.ADMIN
        names.setdefault(pk, []).append(f"{name} (lead)" if leads else name)
    return {pk: ", ".join(each) for pk, each in names.items()}


def find_person(scope: Scope, user_id: str) -> Membership | None:
    """The member of that public id in the scope's account."""
    rows = Membership.objects.filter(account=scope.account, user__public_id=user_id)
    return rows.select_related("user").first()
