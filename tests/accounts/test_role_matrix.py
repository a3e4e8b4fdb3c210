"""Every operation of the OpenAPI document by the role of a management key's creator; and what the
same roles do in the console."""

from functools import cache
from typing import Any

import pytest
from django.test import Client, RequestFactory
from django.urls import reverse
from drf_spectacular.generators import SchemaGenerator

from accounts.caller import Caller, read_caller
from accounts.models import Membership, User, WorkspaceMembership
from accounts.roles import ALLOWED, Action, Role
from accounts.scopes import (
    SCOPES,
    RoleTooLow,
    ScopeMissing,
    WorkspaceRefused,
    check_scope,
    find_area,
)
from accounts.services.keys import create_key
from accounts.services.organization import admit_member, change_role, open_account, open_workspace
from accounts.services.records import SYSTEM
from console.scope import _list_accounts
from tests.console.people import make_team

pytestmark = [pytest.mark.django_db, pytest.mark.both]
EVERYTHING = {
    *("keys", "workspaces", "guardrails", "billing", "catalogue", "interns", "scim", "", "read"),
}
# By role: the areas that it changes, and whether it reads all of the account.
MAY = {
    "org:owner": (EVERYTHING, True),
    "org:admin": (EVERYTHING, True),
    "org:billing": ({"billing"}, True),
    "org:member": (set[str](), False),
}


@cache
def operations() -> list[tuple[str, str]]:
    paths: Any = SchemaGenerator().get_schema(request=None, public=True)["paths"]
    verbs = {"get", "post", "put", "patch", "delete"}
    return [(verb.upper(), path) for path, each in paths.items() for verb in verbs & each.keys()]


def caller_of(role: str | None, **more: Any) -> Caller:
    account = open_account(name=f"account of {role}")
    creator = (
        admit_member(account=account, username=f"{role}", role=Membership.Role(role))
        if role
        else None
    )
    key, _ = create_key(account=account, name="k", workspace=None, creator=creator, **more)
    caller = read_caller(key.hash)
    assert caller is not None
    return caller


def is_let_in(caller: Caller, method: str, path: str) -> bool:
    try:
        check_scope(caller, RequestFactory().generic(method, path))
    except (RoleTooLow, ScopeMissing, WorkspaceRefused):
        return False
    return True


@pytest.mark.parametrize("role", MAY)
def test_a_key_does_no_more_than_its_creator(role: str) -> None:
    caller, (areas, reads_all) = caller_of(role), MAY[role]
    for method, path in operations():
        is_read = method == "GET" or path in ("/api/v1/analytics/query", "/api/v1/routing/what-if")
        expected = (
            path == "/api/v1/key" or (is_read and reads_all) or (find_area(path) or "") in areas
        )
        assert is_let_in(caller, method, path) == expected, (method, path)


@pytest.mark.parametrize("role", [None, *MAY])
@pytest.mark.parametrize("scope", SCOPES)
def test_a_scope_opens_its_area_as_far_as_the_creator_s_role(scope: str, role: str | None) -> None:
    caller = caller_of(role, scopes=[scope])
    areas, reads_all = MAY[role] if role else (EVERYTHING, True)
    for method, path in operations():
        is_read = method == "GET" or path in ("/api/v1/analytics/query", "/api/v1/routing/what-if")
        area = find_area(path) or ""
        by_role = (is_read and reads_all) or area in areas
        by_scope = area == scope or (is_read and scope == "read")
        expected = path == "/api/v1/key" or (by_role and by_scope)
        assert is_let_in(caller, method, path) == expected, (method, path)


def test_a_key_of_nobody_does_everything_as_before() -> None:
    caller = caller_of(None)
    assert all(is_let_in(caller, method, path) for method, path in operations())


def test_a_role_that_is_lowered_lowers_the_key() -> None:
    account = open_account(name="acme")
    person = admit_member(account=account, username="p", role=Membership.Role.ADMIN)
    key, _ = create_key(account=account, name="k", workspace=None, creator=person)
    before = read_caller(key.hash)
    admit_member(account=account, username="other", role=Membership.Role.OWNER)
    change_role(account_id=account.pk, user_id=person.public_id, role="org:member", by=SYSTEM)
    after = read_caller(key.hash)

    assert before
    assert after
    assert is_let_in(before, "GET", "/api/v1/keys")
    assert not is_let_in(after, "GET", "/api/v1/keys")


