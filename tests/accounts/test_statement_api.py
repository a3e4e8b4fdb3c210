"""GET /credits/statement: who gets it, for which periods, in how many queries."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts.authentication import forget_keys
from accounts.models import LedgerEntry
from accounts.services.credits import add_credits
from accounts.services.keys import create_key
from accounts.views.statement import read_query
from gateway.http.errors import SchemaInvalid
from tests.support.management import QUERIES_MAX, Manager, manager

pytestmark = [pytest.mark.django_db, pytest.mark.both]
PATH = "/api/v1/credits/statement"


@pytest.fixture
def mine(db: None) -> Manager:
    made = manager("mine")
    add_credits(
        account=made.account, amount_nano=7, source="test", source_ref="r", note='=HYPERLINK("x")'
    )
    key, _ = create_key(account=made.account, name="k", workspace=made.account.workspaces.get())
    LedgerEntry.objects.create(
        account=made.account,
        workspace=key.workspace,
        api_key=key,
        kind="usage",
        amount_nano=0,
        generation_id="g",
        source="generation",
        source_ref="g",
        created_at=datetime.now(UTC) - timedelta(seconds=1),
    )
    return made


def get(mine: Manager, query: str = "") -> Any:
    forget_keys()
    with CaptureQueriesContext(connection) as captured:
        response: Any = Client().get(PATH + query, headers={"Authorization": f"Bearer {mine.key}"})
        body = response.getvalue()
    asked = [q["sql"] for q in captured if not q["sql"].startswith(("SAVEPOINT", "RELEASE"))]
    assert len(asked) <= QUERIES_MAX, asked
    return response, body


def test_the_statement_of_this_month(mine: Manager) -> None:
    response, body = get(mine)

    assert response.status_code == 200
    assert response["Content-Type"] == "application/json"
    assert int(response["Content-Length"]) == len(body)
    data = json.loads(body)["data"]
    assert data["closing_balance_nano"] == 7
    assert data["totals"]["entries"] == 2


def test_csv_is_an_attachment_without_formulas(mine: Manager) -> None:
    response, body = get(mine, "?format=csv&start=2020-01-01&end=2099-01-01")

    assert response["Content-Type"] == "text/csv; charset=utf-8"
    name = 'attachment; filename="statement-2020-01-01-2099-01-01.csv"'
    assert response["Content-Disposition"] == name
    assert b"\"'=HYPERLINK" in body
    assert b",=" not in body


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("?start=yesterday", "start"),
        ("?start=2026-13-01", "start"),
        ("?end=2026-01-01T00:00:00", "end"),
        ("?end=2026-01-01T00:00:00%2B02:00", "end"),
        ("?start=2026-01-02&end=2026-01-01", "end"),
        ("?format=pdf", "format"),
    ],
)
def test_an_odd_query_is_400(mine: Manager, query: str, path: str) -> None:
    status, said = mine.call("GET", f"/credits/statement{query}")

    assert status == 400
    assert [issue["path"] for issue in said["error"]["metadata"]["issues"]] == [path]


def test_it_takes_a_management_key(mine: Manager) -> None:
    _, string = create_key(account=mine.account, name="i", workspace=mine.workspace("default"))

    assert mine.call("GET", "/credits/statement", key=string)[0] == 403
    assert mine.call("GET", "/credits/statement", key="nope")[0] == 401


def test_days_begin_at_midnight_utc() -> None:
    now = datetime(2026, 7, 15, 13, tzinfo=UTC)

    period, _ = read_query({"start": "2026-01-01", "end": "2026-02-01T12:30:00Z"}, now=now)
    usual, _ = read_query({}, now=now)

    assert period.start == datetime(2026, 1, 1, tzinfo=UTC)
    assert period.end == datetime(2026, 2, 1, 12, 30, tzinfo=UTC)
    assert usual == (datetime(2026, 7, 1, tzinfo=UTC), now)
    with pytest.raises(SchemaInvalid):
        read_query({"start": "x", "end": "y", "format": "z"}, now=now)
