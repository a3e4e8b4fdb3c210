"""M7: prices that are refreshed hold from then on; what was charged before keeps its price."""

from decimal import Decimal
from typing import Any

import pytest

from routing.catalogue.pricebook import book_prices
from routing.simulator.testing import SimulatedUpstream
from tests.faults import bench
from tests.faults.conftest import Open

pytestmark = [pytest.mark.both, pytest.mark.thorough]
OLD = {"prompt": "0.001", "completion": "0.002"}


def cost_usd(answer: Any, pricing: Any) -> Decimal:
    usage = answer["usage"]
    return usage["prompt_tokens"] * Decimal(pricing["prompt"]) + usage[
        "completion_tokens"
    ] * Decimal(pricing["completion"])


def test_a_refresh_changes_what_comes_and_nothing_that_was_charged(
    desk_on: Open, simulator: SimulatedUpstream
) -> None:
    today = book_prices("openai", "gpt-4o")
    assert today is not None
    own = bench.endpoint("openai", "gpt-4o", pricing=OLD, price_source="book")
    providers = [bench.provider("openai", f"{simulator.url}/first/v1")]
    mine = desk_on([bench.model("openai/gpt-4o", own)], providers=providers)
    before = mine.ok(max_tokens=5)
    record = mine.generation(before["id"])

    refreshed = mine.server.manage("refresh_prices", "--wait")

    after = mine.ok(max_tokens=5)
    assert [each["tag"] for each in refreshed["drift"]] == ["openai"]
    assert before["usage"]["cost"] == cost_usd(before, OLD)
    assert after["usage"]["cost"] == cost_usd(after, today)
    assert mine.generation(before["id"]) == record
    assert mine.ledger_nano(before["id"]) == int(before["usage"]["cost"] * 10**9)
    assert mine.server.manage("audit_ledger")["mismatches"] == []
