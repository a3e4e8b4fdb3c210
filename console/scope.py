"""What a signed-in person may see: one account, and a view of it. Every query of a page asks here.

A member sees what their own keys did, the lead of a workspace what the workspace did. An admin of
the account sees all of it, and an operator every account.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db.models import F, FilteredRelation, Q, QuerySet
from django.http import Http404, HttpRequest

from accounts import roles
from accounts.models import Account, ApiKey, User, Workspace
from accounts.roles import (
    Action,
    allows,
    list_workspace_roles,
    may_everywhere,
    read_account_role,
)
from routing.history.dialect import dialect
from routing.history.statement import QueryCondition

WHOLE: Final = "all"
OWN: Final = "mine"
_ACCOUNTS_MAX: Final = 500
_KEPT: Final = "console"


class Role(Enum):
    """The roles, from the least to the most."""

    MEMBER = "Member"
    BILLING = "Billing"
    LEAD = "Workspace lead"
    ADMIN = "Account admin"
    OWNER = "Account owner"
    OPERATOR = "Operator"


_SEEN_AS: Final[dict[roles.Role, Role]] = {
    roles.Role.OWNER: Role.OWNER,
    roles.Role.ADMIN: Role.ADMIN,
    roles.Role.BILLING: Role.BILLING,
}


_ACCOUNT_ROLES: Final = {
    Role.OPERATOR: roles.Role.OPERATOR,
    **{seen_as: role for role, seen_as in _SEEN_AS.items()},
}


class View(NamedTuple):
    """A part of an account that somebody may look at as a whole. It is its rows of these workspaces
    (None: of all), or those of the person's own keys."""

    value: str
    label: str
    workspace_ids: tuple[UUID, ...] | None
    is_own: bool = False
    # Of a workspace in which the person decides, and does not only look.
    is_led: bool = False


class _Place(NamedTuple):
    """An account, and what the person is in it; an operator need not be anything."""

    account: Account
    membership_id: int | None
    role: str | None


