"""M7: nothing is charged 0 by accident. A price is there and sane, or nothing is sent; what was
admitted at one price is charged at it."""

import json
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from routing.catalogue.load import load
from routing.catalogue.models import Endpoint
from routing.catalogue.pricebook import book_prices
from routing.catalogue.snapshot import build
from routing.selection.ask import Ask
from routing.selection.select import select
from routing.selection.sifting import NO_PRICE
from routing.simulator.testing import SimulatedUpstream
from tests.faults import bench
from tests.faults.conftest import Open
from tests.support.gateways import StartGateway, seed_account

ASK = Ask(kinds=frozenset({"openai"}))
SOUND = {"prompt": "0.000001", "completion": "0.000002"}


def catalogue(pricing: Any, *, base_url: str = "http://127.0.0.1:9/v1") -> dict[str, Any]:
    own = {"provider": "acme", "upstream_model": "sim/small", "max_completion_tokens": 100}
    if pricing is not ...:
        own["pricing"] = pricing
    return {
        "providers": [
            {"slug": "acme", "name": "Acme", "base_url": base_url, "supports_cancellation": True}
        ],
        "models": [{"id": "acme/one", "name": "One", "endpoints": [own]}],
    }


# Which prices cannot be billed by is `test_prices`'s; each of these could be read as zero.
UNUSABLE: dict[str, Any] = {
    "empty": {},
    "no completion": {"prompt": "0.000001"},
    "null": {"prompt": None, "completion": "0"},
    "empty text": {"prompt": "", "completion": "0"},
    "word": {"prompt": "free", "completion": "0"},
    "boolean": {"prompt": False, "completion": "0"},
    "below every digit": {"prompt": "1e-999999", "completion": "0"},
    "misspelt": {"prompt": "0.1", "completion": "0.1", "requests": "1"},
    "override without a price": {**SOUND, "overrides": [{"min_prompt_tokens": 5}]},
    "no object": "0.000001",
}


@pytest.mark.both
@pytest.mark.django_db
@pytest.mark.parametrize("pricing", [..., None])
def test_an_endpoint_without_a_price_is_kept_but_nothing_is_sent_there(pricing: Any) -> None:
    assert load(catalogue(pricing))["errors"] == []

    plan = _planned()

    assert plan.order == []
    assert [each.step for each in plan.removed] == [NO_PRICE]


@pytest.mark.both
@pytest.mark.django_db
def test_such_a_price_is_refused_in_a_file_and_takes_its_endpoint_out_when_set_by_hand() -> None:
    for what, pricing in UNUSABLE.items():
        assert load(catalogue(pricing))["errors"], what
        assert not Endpoint.objects.exists()
    load(catalogue(SOUND))

    for what, pricing in UNUSABLE.items():
        Endpoint.objects.update(pricing=pricing)
        plan = _planned()
        assert (plan.order, len(build().problems)) == ([], 1), what
        assert [each.step for each in plan.removed] == [NO_PRICE]


def _planned() -> Any:
    snapshot = build()
    return select([snapshot.models["acme/one"]], ASK, random=lambda: 0.0)


@pytest.mark.both
def test_over_http_every_request_pays_the_price_it_was_admitted_at(
    start_gateway: StartGateway, simulator: SimulatedUpstream, tmp_path: Path
) -> None:
    """Priced, made dearer in the middle of an answer, unpriced, free: one server, one account."""
    server = start_gateway()
    account = seed_account(server)
    file = tmp_path / "m7.yaml"
    usage = {"usage": {"prompt_tokens": 10, "completion_tokens": 5}}

    def load_pricing(pricing: Any) -> None:
        file.write_text(yaml.safe_dump(catalogue(pricing, base_url=f"{simulator.url}/m7/v1")))
        server.manage("load_catalogue", str(file), "--wait")

    def ask() -> Any:
        messages = [{"role": "user", "content": "Hello"}]
        return server.chat(key=account.api_key, model="acme/one", messages=messages)

    def charge(response: Any) -> list[int]:
        assert response.status_code == 200, response.text
        told = json.loads(response.text, parse_float=str, parse_int=int)
        shown = server.manage("ledger", "--generation", told["id"])
        return [entry["amount_nano"] for entry in shown["entries"]]

    load_pricing(SOUND)
    simulator.script("m7", {**usage, "gate": "m7-dearer"}, usage)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(ask)
        simulator.wait_gate("m7-dearer")
        load_pricing({"prompt": "0.00001", "completion": "0.00002"})
        simulator.open_gate("m7-dearer")
        assert charge(slow.result(30)) == [10 * 1000 + 5 * 2000]
    assert charge(ask()) == [10 * 10_000 + 5 * 20_000]

    load_pricing(None)
    refused = ask()
    assert refused.status_code == 404, refused.text
    assert len(simulator.requests("m7")) == 2

    load_pricing({"prompt": "0", "completion": "0"})
    assert charge(ask()) == [0]
    assert server.manage("audit_ledger")["mismatches"] == []


# --- Refreshed prices -----------------------------------------------------------------------------


def cost_usd(answer: Any, pricing: Any) -> Decimal:
    prompt, completion = (Decimal(pricing[key]) for key in ("prompt", "completion"))
    usage = answer["usage"]
    return usage["prompt_tokens"] * prompt + usage["completion_tokens"] * completion


@pytest.mark.both
@pytest.mark.thorough
def test_a_refresh_changes_what_comes_and_nothing_that_was_charged(
    desk_on: Open, simulator: SimulatedUpstream
) -> None:
    old, today = bench.DEAR, book_prices("openai", "gpt-4o")
    own = bench.endpoint("openai", "gpt-4o", pricing=old, price_source="book")
    providers = [bench.provider("openai", f"{simulator.url}/first/v1")]
    mine = desk_on([bench.model("openai/gpt-4o", own)], providers=providers)
    before = mine.ok(max_tokens=5)
    record = mine.generation(before["id"])

    refreshed = mine.server.manage("refresh_prices", "--wait")

    after = mine.ok(max_tokens=5)
    assert [each["tag"] for each in refreshed["drift"]] == ["openai"]
    assert before["usage"]["cost"] == cost_usd(before, old)
    assert after["usage"]["cost"] == cost_usd(after, today)
    assert mine.generation(before["id"]) == record
    assert mine.ledger_nano(before["id"]) == int(before["usage"]["cost"] * 10**9)
    assert mine.server.manage("audit_ledger")["mismatches"] == []
