"""A period of more generations than are read at once, many of them of one moment."""

import io
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command

from accounts.models import ApiKey
from routing.management.commands import what_if
from routing.metering.models import Generation
from tests.support.operations import fill

pytestmark = [pytest.mark.django_db, pytest.mark.both]
BEGIN = datetime(2020, 1, 1, tzinfo=UTC)
PER_MOMENT = 7


def add(rows: int) -> None:
    fill(1)
    key = ApiKey.objects.latest("id")
    Generation.objects.bulk_create(
        Generation(
            id=f"gen-replayed-{n}",
            account=key.account,
            workspace=key.workspace,
            api_key=key,
            created_at=BEGIN + timedelta(seconds=n // PER_MOMENT),
            model="acme/one",
            requested_model="acme/one",
            status=503 if n % 2 else 200,
            streamed=False,
        )
        for n in range(rows)
    )


def told(*options: str) -> Any:
    out = io.StringIO()
    until = ("--until", "2021-01-01")
    call_command("what_if", "--json", "--since", "2020-01-01", *until, *options, stdout=out)
    return json.loads(out.getvalue())


@pytest.mark.parametrize("rows", [0, 1, 30, 31, 59, 60, 61])
def test_every_row_is_seen_once(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setattr(what_if, "_PORTION_ROWS", 30)
    add(rows)

    found = told()

    assert found["generations"] == rows
    assert found["not_replayed"].get("it was not answered", 0) == rows
    assert (found["compared"], found["before"]["latency_s"]) == (0, None)


def test_a_limit_is_kept_across_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(what_if, "_PORTION_ROWS", 30)
    add(100)

    assert [told("--limit", str(n))["generations"] for n in (0, 1, 30, 31, 99, 500)] == [
        *(0, 1, 30, 31, 99, 100)
    ]
