"""Workspaces of a view with their members, and people of an account with their roles."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db.models import Count, F, Q, QuerySet
from django.db.models.expressions import OrderBy
from django.http import Http404
from django.shortcuts import get_object_or_404

from accounts.models import ApiKey, Membership, Workspace, WorkspaceMembership
from accounts.roles import Action, list_account_roles
from console.queries.budgets import BudgetUse, list_budgets
from console.queries.paging import Page, cut_page
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


def find_workspace(seen: Scope, workspace_id: UUID) -> tuple[Workspace, Scope]:
    """The workspace with the person's widest scope. Raises `Http404` where they do not lead it."""
    row = next((each for each in seen.workspaces if each.pk == workspace_id), None)
    row = row or get_object_or_404(Workspace.objects, pk=workspace_id)
    scope = widen_scope(seen, row.account_id)
    if not scope.leads(row.pk):
        raise Http404
    return row, scope


class Member(NamedTuple):
    """Somebody in a workspace; `role` is `admin`, `member` or `viewer`, `by_groups` whether a
    directory put them there."""

    user: Any
    role: str
    by_groups: bool

    @property
    def badge(self) -> Badge:
        is_lead = self.role == WorkspaceMembership.Role.ADMIN
        return Badge("good", "Lead") if is_lead else Badge("plain", self.role.title())

    @property
    def other_roles(self) -> list[tuple[str, str]]:
        """What they can be made, with its word."""
        words = {"admin": "lead", "member": "member", "viewer": "viewer"}
        return [(role, word) for role, word in words.items() if role != self.role]


def list_members(workspace: Workspace, text: str, order: str, cursor: str) -> Page[Member]:
    """Those whose names contain the text, by name or role; in the default workspace of all the
    account."""
    rows: QuerySet[Any] = workspace.memberships.select_related("membership__user")
    to_user = "membership__user"
    if workspace.is_default:
        rows = Membership.objects.filter(account_id=workspace.account_id).select_related("user")
        to_user = "user"
    if text:
        rows = rows.filter(**{f"{to_user}__username__icontains": text})
    by = "-" if order.startswith("-") else ""
    first = [f"{by}role"] if order.lstrip("-") == "role" else []
    ordered = rows.order_by(*first, f"{by}{to_user}__username", "pk")
    found = cut_page(ordered, cursor, PEOPLE_ROWS)
    members = [
        Member(row.user, row.role.removeprefix("org:"), False)
        if isinstance(row, Membership)
        else Member(row.membership.user, row.role, row.own_role is None)
        for row in found.rows
    ]
    return Page(members, found.next_cursor)


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


def list_people(
    scope: Scope, text: str, start: datetime, now: datetime, order: str = "", cursor: str = ""
) -> Page[Person]:
    """People of the account whose name or address contains the text."""
    people = Membership.objects.filter(account=scope.account).select_related("user")
    if text:
        people = people.filter(Q(user__username__icontains=text) | Q(user__email__icontains=text))
    spent = _sum_spend_of_people(scope, start, now)
    if order.removeprefix("-") == "spent":
        by_name = people.order_by("user__username", "pk").values_list("pk", "user_id")
        descends = order.startswith("-")
        ranked = sorted(by_name, key=lambda row: spent.get(str(row[1]), 0), reverse=descends)
        page = cut_page([pk for pk, _ in ranked], cursor, PEOPLE_ROWS)
        by_pk = people.in_bulk(page.rows)
        found = [by_pk[pk] for pk in page.rows if pk in by_pk]
    else:
        rows = people.order_by(*_PEOPLE_ORDERS.get(order, _PEOPLE_ORDERS["name"]))
        page = cut_page(rows, cursor, PEOPLE_ROWS)
        found = page.rows
    return Page(_load_people(scope, found, spent), page.next_cursor)


def _sum_spend_of_people(scope: Scope, start: datetime, now: datetime) -> Mapping[str, int]:
    """What each spent in all of the account, whichever view is chosen: their keys are counted in
    all of it too."""
    return sum_spend_by(scope.widen(), start, now, "user")


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
    rows = WorkspaceMembership.objects.filter(
        membership__in=people, workspace__deleted_at__isnull=True
    ).order_by("workspace__name")
    # Workspaces beside the default one, with a mark for those somebody leads.
    names: dict[int, list[str]] = {}
    for pk, name, role in rows.values_list("membership", F("workspace__name"), "role"):
        leads = role == WorkspaceMembership.Role.ADMIN
        names.setdefault(pk, []).append(f"{name} (lead)" if leads else name)
    return [
        Person(
            row,
            ", ".join(names.get(row.pk, ())),
            counts.get(row.user_id, 0),
            spent.get(str(row.user_id), 0),
        )
        for row in people
    ]
