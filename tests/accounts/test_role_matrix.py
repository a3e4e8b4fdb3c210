"""Management keys with scopes, whose creators have roles; and what the same roles do in the admin.
`tests/faults/test_s3_every_route.py` asks every path over HTTP, `tests/console/test_role_matrix.py`
every page."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.test import Client, RequestFactory
from django.urls import reverse

from accounts.caller import Caller, read_caller
from accounts.models import Membership, User
from accounts.roles import ALLOWED, Action, Role
from accounts.scopes import (
    SCOPES,
    RoleTooLow,
    ScopeMissing,
    WorkspaceRefused,
    check_scope,
)
from accounts.services.keys import create_key
from accounts.services.organization import admit_member, open_account, open_workspace
from console.scope import _list_places
from tests.console.people import make_team
from tests.support.access_table import OF_ANY_KEY, TABLE, Row
from tests.support.askers import PEOPLE, is_open
from tests.support.askers import Caller as Asker
from tests.support.tenants import NAMES

pytestmark = [pytest.mark.django_db, pytest.mark.both]


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


ROLES: list[Role | None] = [None, *{role for role, _ in PEOPLE.values()}]


@pytest.mark.parametrize("scope", SCOPES)
def test_a_scope_opens_its_area_as_far_as_the_creator_s_role(scope: str) -> None:
    for role in ROLES:
        caller = caller_of(f"org:{role.value}" if role else None, scopes=[scope])
        asks = Asker("", {}, manages=True, role=role, scopes=(scope,))
        for method, row in list_managed_rows():
            path = NAMES.sub("x", urlsplit(row.path).path)
            said = (role, method, path, is_let_in(caller, method, path))
            assert said == (role, method, path, is_open(asks, method, row))


def list_managed_rows() -> Iterator[tuple[str, Row]]:
    """Those of management keys that look at scopes."""
    for methods in TABLE.values():
        for method, rows in methods.items():
            for row in rows:
                if row.management not in (401, row.nobody) and row.path not in OF_ANY_KEY:
                    yield method, row


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


def test_every_role_is_in_the_table_and_only_operators_run_the_gateway() -> None:
    assert set(ALLOWED) == set(Role)
    assert [role for role in Role if Action.GATEWAY in ALLOWED[role]] == [Role.OPERATOR]
    assert ALLOWED[Role.OWNER] - ALLOWED[Role.ADMIN] == {Action.OWNERS}


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
    assert _list_places(operator) == []
