"""S6: whatever stands in a path, a query or a field of any route is data: the SQL is the same
whatever it says, and nothing fails. Every row of the access table that names something is tried."""

import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
from django.db import connection
from django.test import Client

from accounts.authentication import forget_keys
from routing.catalogue.document import parse
from routing.catalogue.load import load
from routing.catalogue.snapshot import catalogue
from tests.faults.test_s6_injection import INJECTIONS, MARK
from tests.support.access_table import TABLE, Row
from tests.support.catalogue import CONFORMANCE
from tests.support.tenants import Tenant, asked_of, expected, new_tenant, rows_of

pytestmark = pytest.mark.django_db
# Every query parameter that some list knows.
QUERY = ("offset", "limit", "workspace_id", "include_disabled", "include_expired", "id", "sort")
CALLERS = ("management", "inference", "admin")


@pytest.fixture
def tenant() -> Iterator[Tenant]:
    load(parse(CONFORMANCE.read_text(encoding="utf-8")))
    catalogue.forget()
    catalogue.current()
    yield new_tenant("injected")
    catalogue.forget()


class Asked:
    """One request: what it was answered, and whether its words came into a statement."""

    def __init__(self, method: str, path: str, body: str, key: str) -> None:
        self.statements: list[str] = []
        forget_keys()
        client = Client(headers={"Authorization": f"Bearer {key}"})
        with connection.execute_wrapper(self._note):
            sent: Any = {
                "content_type": "application/json",
                "CONTENT_LENGTH": str(len(body.encode())),
            }
            answer = client.generic(method, path, body, **sent)
        where = f"{method} {path} {body[:200]}: {answer.status_code}"
        assert answer.status_code < 500, where
        assert answer["Content-Type"] == "application/json", where
        assert not any(MARK in statement for statement in self.statements), where

    def _note(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        self.statements.append(sql)
        return execute(sql, params, many, context)


# One in four of the texts at each place, the next ones at the next place.
SHARES = [pytest.param(4, id="some"), pytest.param(1, id="all", marks=pytest.mark.nightly)]


@pytest.mark.parametrize("one_in", SHARES)
@pytest.mark.parametrize("route", [route for route in TABLE if route.startswith("api/")])
def test_whatever_a_request_says_is_data(tenant: Tenant, route: str, one_in: int) -> None:
    for method, rows in TABLE[route].items():
        for row in rows_of(rows):
            allowed = [kind for kind in CALLERS if expected(row, kind) not in (401, 403)]
            # What only an intern's own key may is looked at for others, too.
            _try(tenant, method, row, tenant.keys[(allowed or ["admin"])[0]], one_in)


def _try(tenant: Tenant, method: str, row: Row, key: str, one_in: int) -> None:
    asked = asked_of(row, tenant)
    for number, text in enumerate(INJECTIONS):
        tried = [
            *((path, asked.body) for path in _paths(method, asked.path, text)),
            *((asked.path, body) for body in _bodies(asked.body, text)),
        ]
        for path, body in tried[number % one_in :: one_in]:
            Asked(method, path, body, key)


def _paths(method: str, path: str, text: str) -> Iterator[str]:
    """Each variable part of the path in turn, each parameter of the query, and a new one."""
    place, _, _ = path.partition("?")
    parts = place.split("/")
    for number in range(4, len(parts)):
        changed = [*parts[:number], quote(text, safe=""), *parts[number + 1 :]]
        yield "/".join(changed)
    for name in QUERY if method == "GET" else ():
        yield f"{place}?{name}={quote(text, safe='')}"


def _bodies(body: str, text: str) -> Iterator[str]:
    """Each value of the body in turn, and a field of that name."""
    if not body:
        return
    whole = json.loads(body)
    for change in _changes(whole, text):
        yield json.dumps(change)
    yield json.dumps({**whole, text[:200]: text})


def _changes(value: Any, text: str) -> Iterator[Any]:
    """The value with one of its leaves replaced, leaf by leaf."""
    rebuilt: Callable[[Any, Any], Any]
    if isinstance(value, dict):
        rebuilt = lambda name, inner: {**value, name: inner}  # noqa: E731 - One for each shape.
        inside: list[tuple[Any, Any]] = list(value.items())
    elif isinstance(value, list):
        rebuilt = lambda at, inner: [*value[:at], inner, *value[at + 1 :]]  # noqa: E731 - Likewise.
        inside = list(enumerate(value))
    else:
        yield text
        return
    for name, each in inside:
        for inner in _changes(each, text):
            yield rebuilt(name, inner)
