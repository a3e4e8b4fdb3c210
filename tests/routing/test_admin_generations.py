import json
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client

from accounts.models import ApiKey, LedgerEntry
from routing.admin.trace_table import trace_table
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


TRACE = {
    "v": 1,
    "requested": ["acme/one:nitro"],
    "models": ["acme/one", "acme/two"],
    "strategy": "fallback",
    "rule": "throughput",
    "ask": {"kinds": ["openai"], "prompt_tokens": 12, "tools": True},
    "policy": {"only": ["first", "<b>second</b>"], "zdr": True, "max_price_usd": {"prompt": "1"}},
    "tag": ["first", "second", "third"],
    "model": [0, 1, 0],
    "usd": [[0.5, 1.5], [1e-07, 25.0], [3.0, 9.0]],
    "removed": ["Filter by Max Price"],
    "attempts": [[0, "timeout"], [1, None]],
    "chosen": 1,
    "weights": [0, 2500],
    "half_open": [1],
    "probe": 1,
    "sticky": 1,
    "figures": [
        None,
        {
            "ttft": [0.512, 0.6, 0.75, 0.8],
            "tps": [91.3, 80, 70, 60],
            "tools": 0.988,
            "up": [None, 99.5, None],
            "n": 7,
        },
        None,
    ],
    "more": {"Down": 7},
}


def test_a_generation_shows_why_it_went_where_it_went(admin_client: Client) -> None:
    row = add(id="gen-traced", trace=json.dumps(TRACE))

    shown = admin_client.get(page(Generation, "change", row.pk)).text

    for cells in (
        "<td>first</td><td>acme/one</td><td>1</td><td>failed</td><td>timeout</td>",
        "<td>second</td><td>acme/two</td><td>2</td><td>chosen</td><td>-</td>",
        "<td>third</td><td>acme/one</td><td>-</td><td>removed</td><td>Filter by Max Price</td>",
        "<td>0.5 / 1.5</td>",
        "<td>1e-07 / 25</td><td>25.00%</td><td>half open, probe, sticky</td><td>0.512</td>",
        "<td>0.512</td><td>0.75</td>",
        "<td>91.3</td><td>98.8%</td><td>99.50%</td><td>7</td>",
        "<td>highest throughput first</td>",
        "only: first, &lt;b&gt;second&lt;/b&gt;; zdr; max price usd: prompt 1",
        "<th>Endpoints not shown</th><td>Down: 7</td>",
    ):
        assert cells in shown
    assert "<b>second</b>" not in shown


@pytest.mark.parametrize("trace", ["{}", "", "[]", '{"v": 2}', '{"v": 1}', "{", "null"])
def test_a_generation_without_a_readable_trace_shows_a_dash(
    admin_client: Client, trace: str
) -> None:
    row = add(id="gen-untraced", trace=trace)

    assert admin_client.get(page(Generation, "change", row.pk)).status_code == 200
    assert trace_table(trace) == "-"


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
