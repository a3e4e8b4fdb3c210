"""S6: whatever a caller writes in a path, a query, a header or a field is data. There are the same
statements, no 5xx, and no trace of it in the SQL."""

import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
from django.db import connection, transaction
from django.test import Client

from accounts.authentication import forget_keys
from accounts.services.books.credits import add_credits
from accounts.services.keys import create_key
from accounts.services.organization import open_account
from routing.catalogue.files import parse
from routing.catalogue.load import load_catalogue
from routing.catalogue.snapshot import catalogue
from tests.support.access_table import TABLE, Row
from tests.support.catalogue import CONFORMANCE
from tests.support.tenants import Tenant, asked_of, expected_status, new_tenant

pytestmark = pytest.mark.django_db
MARK = "zqx"
HARMLESS = f"{MARK}word"
INJECTIONS = [
    f"{MARK}' OR '1'='1",
    f'{MARK}" OR ""="',
    f"{MARK}'; DROP TABLE accounts_account; --",
    f"{MARK}') UNION SELECT hash FROM accounts_apikey --",  # noqa: S608 - Never executed.
    f"{MARK}\\'; SELECT pg_sleep(9); --",
    f"{MARK}%' AND 1=CAST((SELECT 1) AS int) --",
    f"{MARK}/**/OR/**/1=1",
    f"{MARK}%s%s%s%n %(name)s {{0}} ${{7*7}} {{{{7*7}}}} <%= 7*7 %>",
    f"{MARK};cat /etc/passwd|`id`$(id)",
    f"{MARK}../../../../etc/passwd",
    f"{MARK}<script>alert(1)</script>",
    f"{MARK}*)(uid=*))(|(uid=*",
    f"{MARK}__import__('os').system('id')",
    f"{MARK}\t\x01\x7f",
    f"{MARK}é漢👩‍🚀\u202e\ufffe",
    MARK + "A" * 3000,
]
IN_HEADERS = [
    *("Authorization", "X-Session-Id", "X-Router-Title", "X-Router-Categories", "User-Agent"),
    *("X-Router-Metadata", "HTTP-Referer", "Referer", "X-Forwarded-For", "Accept", "Cookie"),
    "Content-Type",
]
FIELDS: dict[str, Callable[[str], dict[str, Any]]] = {
    "model": lambda text: {"model": text},
    "models": lambda text: {"model": "acme/none", "models": [text]},
    "preset": lambda text: {"preset": text},
    "user": lambda text: {"user": text, "temperature": 9},
    "session": lambda text: {"session_id": text, "temperature": 9},
    "role": lambda text: {"messages": [{"role": text, "content": text}]},
    "provider": lambda text: {"provider": {text: text}},
    "field": lambda text: {text: text, "model": text},
}


@pytest.fixture
def key() -> Iterator[str]:
    assert load_catalogue(parse(CONFORMANCE.read_text(encoding="utf-8")))["errors"] == []
    account = open_account(name="someone")
    add_credits(account=account, amount_nano=10**9, source="t", source_ref="t")
    catalogue.forget()
    catalogue.current()
    yield create_key(account=account, name="k", workspace=account.workspaces.get())[1]
    catalogue.forget()


class Asked:
    """One request: its status, and the statements it made, without their parameters. Whatever it
    says comes into none of them, and nothing fails."""

    def __init__(self, method: str, path: str, *, key: str = "", body: str = "", **said: Any):
        self.statements: list[str] = []
        forget_keys()
        headers = ({"Authorization": f"Bearer {key}"} if key else {}) | said.get("headers", {})
        sent: dict[str, Any] = {"content_type": "application/json", "headers": headers}
        # The client would send none of an empty body.
        sent["CONTENT_LENGTH"] = str(len(body.encode()))
        with connection.execute_wrapper(self._note):
            answer = Client().generic(method, path, body, **sent)
        self.status: int = answer.status_code
        where = f"{method} {path} {body[:200]} {said}: {self.status}"
        assert self.status < 500, where
        kinds = ("application/json", "text/csv; charset=utf-8")
        assert answer["Content-Type"] in kinds, where
        assert not any(MARK in statement for statement in self.statements), where

    def _note(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        self.statements.append(sql)
        return execute(sql, params, many, context)


@pytest.mark.parametrize("header", IN_HEADERS)
def test_in_a_header(key: str, header: str) -> None:
    def ask(text: str) -> Asked:
        return Asked("GET", "/api/v1/key", key=key, headers={header: text})

    usual = ask(HARMLESS)
    for text in INJECTIONS:
        assert ask(text).statements == usual.statements, text


@pytest.mark.parametrize("prefix", ["Bearer ", "bearer ", "Bearer sk-rt-v1-", "Basic "])
def test_in_a_credential_no_query_is_made_at_all(prefix: str) -> None:
    for text in INJECTIONS:
        asked = Asked("GET", "/api/v1/key", headers={"Authorization": prefix + text})
        assert (asked.status, asked.statements) == (401, [])


@pytest.mark.both
@pytest.mark.parametrize("field", FIELDS)
def test_in_a_body(key: str, field: str) -> None:
    def ask(text: str) -> Asked:
        body = {"model": "acme/none", "messages": [{"role": "user", "content": text}]}
        body |= FIELDS[field](text)
        return Asked("POST", "/api/v1/chat/completions", key=key, body=json.dumps(body))

    usual = ask(HARMLESS)
    for text in INJECTIONS:
        asked = ask(text)
        assert asked.status in (400, 404), text
        if field == "preset":  # What no slug can be is not looked up.
            assert asked.statements == usual.statements[: len(asked.statements)], text
        else:
            assert asked.statements == usual.statements, text
    assert {"accounts_account", "accounts_apikey"} <= set(connection.introspection.table_names())


# --- Every row of the access table that names something -------------------------------------------

# Every query parameter that some list knows.
QUERY = ("offset", "limit", "workspace_id", "include_disabled", "include_expired", "id", "sort")
CALLERS = ("management", "inference", "admin")


@pytest.fixture
def tenant() -> Iterator[Tenant]:
    load_catalogue(parse(CONFORMANCE.read_text(encoding="utf-8")))
    catalogue.forget()
    catalogue.current()
    yield new_tenant("injected")
    catalogue.forget()


# One in eight of the texts at each place, the next ones at the next place.
SHARES = [pytest.param(8, id="some"), pytest.param(1, id="all", marks=pytest.mark.nightly)]


# The first word behind the version: a tenant is made for each.
AREAS = sorted({route.split("/")[2] for route in TABLE if route.startswith("api/")})


@pytest.mark.parametrize("one_in", SHARES)
@pytest.mark.parametrize("area", AREAS)
def test_whatever_a_request_says_is_data(tenant: Tenant, area: str, one_in: int) -> None:
    mine = [route for route in TABLE if route.startswith("api/") and route.split("/")[2] == area]
    for route in mine:
        with transaction.atomic():
            _try_route(tenant, route, one_in)
            # The tenant is as new for the next one.
            transaction.set_rollback(True)


def _try_route(tenant: Tenant, route: str, one_in: int) -> None:
    for method, rows in TABLE[route].items():
        for row in rows:
            allowed = [kind for kind in CALLERS if expected_status(row, kind) not in (401, 403)]
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
            Asked(method, path, key=key, body=body)


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