@dataclass(frozen=True)
class Scope:
    """The person, the account, the views they may choose from (the widest first), and the choice.

    `accounts` are those they may choose from, by name, and `workspaces` those of the account that
    they may look at, by name. `is_member` says whether they belong to the account, as an operator
    need not: keys and interns have owners who do. `own_workspaces` are the default one, which is
    everybody's, and those the person was put into, by name; `own_roles` say as what.
    """

    user: User
    account: Account
    role: Role
    views: tuple[View, ...]
    view: View
    accounts: tuple[Account, ...]
    workspaces: tuple[Workspace, ...] = ()
    is_member: bool = False
    own_workspaces: tuple[Workspace, ...] = ()
    own_roles: Mapping[UUID, str] = field(default_factory=dict)

    def allows(self, action: Action) -> bool:
        """Whether the person may in all of the account; in a workspace, `allows_in` says more."""
        return allows(_ACCOUNT_ROLES.get(self.role, roles.Role.MEMBER), action)

    def allows_in(self, action: Action, workspace_id: UUID | None) -> bool:
        """Whether the person may in this workspace, by either role."""
        if self.allows(action) or workspace_id is None:
            return self.allows(action)
        return self.own_roles.get(workspace_id) in list_workspace_roles(action)

    @property
    def is_operator(self) -> bool:
        return self.role is Role.OPERATOR

    @property
    def rules_account(self) -> bool:
        """Whether the person decides for all of the account."""
        return self.role in (Role.ADMIN, Role.OWNER, Role.OPERATOR)

    def leads(self, workspace_id: UUID | None) -> bool:
        """Whether the person decides for that workspace of the account."""
        if self.rules_account:
            return True
        led = (view.workspace_ids or () for view in self.views if view.is_led)
        return any(workspace_id in ids for ids in led)

    def widen(self) -> "Scope":
        """The widest that the person has of the account."""
        return replace(self, view=self.views[0])

    def filter(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Those rows that belong to the view. They have an account, a workspace and a key."""
        rows = rows.filter(account_id=self.account.pk)
        if self.view.is_own:
            own = ApiKey.objects.filter(account=self.account, creator_id=self.user.pk)
            return rows.filter(api_key_id__in=own.values("pk"))
        if self.view.workspace_ids is not None:
            return rows.filter(workspace_id__in=self.view.workspace_ids)
        return rows

    def filter_keys(self, keys: QuerySet[Any]) -> QuerySet[Any]:
        """Those keys that belong to the view."""
        keys = keys.filter(account_id=self.account.pk)
        if self.view.is_own:
            return keys.filter(creator_id=self.user.pk)
        if self.view.workspace_ids is not None:
            return keys.filter(workspace_id__in=self.view.workspace_ids)
        return keys

    def conditions(self) -> tuple[QueryCondition, ...]:
        """The same for sums of usage, which are one account's by themselves."""
        if self.view.is_own:
            return (QueryCondition("user", "{column} = %s", (self.user.pk,)),)
        if self.view.workspace_ids is None:
            return ()
        values = tuple(dialect().uuid(each) for each in self.view.workspace_ids)
        marks = ", ".join(["%s"] * len(values))
        return (QueryCondition("workspace_id", f"{{column}} IN ({marks})", values),)

    def covers(
        self, *, account_id: UUID, workspace_id: UUID | None, creator_id: int | None
    ) -> bool:
        """Whether any view of the account has a row of that workspace, made with a key of that
        creator."""
        return account_id == self.account.pk and any(
            creator_id == self.user.pk
            if view.is_own
            else view.workspace_ids is None or workspace_id in view.workspace_ids
            for view in self.views
        )


def find_scope(request: HttpRequest) -> Scope | None:
    """The scope that the query names, else the one chosen last, else the widest. None for somebody
    who belongs to no account. Raises `Http404` for an account or a view that is not theirs."""
    user: Any = request.user
    kept = request.session.get(_KEPT, {})
    named = {name: request.GET[name] for name in ("account", "view") if name in request.GET}
    places = _list_places(user)
    if not places:
        return None
    asked = named.get("account", kept.get("account"))
    by_id = {str(place.account.pk): place for place in places}
    place = (by_id.get(asked) or _find_unlisted(user, asked)) if asked else None
    if place is None and "account" in named:
        raise Http404
    place = place or places[0]
    accounts = [each.account for each in places]
    if place.account not in accounts:
        accounts = [place.account, *accounts]
    widest = _build_widest(user, place)
    views = widest.views
    wanted = named.get("view")
    if wanted is not None and wanted not in {view.value for view in views}:
        raise Http404
    if wanted is None and "account" not in named:
        wanted = kept.get("view")
    view = next((view for view in views if view.value == wanted), views[0])
    choice = {"account": str(place.account.pk), "view": view.value}
    if named and choice != kept:
        request.session[_KEPT] = choice
    return replace(widest, view=view, accounts=tuple(accounts))


def find_scope_of_account(user: Any, account_id: UUID) -> Scope:
    """The widest scope that somebody has of an account. Raises `Http404` where they have none."""
    found = _read_places(_select_accounts(user).filter(pk=account_id))
    if not found:
        raise Http404
    return _build_widest(user, found[0])


def widen_scope(scope: Scope, account_id: UUID) -> Scope:
    """The same for the person of a scope, which is of that account as a rule."""
    if scope.account.pk == account_id:
        return replace(scope.widen(), accounts=(scope.account,))
    return find_scope_of_account(scope.user, account_id)


def _list_places(user: Any) -> list[_Place]:
    """The accounts somebody may look at, by name: an operator all of them."""
    return _read_places(_select_accounts(user).order_by("name")[:_ACCOUNTS_MAX])


def _select_accounts(user: Any) -> QuerySet[Any]:
    own = FilteredRelation("memberships", condition=Q(memberships__user=user))
    rows = Account.objects.annotate(own=own, own_id=F("own__pk"), own_role=F("own__role"))
    if may_everywhere(user, Action.USAGE):
        return rows
    return rows.filter(own_id__isnull=False)


def _read_places(rows: QuerySet[Any]) -> list[_Place]:
    return [_Place(row, row.own_id, row.own_role) for row in rows]


def _build_widest(user: Any, place: _Place) -> Scope:
    """All that the person may look at in the account."""
    account, membership_id = place.account, place.membership_id
    role_there = read_account_role(place.role) if place.role else None
    is_operator = may_everywhere(user, Action.USAGE)
    sees_all = is_operator or (role_there is not None and allows(role_there, Action.USAGE))
    own = FilteredRelation("memberships", condition=Q(memberships__membership=membership_id))
    rows = Workspace.objects.filter(account=account).annotate(own=own, own_role=F("own__role"))
    if not sees_all:
        rows = rows.filter(Q(is_default=True) | Q(own_role__isnull=False))
    found: list[Any] = list(rows.order_by("name"))
    own_roles = {each.pk: each.own_role for each in found if each.own_role}
    own_view = View(OWN, "My keys", None, is_own=True)
    if sees_all:
        workspaces = tuple(found)
        views = [View(WHOLE, "All workspaces", None), *map(_view_workspace, workspaces)]
        views += [own_view] if role_there else []
        role = Role.OPERATOR
        if role_there and not is_operator:
            role = _SEEN_AS[role_there]
    else:
        seeing = list_workspace_roles(Action.USAGE)
        workspaces = tuple(each for each in found if each.own_role in seeing)
        leading = list_workspace_roles(Action.OTHERS_KEYS)
        views = [
            _view_workspace(each)._replace(is_led=each.own_role in leading) for each in workspaces
        ]
        role = Role.LEAD if any(view.is_led for view in views) else Role.MEMBER
        if len(views) > 1:
            ids = tuple(each.pk for each in workspaces)
            views.insert(0, View(WHOLE, "Workspaces I see", ids))
        views.append(own_view)
    return Scope(
        *(user, account, role, tuple(views), views[0], (account,), workspaces),
        is_member=membership_id is not None,
        own_workspaces=tuple(each for each in found if each.is_default or each.pk in own_roles),
        own_roles=own_roles,
    )


def _view_workspace(workspace: Workspace) -> View:
    return View(str(workspace.pk), workspace.name, (workspace.pk,))


def _find_unlisted(user: Any, account_id: str) -> _Place | None:
    """An account of an operator beyond those that a list has by name."""
    if not may_everywhere(user, Action.USAGE):
        return None
    try:
        found = _read_places(_select_accounts(user).filter(pk=UUID(account_id)))
    except ValueError:
        return None
    return found[0] if found else None
