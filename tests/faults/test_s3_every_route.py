"""S3: every route and path of the OpenAPI document, every method, every caller there is
(`tests/support/askers.py`), at their own tenant and at another, over HTTP. A route without a row
in `tests/support/access_table.py` fails the build."""

import http.client
import json
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from django.test import override_settings
from django.urls import resolve
from pytest_django import DjangoDbBlocker

from accounts.roles import Role
from tests.support.access_table import TABLE, Row
from tests.support.askers import NOBODY, Caller, expect, make_callers
from tests.support.orm import pointed_at
from tests.support.server import GatewayServer
from tests.support.tenants import Asked, Tenant, asked_of, names_objects, new_tenant, routes

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
# For people, whose refusals are HTML, and for directories, whose refusals are SCIM's own.
PAGES = ("/docs", "/admin", "/auth", "/scim/")
ALL = routes()
# Pages know sessions, and describe themselves.
UNDESCRIBED = ("healthz", "readyz", "^docs", "auth", "scim/")
# The log-in form itself, and the words its scripts show.
_OPEN_PAGES = {"admin/login/", "admin/jsi18n/", "admin/logout/"}
# Enough where who asks makes no difference.
SOME = ("nobody", "admin's inference key", "admin's management key")


class Answer(NamedTuple):
    method: str
    path: str
    status: int
    headers: http.client.HTTPMessage
    content: bytes

    def json(self) -> Any:
        return json.loads(self.content)


@dataclass
class Scene:
    """Two tenants at one gateway, whose database Django's models read meanwhile."""

    connection: http.client.HTTPConnection
    mine: Tenant
    other: Tenant

    @cached_property
    def callers(self) -> dict[str, Caller]:
        return {each.name: each for each in (NOBODY, *make_callers(self.mine))}

    @cached_property
    def strangers(self) -> list[Caller]:
        return list(make_callers(self.other))

    def ask(self, method: str, path: str, body: str = "", caller: Caller = NOBODY) -> Answer:
        # Errors say the request's id: with one of the caller's own, two of them are alike.
        headers = {"Content-Type": "application/json", "X-Request-Id": "mine", **caller.headers}
        self.connection.request(method, path, body.encode() or None, headers)
        answer = self.connection.getresponse()
        assert answer.headers["X-Request-Id"] == "mine", (method, path)
        return Answer(method, path, answer.status, answer.headers, answer.read())

    def about(self, asked: Asked, method: str, caller: Caller) -> Answer:
        return self.ask(method, asked.path, asked.body, caller)


@pytest.fixture(scope="module")
def scene(gateway: GatewayServer, django_db_blocker: DjangoDbBlocker) -> Iterator[Scene]:
    url, home = gateway.env["DATABASE_URL"], Path(gateway.env["GATEWAY_HOME"])
    # Vaults and sessions that are made here are to open there.
    keys = {
        name: (home / "secrets" / name.lower()).read_text().strip()
        for name in ("VAULT_MASTER_KEY", "SECRET_KEY")
    }
    connection = http.client.HTTPConnection(urlsplit(gateway.root_url).netloc, timeout=60)
    with (
        pointed_at(url, django_db_blocker),
        override_settings(**keys),
        closing(connection),
    ):
        yield Scene(connection, new_tenant("mine"), new_tenant("other"))


def test_every_route_has_a_row_and_every_row_a_route() -> None:
    # Pages of the console and the scrape have tests of their own.
    # What lies below `internal` is for signatures of other machines, which keys are none of.
    pages = ("admin", "console", "^console", "metrics", "favicon.ico", "api/internal")
    api = [route for route in ALL if route and not route.startswith(pages)]

    missing = sorted(set(api) - set(TABLE))
    assert not missing, f"no row in tests/support/access_table.py says who may use {missing}"
    assert sorted(set(TABLE) - set(api)) == [], "rows of routes that are not there"


def test_every_path_of_the_openapi_document_has_a_row(scene: Scene) -> None:
    document = scene.ask("GET", "/api/v1/openapi.json").json()
    described = {
        (resolve(path).route, method.upper())
        for path, operations in document["paths"].items()
        for method in operations
        if method.upper() in METHODS
    }
    rows = {(route, method) for route, methods in TABLE.items() for method in methods}

    assert described - rows == set()
    api = {route for route in TABLE if not route.startswith(UNDESCRIBED)}
    assert api - {route for route, _ in described} == set()


def test_the_sessions_are_good_ones(scene: Scene) -> None:
    sessions = [each for each in scene.callers.values() if "Cookie" in each.headers]

    assert len(sessions) == len(Role)
    for caller in sessions:
        answer = scene.ask("GET", "/console/you", caller=caller)
        assert answer.status == 200, caller.name


