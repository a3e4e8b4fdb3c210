"""S3: every route, every method, every kind of caller, over HTTP; a route without a row in
`tests/support/access_table.py` fails the build."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
from django.test import override_settings
from pytest_django import DjangoDbBlocker

from tests.support.access_table import TABLE, Row
from tests.support.orm import pointed_at
from tests.support.server import GatewayServer
from tests.support.tenants import (
    Asked,
    Tenant,
    asked_of,
    expected,
    names_objects,
    new_tenant,
    routes,
)

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
# For people, whose refusals are HTML, and for directories, whose refusals are SCIM's own.
PAGES = ("/docs", "/admin", "/auth", "/scim/")
ALL = routes()
KINDS = ("", "inference", "member", "admin", "management", "admin_management")
# The log-in form itself, and the words its scripts show.
_OPEN_PAGES = {"admin/login/", "admin/jsi18n/", "admin/logout/"}


@dataclass
class Scene:
    """Two tenants at one gateway, whose database Django's models read meanwhile."""

    server: GatewayServer
    mine: Tenant
    other: Tenant
    session: requests.Session

    def ask(self, method: str, path: str, body: str = "", key: str = "") -> requests.Response:
        # Errors say the request's id: with one of the caller's own, two of them are alike.
        headers = {"Content-Type": "application/json", "X-Request-Id": "mine"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        url, data = self.server.root_url + path, body.encode() or None
        options: dict[str, Any] = {"headers": headers, "timeout": 30, "allow_redirects": False}
        return self.session.request(method, url, data=data, **options)

    def about(self, asked: Asked, method: str, key: str) -> requests.Response:
        return self.ask(method, asked.path, asked.body, key)


@pytest.fixture(scope="module")
def scene(gateway: GatewayServer, django_db_blocker: DjangoDbBlocker) -> Iterator[Scene]:
    url = gateway.env["DATABASE_URL"]
    # Vaults that are made here are to open there.
    key = Path(gateway.env["GATEWAY_HOME"], "secrets", "vault_master_key").read_text().strip()
    with (
        pointed_at(url, django_db_blocker),
        override_settings(VAULT_MASTER_KEY=key),
        requests.Session() as session,
    ):
        yield Scene(gateway, new_tenant("mine"), new_tenant("other"), session)


def test_every_route_has_a_row_and_every_row_a_route() -> None:
    # Pages of the console and the scrape have tests of their own.
    # What lies below `internal` is for signatures of other machines, which keys are none of.
    pages = ("admin", "console", "^console", "metrics", "favicon.ico", "api/internal")
    api = [route for route in ALL if route and not route.startswith(pages)]

    missing = sorted(set(api) - set(TABLE))
    assert not missing, f"no row in tests/support/access_table.py says who may use {missing}"
    assert sorted(set(TABLE) - set(api)) == [], "rows of routes that are not there"


@pytest.mark.parametrize("route", TABLE)
def test_each_caller_gets_what_the_table_says(scene: Scene, route: str) -> None:
    for method, row, kinds in _cells(route):
        for kind in kinds:
            asked = asked_of(row, scene.mine)
            answer = scene.about(asked, method, scene.mine.keys.get(kind, ""))
            _check(answer, expected(row, kind), f"{method} {asked.path} with {kind or 'no'} key")


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
        for kind, key in scene.other.keys.items():
            asked = asked_of(row, scene.mine)
            before = asked.state()
            answer = scene.about(asked, method, key)
            what = f"{method} {asked.path} with another tenant's {kind} key"
            _check(answer, expected(row, kind, foreign=True), what)
            assert asked.state() == before, what
            if answer.status_code in (400, 404):
                assert answer.content == scene.ask(method, *asked.nowhere, key).content, what


def _cells(route: str) -> Iterator[tuple[str, Row, tuple[str, ...]]]:
    """Every method with its rows, and who asks; those that the table does not have are 405 for
    everyone."""
    rows = TABLE[route]
    any_row = next(iter(rows.values()))[0]
    path = re.sub(r"\{[a-z_]+\}", "x", any_row.path)
    for method in METHODS:
        known = rows.get("GET" if method == "HEAD" else method)
        for row in known or (Row(path, 405, 405, 405, "{}"),):
            yield method, row, KINDS if method in rows else ("", "admin", "admin_management")


def _check(answer: requests.Response, status: int, what: str) -> None:
    assert answer.status_code == status, f"{what}: {answer.status_code} {answer.text[:500]}"
    if status == 405:
        assert answer.headers["Allow"], what
    is_page = answer.request.path_url.startswith(PAGES)
    if status >= 400 and answer.request.method != "HEAD" and not is_page:
        assert answer.json()["error"]["code"] == status, what


def test_money_is_each_tenants_own(scene: Scene) -> None:
    from accounts.services.books.credits import add_credits

    more: dict[str, Any] = {"source": "test", "source_ref": scene.other.account.name + " more"}
    add_credits(account=scene.other.account, amount_nano=4 * 10**9, **more)

    for tenant, credits in ((scene.mine, 1), (scene.other, 5)):
        answer = scene.ask("GET", "/api/v1/credits", key=tenant.keys["management"])
        assert answer.json()["data"]["total_credits"] == credits


def test_lists_show_each_tenant_its_own(scene: Scene) -> None:
    theirs = asked_of(Row("/{key}/{workspace}", 0, 0, 0), scene.other).path.split("/")[1:]
    for path in ("/api/v1/keys", "/api/v1/workspaces"):
        shown = scene.ask("GET", path, key=scene.mine.keys["management"])
        assert shown.status_code == 200
        assert not [each for each in theirs if each in shown.text]


def test_admin_pages_are_closed_to_keys(scene: Scene) -> None:
    keys = ("", scene.mine.keys["inference"], scene.mine.keys["admin_management"])
    for route in (route for route in ALL if route.startswith("admin/")):
        for key in keys:
            for method in ("GET", "POST"):
                _check_closed(route, scene.ask(method, _path_of(route), key=key))


def _path_of(route: str) -> str:
    """A path of the route, with something for each of its variables."""
    path = re.sub(r"<[^>]*>", "1", re.sub(r"\(\?P<[^>]*>[^)]*\)", "x", route))
    return "/" + re.sub(r"\^|\$|\\Z|\\", "", path)


def _check_closed(route: str, answer: requests.Response) -> None:
    allowed = {302, 301, 403, 404, 405} | ({200} if route in _OPEN_PAGES else set())
    assert answer.status_code in allowed, route
    if answer.status_code == 302:
        assert answer.headers["Location"].startswith(("/admin/", "/console/sign-in")), route