def test_a_key_for_some_workspaces_manages_these_and_no_others() -> None:
    account = open_account(name="acme")
    mine, other = (open_workspace(account=account, slug=slug) for slug in ("mine", "other"))
    foreign = open_workspace(account=open_account(name="other"), slug="mine")
    key, _ = create_key(
        account=account, name="k", workspace=None, managed_workspaces=[str(mine.pk)]
    )
    caller = read_caller(key.hash)
    assert caller
    assert caller.managed_workspaces == frozenset({mine.pk})
    for reference in ("mine", mine.pk):
        assert is_let_in(caller, "PATCH", f"/api/v1/workspaces/{reference}/members/add")
    for reference in ("other", other.pk):
        assert not is_let_in(caller, "GET", f"/api/v1/workspaces/{reference}")
    # What is not there stays 404, whoever asks.
    assert is_let_in(caller, "GET", f"/api/v1/workspaces/{foreign.pk}")
    open_paths = {path for method, path in operations() if is_let_in(caller, method, path)}
    assert {path.split("/")[3] for path in open_paths} == {"key", "keys", "interns", "workspaces"}


def test_every_role_is_in_the_table_and_only_operators_run_the_gateway() -> None:
    assert set(ALLOWED) == set(Role)
    assert [role for role in Role if Action.GATEWAY in ALLOWED[role]] == [Role.OPERATOR]
    assert ALLOWED[Role.OWNER] - ALLOWED[Role.ADMIN] == {Action.OWNERS}


# Who may see a colleague's key, disable it, and change its limit.
CONSOLE = {
    "owner": (200, 302, 302),
    "billing": (200, 404, 404),
    "lead": (200, 302, 302),
    "viewer": (200, 404, 404),
    "plain": (404, 404, 404),
}


@pytest.mark.parametrize("who", CONSOLE)
def test_the_console_asks_the_same_table(who: str) -> None:
    team, stranger = make_team("acme"), make_team("other")
    role = {"owner": "org:owner", "billing": "org:billing"}.get(who, "org:member")
    person = admit_member(account=team.account, username=who, role=Membership.Role(role))
    if who in ("lead", "viewer"):
        WorkspaceMembership.objects.create(
            workspace=team.account.workspaces.get(slug="led"),
            membership=Membership.objects.get(user=person),
            role="admin" if who == "lead" else "viewer",
        )
    team.people[who] = person
    client, key = team.client(who), team.keys["led"]
    path = f"/console/keys/{key.pk}"
    limit = {"name": key.name, "limit_usd": "1", "limit_reset": ""}

    found = (
        client.get(path).status_code,
        client.post(f"{path}/switch", {"to": "disabled"}).status_code,
        client.post(path, limit).status_code,
    )

    assert found == CONSOLE[who]
    assert client.get(f"/console/keys/{stranger.keys['led'].pk}").status_code == 404


def test_the_admin_asks_the_same_table(monkeypatch: pytest.MonkeyPatch) -> None:
    team = make_team("acme")
    operator = User.objects.create_superuser("op")
    paths = [reverse(name) for name in ("admin:index", "admin:accounts_apikey_changelist")]

    def open_pages(person: Any) -> list[int]:
        client = Client()
        client.force_login(person)
        return [client.get(path).status_code for path in paths]

    for role in Membership.Role:
        person = admit_member(account=team.account, username=f"x {role}", role=role)
        # What Django itself would let somebody do is not enough.
        person.is_superuser = True
        person.save(update_fields=["is_superuser"])
        assert open_pages(person) == [302, 302]
    assert open_pages(operator) == [200, 200]
    rest: Any = ALLOWED
    monkeypatch.setitem(rest, Role.OPERATOR, ALLOWED[Role.OPERATOR] - {Action.GATEWAY})
    assert open_pages(operator) == [302, 302]
    monkeypatch.setitem(rest, Role.OPERATOR, frozenset({Action.GATEWAY}))
    # The console then shows an operator no accounts but their own.
    assert _list_accounts(operator) == ([], {})
