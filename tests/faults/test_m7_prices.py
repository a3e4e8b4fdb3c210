"""M7: nothing is charged 0 by accident. A price is there and sane, or nothing is sent; what was
admitted at one price is charged at it."""

import copy
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from routing.catalogue.load import load
from routing.catalogue.models import Endpoint
from routing.catalogue.prices import PriceError, Prices
from routing.catalogue.snapshot import build
from routing.metering.estimate import Demand, Room, estimate_nano
from routing.metering.usage import Usage
from routing.selection.ask import Ask
from routing.selection.select import select
from routing.selection.sifting import NO_PRICE
from routing.serving.outcome import price
from routing.simulator.testing import SimulatedUpstream
from tests.routing.selection.entries import endpoint, model
from tests.routing.serving.calls import ADMITTED_AT, attempt_at, call_to
from tests.support.gateways import StartGateway, seed_account

ASK = Ask(kinds=frozenset({"openai"}))
USAGE = Usage(prompt_tokens=1000, completion_tokens=500)
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


UNUSABLE: dict[str, Any] = {
    "empty": {},
    "no completion": {"prompt": "0.000001"},
    "no prompt": {"completion": "0.000001"},
    "null": {"prompt": None, "completion": "0"},
    "empty text": {"prompt": "", "completion": "0"},
    "word": {"prompt": "free", "completion": "0"},
    "with unit": {"prompt": "0.000001 USD", "completion": "0"},
    "decimal comma": {"prompt": "0,000001", "completion": "0"},
    "negative": {"prompt": "-0.000001", "completion": "0"},
    "NaN": {"prompt": "NaN", "completion": "0"},
    "infinite": {"prompt": "Infinity", "completion": "0"},
    "boolean": {"prompt": False, "completion": "0"},
    "list": {"prompt": ["0.1"], "completion": "0"},
    "float": {"prompt": 1e-6, "completion": "0"},
    "below every digit": {"prompt": "1e-999999", "completion": "0"},
    "a million times a dear one": {"prompt": "60000000", "completion": "0"},
    "misspelt": {"prompt": "0.1", "completion": "0.1", "requests": "1"},
    "discount of more than all": {"prompt": "0.1", "completion": "0.1", "discount": "1.1"},
    "negative discount": {"prompt": "0.1", "completion": "0.1", "discount": "-1"},
    "override that is broken": {**SOUND, "overrides": [{"prompt": "x"}]},
    "override without a price": {**SOUND, "overrides": [{"min_prompt_tokens": 5}]},
    "no object": "0.000001",
}


@pytest.mark.parametrize("what", UNUSABLE)
def test_a_price_that_cannot_be_billed_by_is_never_read_as_zero(what: str) -> None:
    with pytest.raises(PriceError):
        Prices.parse(UNUSABLE[what])


@pytest.mark.both
@pytest.mark.django_db
@pytest.mark.parametrize("what", UNUSABLE)
def test_a_file_with_such_a_price_is_refused_whole(what: str) -> None:
    report = load(catalogue(UNUSABLE[what]))

    assert report["errors"]
    assert not Endpoint.objects.exists()


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
@pytest.mark.parametrize("what", UNUSABLE)
def test_a_price_that_was_broken_by_hand_takes_its_endpoint_out(what: str) -> None:
    load(catalogue(SOUND))
    Endpoint.objects.update(pricing=UNUSABLE[what])

    plan = _planned()

    assert plan.order == []
    assert [each.step for each in plan.removed] == [NO_PRICE]
    assert len(build().problems) == 1


def _planned() -> Any:
    snapshot = build()
    return select([snapshot.models["acme/one"]], ASK, random=lambda: 0.0)


def test_zero_is_free_only_where_both_prices_say_so() -> None:
    free = Prices.parse({"prompt": "0", "completion": "0.0"})
    half = Prices.parse({"prompt": "0", "completion": "0.000001"})

    assert free.is_free
    assert not half.is_free


def test_a_price_a_million_times_too_large_is_refused_by_the_balance_and_not_billed() -> None:
    # 0.5 USD a token where 0.0000005 was meant.
    prices = Prices.parse({"prompt": "0.5", "completion": "0.5"})
    demand = Demand(100, 1, 0, 0, output_tokens_asked=None)

    held_nano = estimate_nano(demand, Room(128_000, 16_384), prices)

    assert held_nano > 8_000 * 10**9


def test_the_charge_is_by_the_entry_of_admission_whatever_the_catalogue_says_now() -> None:
    admitted = endpoint(pricing=SOUND)
    call, attempt = call_to(admitted), attempt_at(admitted)
    dearer = endpoint(pricing={"prompt": "1", "completion": "1"})
    call.plan = type(call.plan)((dearer,), (), (dearer,))

    assert price(call, attempt, USAGE).total_nano == 1000 * 1000 + 500 * 2000


def test_hours_are_those_of_admission() -> None:
    """Admitted a minute before the dear hours begin, however long the answer takes."""
    pricing = {**SOUND, "overrides": [{"utc_start": "1200", "utc_end": "1300", "prompt": "0.001"}]}
    before = endpoint(pricing=pricing)
    charged = [
        price(call_to(before, at=at), attempt_at(before), USAGE).prompt_nano
        for at in (ADMITTED_AT - timedelta(minutes=1), ADMITTED_AT)
    ]

    assert charged == [1000 * 1000, 1000 * 1_000_000]


def test_an_endpoint_without_a_price_beside_one_with_leaves_the_one() -> None:
    both = model(endpoint("unpriced", pricing=None), endpoint("priced"))

    plan = select([both], ASK, random=lambda: 0.0)

    assert [each.tag for each in plan.order] == ["priced"]


@pytest.mark.both
def test_over_http_every_request_pays_the_price_it_was_admitted_at(
    start_gateway: StartGateway, simulator: SimulatedUpstream, tmp_path: Path
) -> None:
    """Priced, made dearer in the middle of an answer, unpriced, free: one server, one account."""
    server = start_gateway()
    account = seed_account(server)
    load_pricing = _loader(server, simulator, tmp_path)
    usage = {"usage": {"prompt_tokens": 10, "completion_tokens": 5}}

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


def _loader(server: Any, simulator: SimulatedUpstream, folder: Path) -> Callable[[Any], None]:
    file = folder / "m7.yaml"

    def load_pricing(pricing: Any) -> None:
        data = catalogue(copy.copy(pricing), base_url=f"{simulator.url}/m7/v1")
        file.write_text(yaml.safe_dump(data))
        version = server.manage("load_catalogue", str(file), "--wait")["version"]
        assert version

    return load_pricing
