"""Generations in the admin: their attempts, their trace, their money, and how they are found."""

import json
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client

from accounts.models import Account, ApiKey, AuditRecord, LedgerEntry, SpendCounter
from accounts.services.keys import create_key
from accounts.services.organization import open_account
from accounts.spending import find_window_starts
from routing.admin.trace_table import trace_table
from routing.metering.models import Generation
from tests.support.admin_pages import operator, page
from tests.support.operations import fill, generation

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def add(**fields: Any) -> Generation:
    fill(1)
    key = ApiKey.objects.latest("id")
    owner = {"account": key.account, "workspace": key.workspace, "api_key": key}
    return generation(created_at=datetime.now(UTC), **owner, **fields)


def read_page(client: Client, row: Generation) -> str:
    text: str = client.get(page(Generation, "change", row.pk)).text
    return text


def ids(client: Client, **query: str) -> list[str]:
    return [row.pk for row in client.get(page(Generation), query).context["cl"].result_list]


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
        {"ttft": [0.512, 0.6, 0.75, 0.8], "tps": [91.3, 80, 70, 60], "tools": 0.988}
        | {"up": [None, 99.5, None], "n": 7},
        None,
    ],
    "more": {"Down": 7},
}


def test_a_generation_shows_every_attempt_and_why_it_went_where_it_went(
    admin_client: Client,
) -> None:
    text = read_page(admin_client, add(id="gen-traced", trace=json.dumps(TRACE)))
    first, second = text.index("<td>First</td>"), text.index("<td>Second</td>")
    assert first < text.index("<td>provider_overloaded</td>") < second
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
        "&lt;script&gt;tester",
    ):
        assert cells in text
    assert "<b>second</b>" not in text
    assert "<script>tester" not in text


@pytest.mark.parametrize("trace", ["{}", "", "[]", '{"v": 2}', '{"v": 1}', "{", "null"])
def test_a_trace_that_cannot_be_read_is_a_dash(trace: str) -> None:
    assert trace_table(trace) == "-"


def test_a_charge_stands_beside_its_hold(admin_client: Client) -> None:
    within = add(id="gen-within", charge_nano=1_000, hold_nano=3_000)
    over = add(id="gen-over", charge_nano=3_000, hold_nano=1_000, overrun=True)
    assert "0.000002 USD of the hold given back" in read_page(admin_client, within)
    assert "0.000002 USD more than was held" in read_page(admin_client, over)


def test_generations_are_found_by_id_session_and_outcome(admin_client: Client) -> None:
    add(id="gen-retried", session_id="a session")
    add(id="gen-failed", status=503)
    add(id="gen-left", status=499, cancelled=True)
    Generation.objects.exclude(pk__in=["gen-retried", "gen-failed", "gen-left"]).delete()
    for query, found in (
        ({"q": "gen-retried"}, "gen-retried"),
        ({"q": '"a session"'}, "gen-retried"),
        ({"outcome": "retried"}, "gen-retried"),
        ({"outcome": "answered"}, "gen-retried"),
        ({"outcome": "failed"}, "gen-failed"),
        ({"outcome": "cancelled"}, "gen-left"),
    ):
        assert ids(admin_client, **query) == [found]


@pytest.fixture
def charged_generation(db: None) -> Generation:
    """A generation that cost ten nano-dollars, in all the books."""
    account = open_account(name="acme")
    workspace, now = account.workspaces.get(), datetime.now(UTC)
    key, _ = create_key(account=account, name="k", workspace=workspace)
    owner: dict[str, Any] = {"account": account, "workspace": workspace, "api_key": key}
    source = {"generation_id": "gen-1", "source": "generation", "source_ref": "gen-1"}
    LedgerEntry.objects.create(**owner, **source, kind="usage", amount_nano=10, created_at=now)
    Account.objects.update(total_usage_nano=10)
    for window, start in find_window_starts(now).items():
        where: dict[str, Any] = {"window": window, "window_start": start}
        SpendCounter.objects.update_or_create(
            scope="key", scope_id=str(key.pk), **where, defaults={"spent_nano": 10}
        )
    return generation(id="gen-1", **owner, created_at=now, charge_nano=10)


def send(client: Client, amount: str = "0.000000004", **changes: str) -> Any:
    data = {"amount": amount, "reason": "it was wrong", "ref": str(uuid.uuid4())}
    return client.post(page(Generation, "reverse", "gen-1"), data | changes, follow=True)


def used_nano() -> int:
    return Account.objects.get().total_usage_nano


def test_a_charge_is_given_back_with_a_reason(
    admin_client: Client, charged_generation: Generation
) -> None:
    assert "Gave 0.000000004 USD of gen-1 back." in send(admin_client).text
    entry = LedgerEntry.objects.get(kind="usage_reversal")
    assert (entry.amount_nano, entry.note) == (-4, "it was wrong (by admin)")
    assert used_nano() == 6
    record = AuditRecord.objects.get(object_type="ledger_entry", object_id=str(entry.pk))
    assert record.operator is not None
    assert record.after is not None
    assert record.after["note"] == entry.note


def test_it_counts_once_and_never_more_than_was_charged(
    admin_client: Client, charged_generation: Generation
) -> None:
    ref = str(uuid.uuid4())
    send(admin_client, ref=ref)
    assert "count once" in send(admin_client, ref=ref).text
    assert "used for another" in send(admin_client, "0.000000005", ref=ref).text
    assert "more than what is left" in send(admin_client, "0.000000007").text
    assert used_nano() == 6
    assert AuditRecord.objects.filter(object_type="ledger_entry").count() == 1


def test_it_takes_a_reason_and_the_right_to(
    admin_client: Client, charged_generation: Generation
) -> None:
    viewer = Client()
    viewer.force_login(operator("viewer", permissions="view_"))
    send(admin_client, reason="")
    assert send(viewer).status_code == 403
    assert used_nano() == 10
    assert "Give back its charge" in read_page(admin_client, charged_generation)
    assert admin_client.get(page(Generation, "reverse", "gen-1")).status_code == 200
