"""Whoever asks at a tenant: sessions and keys of each role, management keys of each scope. What
each gets follows from the table of roles in `accounts/roles.py` and a row of the access table."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from django.conf import settings
from django.test import Client

from accounts.models import Membership, User, WorkspaceMembership
from accounts.roles import Action, Role, allows
from accounts.scopes import SCOPES
from accounts.services.keys import create_key
from accounts.services.organization import admit_member
from tests.support.access_table import OF_ANY_KEY, QUESTIONS, Row, find_need
from tests.support.tenants import Tenant, expected_status

BACKEND: Final = "django.contrib.auth.backends.ModelBackend"
# A person's role in the account and, if any, in its default workspace.
PEOPLE: Final[dict[str, tuple[Role, Role | None]]] = {
    "owner": (Role.OWNER, None),
    "admin": (Role.ADMIN, None),
    "billing": (Role.BILLING, None),
    "member": (Role.MEMBER, None),
    "workspace admin": (Role.MEMBER, Role.WORKSPACE_ADMIN),
    "workspace member": (Role.MEMBER, Role.WORKSPACE_MEMBER),
    "workspace viewer": (Role.MEMBER, Role.WORKSPACE_VIEWER),
}


@dataclass(frozen=True)
class Caller:
    """`headers` are the credential. `role` is a key's creator's in the account, and `inside` in
    the workspace; None for a key of nobody's. `scopes` None is all; `is_bound` is a management key
    for the default workspace only."""

    name: str
    headers: dict[str, str]
    is_key: bool = True
    manages: bool = False
    role: Role | None = None
    inside: Role | None = None
    scopes: tuple[str, ...] | None = None
    is_bound: bool = False

    def may(self, action: Action) -> bool:
        """Whether the creator's role allows it; in the workspace, of an inference key."""
        roles = {self.role} if self.manages else {self.role, self.inside}
        return self.role is None or any(role and allows(role, action) for role in roles)


NOBODY: Final = Caller("nobody", {}, is_key=False)


def make_callers(tenant: Tenant) -> Iterator[Caller]:
    """Each of them at this tenant, by the database of the moment."""
    people = {name: _make_person(tenant, name) for name in PEOPLE}
    operator = User.objects.create(username=f"{tenant.account.name}-operator", is_staff=True)
    for name, user in {"operator": operator, **people}.items():
        client = Client()
        client.force_login(user, backend=BACKEND)
        session = client.cookies[settings.SESSION_COOKIE_NAME].value
        cookie = f"{settings.SESSION_COOKIE_NAME}={session}"
        yield Caller(f"{name}'s session", {"Cookie": cookie}, is_key=False)
    yield _make_key(tenant, "nobody's inference key", manages=False)
    yield _make_key(tenant, "nobody's management key")
    for name, (role, inside) in PEOPLE.items():
        whose: Any = {"creator": people[name], "role": role, "inside": inside}
        yield _make_key(tenant, f"{name}'s inference key", manages=False, **whose)
        yield _make_key(tenant, f"{name}'s management key", **whose)
    for scope in SCOPES:
        yield _make_key(tenant, f"management key with the scope {scope}", scopes=(scope,))
    yield _make_key(tenant, "management key for a workspace", is_bound=True)


def _make_person(tenant: Tenant, name: str) -> User:
    role, inside = PEOPLE[name]
    user = admit_member(
        account=tenant.account,
        username=f"{tenant.account.name}-{name}",
        role=Membership.Role(f"org:{role.value}"),
    )
    if inside:
        rank = inside.value.removeprefix("workspace ")
        WorkspaceMembership.objects.create(
            workspace=tenant.workspace,
            membership=user.memberships.get(),
            role=rank,
            own_role=rank,
        )
    return user


def _make_key(
    tenant: Tenant, name: str, *, manages: bool = True, creator: User | None = None, **more: Any
) -> Caller:
    caller = Caller(name, {}, manages=manages, **more)
    _, string = create_key(
        account=tenant.account,
        name="k",
        workspace=None if manages else tenant.workspace,
        creator=creator,
        scopes=caller.scopes,
        managed_workspaces=[str(tenant.workspace.pk)] if caller.is_bound else None,
    )
    caller.headers["Authorization"] = f"Bearer {string}"
    return caller


def expect(caller: Caller, method: str, row: Row, *, foreign: bool = False) -> int:
    """The status for the caller, of another tenant than the row's objects where `foreign`."""
    if not caller.is_key:
        # A session is nothing to the API.
        return row.nobody
    if not caller.manages:
        return expected_status(row, _kind_of(caller, method, row), foreign=foreign)
    if row.scoped and "interns" in (caller.scopes or ()):
        return expected_status(row, "admin", foreign=foreign)
    if row.management not in (401, row.nobody) and not is_open(caller, method, row, foreign):
        return 403
    return expected_status(row, "management", foreign=foreign)


def _kind_of(caller: Caller, method: str, row: Row) -> str:
    if caller.role is None:
        return "inference"
    if row.admin is None:
        return "member"
    need = find_need(row.path)
    return "admin" if caller.may(need.see if method == "GET" else need.change) else "member"


def is_open(caller: Caller, method: str, row: Row, foreign: bool = False) -> bool:
    """Whether the row is open to a management key of this role and these scopes."""
    if row.path in OF_ANY_KEY:
        return True
    is_read = method in ("GET", "HEAD") or row.path in QUESTIONS
    need = find_need(row.path)
    if not caller.may(need.change) and not (is_read and caller.may(need.see)):
        return False
    if caller.is_bound:
        # It is not for the row's workspace; another tenant's is not even there.
        if row.path.startswith("/api/v1/workspaces/"):
            return foreign
        return row.path.startswith("/api/v1/keys") and "{workspace}" not in row.path + row.body
    opened = {need.change.value, *(["read"] if is_read else [])}
    return caller.scopes is None or bool(opened & set(caller.scopes))
