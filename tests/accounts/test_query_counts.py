"""No endpoint asks the database more than six times. That holds for every row of the access table,
every caller who gets an answer, past the cache of keys, and lists of many. `Manager.call` holds
each request of the other tests to the same, in whatever state they bring about."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from accounts.authentication import forget_keys
from tests.support.access_table import TABLE, Row
from tests.support.tenants import THINGS, Tenant, asked_of, expected_status, new_tenant

pytestmark = [
    *(pytest.mark.django_db, pytest.mark.both, pytest.mark.thorough),
    pytest.mark.usefixtures("loaded_catalogue"),
]
QUERIES_MAX = 6
# Making an intern locks its workspace, and makes its key, its vault and the first line of its
# history.
_MORE = {("POST", "api/v1/interns"): 14}
# Memberships of workspaces follow a mapping in one go, whatever their number.
_MAPPINGS = {route for route in TABLE if "scim/group-mappings" in route}
_MORE |= dict.fromkeys(itertools.product(("POST", "PATCH", "DELETE"), _MAPPINGS), 10)
# It takes what is secret with it, each kind by a statement.
_MORE[("DELETE", "api/v1/workspaces/(?P<workspace>[^/]+)$")] = 7
# Which machines are alive decides where an intern boots, and where it is taken down.
_MORE[("DELETE", "api/v1/interns/(?P<intern_id>[^/]+)$")] = 7
_MORE[("POST", "api/v1/interns/(?P<intern_id>[^/]+)/provision$")] = 7
# It erases in as many tables: requests, figures, sessions of interns, budgets, events, keys.
_MORE[("POST", "api/v1/privacy/erasures")] = 14
# What begins and ends transactions asks nothing, nor does the event that a deed records.
_MARKS = (
    "BEGIN",
    "COMMIT",
    "SAVEPOINT",
    "RELEASE",
    "ROLLBACK",
    'INSERT INTO "accounts_event"',
    'INSERT OR IGNORE INTO "accounts_event"',
)
# Enough to tell a query for each from one for all.
OBJECTS = 8


def count_queries(
    tenant: Tenant, kind: str, method: str, path: str, body: str, **headers: str
) -> tuple[Any, list[str]]:
    """The answer, and what the database was asked for it."""
    forget_keys()
    if kind:
        headers["Authorization"] = f"Bearer {tenant.keys[kind]}"
    client = Client(raise_request_exception=False, headers=headers)
    sent: dict[str, Any] = {"content_type": "application/json"}
    sent["CONTENT_LENGTH"] = str(len(body.encode()))
    with CaptureQueriesContext(connection) as captured:
        answer = client.generic(method, path, body, **sent)
    queries = [each["sql"] for each in captured.captured_queries]
    return answer, [sql for sql in queries if not sql.startswith(_MARKS)]


@contextmanager
def roll_back() -> Iterator[None]:
    """What is changed within is as it was behind it."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


@pytest.fixture
def tenant(settings: Settings) -> Tenant:
    """With several objects of every kind."""
    settings.INTERNS_MAX_PER_MEMBER = 100
    found = new_tenant("counted")
    for thing in THINGS.values():
        for _ in range(OBJECTS):
            thing.make(found)
    return found


def check_row(tenant: Tenant, kind: str, method: str, row: Row, most: int) -> None:
    asked = asked_of(row, tenant)
    answer, queries = count_queries(tenant, kind, method, asked.path, asked.body)
    assert answer.status_code == expected_status(row, kind), (method, asked.path, kind)
    assert len(queries) <= most, (method, asked.path, kind, queries)


def test_no_endpoint_asks_more_than_six_times(tenant: Tenant) -> None:
    for route in (route for route in TABLE if route.startswith("api/")):
        with roll_back():
            for method, rows in TABLE[route].items():
                most = _MORE.get((method, route), QUERIES_MAX)
                for row, kind in itertools.product(rows, ("", *tenant.keys)):
                    check_row(tenant, kind, method, row, most)


def test_no_list_asks_an_admin_s_database_once_for_each_row(tenant: Tenant) -> None:
    """The part that a change runs: what is read of many rows, by who sees all of them."""
    for route in (route for route in TABLE if route.startswith("api/")):
        for row in TABLE[route].get("GET", ()):
            for kind in ("admin", "admin_management"):
                if expected_status(row, kind) == 200:
                    check_row(tenant, kind, "GET", row, QUERIES_MAX)
