from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client

from accounts.models import ApiKey, LedgerEntry
from routing.metering.models import Generation
from tests.support.operations import fill, generation, page

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def add(**fields: Any) -> Generation:
    fill(1)
    key = ApiKey.objects.latest("id")
    owner = {"account": key.account, "workspace": key.workspace, "api_key": key}
    return generation(created_at=datetime.now(UTC), **owner, **fields)


def ids(client: Client, **query: str) -> list[str]:
    return [row.pk for row in client.get(page(Generation), query).context["cl"].result_list]


def test_a_generation_shows_every_attempt_in_order(admin_client: Client) -> None:
    row = add(id="gen-shown")

    shown = admin_client.get(page(Generation, "change", row.pk)).text

    first, second = shown.index("<td>First</td>"), shown.index("<td>Second</td>")
    assert first < shown.index("<td>provider_overloaded</td>") < second
    assert "&lt;script&gt;tester" in shown
    assert "<script>tester" not in shown


def test_a_charge_stands_beside_its_hold(admin_client: Client) -> None:
    within = add(id="gen-within", charge_nano=1_000, hold_nano=3_000)
    over = add(id="gen-over", charge_nano=3_000, hold_nano=1_000, overrun=True)

    pages = [admin_client.get(page(Generation, "change", row.pk)).text for row in (within, over)]

    assert "0.000002 USD of the hold given back" in pages[0]
    assert "0.000002 USD more than was held" in pages[1]


def test_a_generation_leads_to_its_ledger_entries(admin_client: Client) -> None:
    fill(2)
    row = Generation.objects.latest("created_at")

    path = f"{page(LedgerEntry)}?q={row.pk}"

    assert f'href="{path}"' in admin_client.get(page(Generation, "change", row.pk)).text
    found = admin_client.get(path).context["cl"].result_list
    assert [entry.generation_id for entry in found] == [row.pk]


def test_generations_are_found_by_id_and_session(admin_client: Client) -> None:
    add(id="gen-wanted", session_id="a session")

    assert ids(admin_client, q="gen-wanted") == ["gen-wanted"]
    assert ids(admin_client, q='"a session"') == ["gen-wanted"]


def test_outcomes_are_told_apart(admin_client: Client) -> None:
    add(id="gen-retried")
    add(id="gen-failed", status=503)
    add(id="gen-left", status=499, cancelled=True)
    Generation.objects.exclude(pk__in=["gen-retried", "gen-failed", "gen-left"]).delete()

    assert ids(admin_client, outcome="retried") == ["gen-retried"]
    assert ids(admin_client, outcome="answered") == ["gen-retried"]
    assert ids(admin_client, outcome="failed") == ["gen-failed"]
    assert ids(admin_client, outcome="cancelled") == ["gen-left"]
