"""Who may do what: the one table that the API, the console and the admin ask.

A person has a role in an account and one in each of its workspaces; operators are above all
accounts. What a role of a workspace allows counts there alone. A management key does what its
scopes open, and of a person's key what that person's role allows too.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from django.db.models import Exists, Q

from accounts.models import Membership, User, Workspace, WorkspaceMembership


class Role(Enum):
    """From the highest to the lowest."""

    OPERATOR = "operator"
    OWNER = "owner"
    ADMIN = "admin"
    BILLING = "billing"
    MEMBER = "member"
    WORKSPACE_ADMIN = "workspace admin"
    WORKSPACE_MEMBER = "workspace member"
    WORKSPACE_VIEWER = "workspace viewer"


class Action(Enum):
    """What somebody may be allowed to do. The first ones are areas of management keys' scopes."""

    READ = "read"
    KEYS = "keys"
    WORKSPACES = "workspaces"
    GUARDRAILS = "guardrails"
    BILLING = "billing"
    CATALOGUE = "catalogue"
    DIRECTORY = "scim"
    # Interns of others, in the workspace or the account.
    OTHERS_INTERNS = "interns"
    # Everything else that an account's own management keys do, such as erasing an end user.
    ACCOUNT = "account"
    # See who is in the account with which role, and change that; owners among them.
    MEMBERS = "members"
    OWNERS = "owners"
    # What the workspace's keys did, and what of it was kept.
    USAGE = "usage"
    CONTENTS = "contents"
    # Keys: their own, and those of others in the workspace.
    OWN_KEYS = "own keys"
    OTHERS_KEYS = "others' keys"
    # Every account, and the gateway itself.
    GATEWAY = "gateway"


_AREAS: Final = frozenset(
    {
        *(Action.READ, Action.KEYS, Action.WORKSPACES, Action.GUARDRAILS, Action.BILLING),
        *(Action.CATALOGUE, Action.DIRECTORY, Action.OTHERS_INTERNS, Action.ACCOUNT),
    }
)
_OF_ADMINS: Final = _AREAS | {
    *(Action.MEMBERS, Action.USAGE, Action.CONTENTS, Action.OWN_KEYS, Action.OTHERS_KEYS),
}
ALLOWED: Final[Mapping[Role, frozenset[Action]]] = {
    Role.OPERATOR: frozenset(Action),
    Role.OWNER: _OF_ADMINS | {Action.OWNERS},
    Role.ADMIN: _OF_ADMINS,
    Role.BILLING: frozenset({Action.READ, Action.USAGE, Action.BILLING, Action.OWN_KEYS}),
    Role.MEMBER: frozenset({Action.OWN_KEYS}),
    Role.WORKSPACE_ADMIN: frozenset(
        {Action.USAGE, Action.OWN_KEYS, Action.OTHERS_KEYS, Action.OTHERS_INTERNS}
    ),
    Role.WORKSPACE_MEMBER: frozenset({Action.OWN_KEYS}),
    Role.WORKSPACE_VIEWER: frozenset({Action.USAGE}),
}
_OF_ACCOUNT: Final = {
    Membership.Role.OWNER: Role.OWNER,
    Membership.Role.ADMIN: Role.ADMIN,
    Membership.Role.BILLING: Role.BILLING,
    Membership.Role.MEMBER: Role.MEMBER,
}
_OF_WORKSPACE: Final = {
    WorkspaceMembership.Role.ADMIN: Role.WORKSPACE_ADMIN,
    WorkspaceMembership.Role.MEMBER: Role.WORKSPACE_MEMBER,
    WorkspaceMembership.Role.VIEWER: Role.WORKSPACE_VIEWER,
}


def allows(role: Role, action: Action) -> bool:
    return action in ALLOWED[role]


def may_everywhere(user: Any, action: Action) -> bool:
    """Whether somebody may in every account: operators are above all of them."""
    return bool(user.is_active and user.is_staff) and allows(Role.OPERATOR, action)


def list_account_roles(action: Action) -> list[str]:
    """Values of `Membership.role` that allow it, for queries."""
    return [value.value for value, role in _OF_ACCOUNT.items() if allows(role, action)]


def list_workspace_roles(action: Action) -> list[str]:
    """Values of `WorkspaceMembership.role` that allow it there, for queries."""
    return [value.value for value, role in _OF_WORKSPACE.items() if allows(role, action)]


def read_account_role(membership_role: str) -> Role:
    return _OF_ACCOUNT[Membership.Role(membership_role)]


def may_key_of(membership_role: str | None, action: Action) -> bool:
    """Whether a key of somebody with this role of an account may; one of nobody's may all."""
    if membership_role is None:
        return True
    return allows(_OF_ACCOUNT[Membership.Role(membership_role)], action)


def may_have_key(user_id: int, workspace: Workspace) -> bool:
    """Whether the person, as they stand now, may have a key in the workspace."""
    member = Membership.objects.filter(user=user_id, account=workspace.account_id)
    inside = WorkspaceMembership.objects.filter(
        membership__user=user_id,
        workspace=workspace,
        role__in=list_workspace_roles(Action.OWN_KEYS),
    )
    if not workspace.is_default:
        # Everybody of the account belongs to its default workspace.
        member = member.filter(role__in=list_account_roles(Action.OTHERS_KEYS))
    may = Q(is_staff=True) | Exists(member) | Exists(inside)
    return User.objects.filter(may, pk=user_id, is_active=True).exists()