@pytest.mark.parametrize("route", TABLE)
def test_each_caller_gets_what_the_table_says(scene: Scene, route: str) -> None:
    for method, row, callers in _cells(scene, route):
        # What is not changed is there for the next one, too.
        there = asked_of(row, scene.mine)
        before = there.state()
        for caller in callers:
            status = expect(caller, method, row)
            changes = status < 400 and method not in ("GET", "HEAD")
            asked = asked_of(row, scene.mine) if changes else there
            answer = scene.about(asked, method, caller)
            _check(answer, status, f"{method} {asked.path} by {caller.name}")
        assert there.state() == before, f"{method} {row.path}"


NAMING = [
    (route, method, row)
    for route, methods in TABLE.items()
    for method, rows in methods.items()
    for row in rows
    if names_objects(row)
]


@pytest.mark.parametrize("route", {route: None for route, _, _ in NAMING})
def test_what_belongs_to_another_tenant_is_not_there(scene: Scene, route: str) -> None:
    """And nothing tells an id of theirs from one that never was, nor changes what it names."""
    for _, method, row in (each for each in NAMING if each[0] == route):
        asked = asked_of(row, scene.mine)
        before = asked.state()
        for caller in scene.strangers:
            answer = scene.about(asked, method, caller)
            what = f"{method} {asked.path} by {caller.name} of another tenant"
            _check(answer, expect(caller, method, row, foreign=True), what)
            if answer.status in (400, 403, 404):
                nowhere = scene.ask(method, *asked.nowhere, caller)
                assert (answer.status, answer.content) == (nowhere.status, nowhere.content), what
        assert asked.state() == before, f"{method} {row.path}"


def _cells(scene: Scene, route: str) -> Iterator[tuple[str, Row, list[Caller]]]:
    """Every method with its rows, and who asks; those that the table does not have are 405 for
    everyone."""
    rows, everybody = TABLE[route], list(scene.callers.values())
    any_row = next(iter(rows.values()))[0]
    path = re.sub(r"\{[a-z_]+\}", "x", any_row.path)
    some = [scene.callers[name] for name in SOME]
    # A page shows people what they may see there.
    able = [each for each in everybody if "Cookie" not in each.headers]
    for method in METHODS:
        known = rows.get("GET" if method == "HEAD" else method)
        for row in known or (Row(path, 405, 405, 405, "{}"),):
            if method not in rows:
                yield method, row, some
            else:
                yield method, row, able if route == "auth" else everybody


def _check(answer: Answer, status: int, what: str) -> None:
    assert answer.status == status, f"{what}: {answer.status} {answer.content[:500]!r}"
    if status == 405:
        assert answer.headers["Allow"], what
    if status >= 400 and answer.method != "HEAD" and not answer.path.startswith(PAGES):
        assert answer.json()["error"]["code"] == status, what


def test_money_is_each_tenants_own(scene: Scene) -> None:
    from accounts.services.books.credits import add_credits

    more: dict[str, Any] = {"source": "test", "source_ref": scene.other.account.name + " more"}
    add_credits(account=scene.other.account, amount_nano=4 * 10**9, **more)

    for tenant, credits in ((scene.mine, 1), (scene.other, 5)):
        answer = scene.ask("GET", "/api/v1/credits", caller=_manager(tenant))
        assert answer.json()["data"]["total_credits"] == credits


def test_lists_show_each_tenant_its_own(scene: Scene) -> None:
    theirs = asked_of(Row("/{key}/{workspace}", 0, 0, 0), scene.other).path.split("/")[1:]
    for path in ("/api/v1/keys", "/api/v1/workspaces"):
        shown = scene.ask("GET", path, caller=_manager(scene.mine))
        assert shown.status == 200
        assert not [each for each in theirs if each in shown.content.decode()]


def test_admin_pages_are_closed_to_keys(scene: Scene) -> None:
    """Who asks makes no difference, for no page looks at keys."""
    admin = (route for route in ALL if route.startswith("admin/"))
    for route, name in zip(admin, cycle(SOME), strict=False):
        for method in ("GET", "POST"):
            answer = scene.ask(method, _path_of(route), caller=scene.callers[name])
            _check_closed(route, answer)


def _manager(tenant: Tenant) -> Caller:
    return Caller("manager", {"Authorization": f"Bearer {tenant.keys['management']}"})


def _path_of(route: str) -> str:
    """A path of the route, with something for each of its variables."""
    path = re.sub(r"<[^>]*>", "1", re.sub(r"\(\?P<[^>]*>[^)]*\)", "x", route))
    return "/" + re.sub(r"\^|\$|\\Z|\\", "", path)


def _check_closed(route: str, answer: Answer) -> None:
    allowed = {302, 301, 403, 404, 405} | ({200} if route in _OPEN_PAGES else set())
    assert answer.status in allowed, route
    if answer.status == 302:
        assert answer.headers["Location"].startswith(("/admin/", "/console/sign-in")), route
