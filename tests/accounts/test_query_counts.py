"""No endpoint asks the database more than six times, lists of many included: every row of the
access table, for every caller who gets an answer, past the cache of keys."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from accounts.authentication import forget_keys
from routing.catalogue.document import parse
from routing.catalogue.load import load
from routing.catalogue.snapshot import catalogue
from tests.support.access_table import TABLE
from tests.support.catalogue import CONFORMANCE
from tests.support.tenants import THINGS, Tenant, asked_of, expected, new_tenant, rows_of

pytestmark = [pytest.mark.django_db, pytest.mark.both, pytest.mark.thorough]
QUERIES_MAX = 6
# Making an intern locks its workspace, and makes its key, its vault and the first line of its
# history.
_MORE = {("POST", "api/v1/interns"): 14}
# What begins and ends transactions asks nothing.
_MARKS = ("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE", "ROLLBACK")
# Enough to tell a query for each from one for all.
OBJECTS = 8


@contextmanager
def loaded() -> Iterator[None]:
    """With a catalogue."""
    load(parse(CONFORMANCE.read_text(encoding="utf-8")))
    catalogue.forget()
    catalogue.current()
    yield
    catalogue.forget()


@pytest.fixture
def tenant(settings: Settings) -> Iterator[Tenant]:
    """With several objects of every kind."""
    settings.INTERNS_MAX_PER_MEMBER = 100
    with loaded():
        found = new_tenant("counted")
        for thing in THINGS.values():
            for _ in range(OBJECTS):
                thing.make(found)
        yield found


@pytest.mark.parametrize("route", [route for route in TABLE if route.startswith("api/")])
def test_no_endpoint_asks_more_than_six_times(tenant: Tenant, route: str) -> None:
    for method, rows in TABLE[route].items():
        for row in rows_of(rows):
            for kind in ("", *tenant.keys):
                asked = asked_of(row, tenant)
                answer, queries = counted(tenant, kind, method, asked.path, asked.body)
                assert answer.status_code == expected(row, kind)
                most = _MORE.get((method, route), QUERIES_MAX)
                assert len(queries) <= most, (method, asked.path, kind, queries)


def counted(
    tenant: Tenant,
    kind: str,
    method: str,
    path: str,
    body: str,
    more: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Any, list[str]]:
    """The answer, and what the database was asked for it; `more` are headers."""
    forget_keys()
    headers = {"Authorization": f"Bearer {tenant.keys[kind]}"} if kind else {}
    client = Client(raise_request_exception=False, headers=headers | dict(more))
    with CaptureQueriesContext(connection) as captured:
        answer = client.generic(
            method,
            path,
            body,
            content_type="application/json",
            CONTENT_LENGTH=str(len(body.encode())),
        )
    queries = [each["sql"] for each in captured.captured_queries]
    return answer, [sql for sql in queries if not sql.startswith(_MARKS)]
