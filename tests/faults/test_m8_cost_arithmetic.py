"""M8: a charge is the exact sum, rounded once, half-even, to a whole nano-dollar. The other side of
the comparison is `fractions.Fraction` and shares no code with the product.

M7: nothing is charged 0 by accident. A price is there and sane, or nothing is sent; what was
admitted at one price is charged at it.
"""

import json
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from routing.catalogue.load import load_catalogue
from routing.catalogue.models import Endpoint
from routing.catalogue.snapshot import build_snapshot
from routing.entities.prices import PRICE_KEYS, Prices
from routing.metering.cost import (
    FREE,
    NO_COST,
    Cost,
    ExactCost,
    Units,
    compute_cost,
    exact_cost,
    searches_nano,
    web_search_nano,
)
from routing.metering.usage import Usage
from routing.selection.select import NO_PRICE, select
from routing.selection.types import Requirements
from tests.conformance.desk import Desk

SEED = 20_260_101
NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
USAGES_EACH = 50
DIGITS = "0.12345678901234567890123456789012345678"
# Each price is read fifty times, which takes longer than what is tested.
fraction_of: Callable[[str], Fraction] = cache(Fraction)


def random_price(chance: random.Random) -> str:
    places = chance.randint(6, 14)
    return f"{Decimal(chance.randint(0, 10 ** chance.randint(1, 8))).scaleb(-places):f}"


def random_pricing(chance: random.Random) -> dict[str, Any]:
    pricing: dict[str, Any] = {
        key: random_price(chance) for key in PRICE_KEYS if chance.random() < 0.5
    }
    pricing |= {"prompt": random_price(chance), "completion": random_price(chance)}
    if chance.random() < 0.4:
        pricing["discount"] = chance.choice(["0.1", "0.333333333", "0.5", "0.999", "1", "0"])
    if chance.random() < 0.4:
        pricing["overrides"] = [
            {
                "min_prompt_tokens": chance.choice([0, 1_000, 200_000]),
                **{key: random_price(chance) for key in chance.sample(PRICE_KEYS, 3)},
            }
            for _ in range(chance.randint(1, 3))
        ]
    return pricing


def random_usage(chance: random.Random) -> Usage:
    prompt, completion = (chance.randrange(10 ** chance.randint(1, 7)) for _ in range(2))
    cached = chance.randint(0, prompt)
    written = chance.randint(0, prompt - cached)
    reasoning = chance.randint(0, completion)
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        cached_tokens=cached,
        cache_write_tokens=written,
        cache_write_1h_tokens=chance.randint(0, written),
        prompt_audio_tokens=chance.randint(0, prompt - cached - written),
        reasoning_tokens=reasoning,
        completion_audio_tokens=chance.randint(0, completion - reasoning),
    )


def exact_nano(pricing: dict[str, Any], usage: Usage, units: Units) -> Fraction:
    """The bill by the published pricing object, in nano-USD."""
    prices = {key: fraction_of(pricing[key]) for key in PRICE_KEYS if key in pricing}
    for override in pricing.get("overrides", ()):
        if usage.prompt_tokens > override["min_prompt_tokens"]:
            prices |= {
                key: fraction_of(value) for key, value in override.items() if key in PRICE_KEYS
            }
    if "input_cache_write" in prices:
        prices.setdefault("input_cache_write_1h", prices["input_cache_write"])
    written_1h = usage.cache_write_1h_tokens
    bill = Fraction(0)
    of_the_prompt = {
        "input_cache_read": usage.cached_tokens,
        "input_cache_write": usage.cache_write_tokens - written_1h,
        "input_cache_write_1h": written_1h,
        "audio": usage.prompt_audio_tokens,
    }
    of_the_completion = {
        "internal_reasoning": usage.reasoning_tokens,
        "audio_output": usage.completion_audio_tokens,
    }
    for total, plain, kinds in (
        (usage.prompt_tokens, "prompt", of_the_prompt),
        (usage.completion_tokens, "completion", of_the_completion),
    ):
        priced = {kind: count for kind, count in kinds.items() if kind in prices}
        bill += prices[plain] * (total - sum(priced.values()))
        bill += sum(prices[kind] * count for kind, count in priced.items())
    counts = {"request": units.requests, "image": units.images, "web_search": units.web_searches}
    bill += sum(prices.get(kind, Fraction(0)) * count for kind, count in counts.items())
    return bill * (1 - fraction_of(pricing.get("discount", "0"))) * 10**9


@pytest.mark.thorough
@pytest.mark.parametrize("lists", [100, pytest.param(5_000, marks=pytest.mark.nightly)])
def test_thousands_of_random_bills_are_rounded_once_half_even(lists: int) -> None:
    chance = random.Random(SEED)
    for _ in range(lists):
        pricing = random_pricing(chance)
        prices = Prices.parse(pricing)
        for _ in range(USAGES_EACH):
            usage = random_usage(chance)
            units = Units(images=chance.randint(0, 3), web_searches=chance.randint(0, 2))
            cost = compute_cost(usage, prices.effective(usage.prompt_tokens, NOON), units)
            exact = exact_nano(pricing, usage, units)
            assert cost.total_nano == round(exact), (SEED, pricing, usage, units)
            assert abs(cost.total_nano - exact) <= Fraction(1, 2)


TIES = [
    # Price per token, tokens, charge: half a nano-dollar goes to the even side.
    ("0.0000000005", 1, 0),
    ("0.0000000005", 3, 2),
    ("0.0000000005", 5, 2),
    ("0.0000000005", 7, 4),
    ("0.0000000015", 1, 2),
    ("0.00000000050000000000000001", 1, 1),
    ("0.00000000149999999999999999", 1, 1),
]


@pytest.mark.parametrize(("price", "tokens", "nano"), TIES)
def test_ties_go_to_the_even_side_and_only_ties(price: str, tokens: int, nano: int) -> None:
    prices = Prices.parse({"prompt": price, "completion": "0"})

    assert compute_cost(Usage(tokens, 0), prices).total_nano == nano


def test_many_small_parts_are_summed_before_they_are_rounded() -> None:
    third = "0.0000000004"
    pricing = dict.fromkeys(("prompt", "completion", "request"), third)

    assert compute_cost(Usage(1, 1), Prices.parse(pricing)) == Cost(1, 0, 0)


def test_answers_of_several_parts_are_summed_before_they_are_rounded() -> None:
    half = "0.0000000005"
    prices = Prices.parse({"prompt": half, "completion": half, "web_search": half})
    one = exact_cost(Usage(1, 3), prices)

    assert one.plus(one).round() == Cost(4, 1, 3)
    assert one.plus(NO_COST).round() == compute_cost(Usage(1, 3), prices) == Cost(2, 0, 2)
    assert NO_COST.round() == FREE == Cost(0, 0, 0)
    searched = ExactCost(one.total_nano + searches_nano(2, prices), *one[1:])
    assert searched.round().total_nano == 3
    assert web_search_nano(Usage(1, 3, web_searches=3), prices) == 2


def test_what_has_no_price_adds_nothing() -> None:
    prices = Prices.parse({"prompt": "1", "completion": "1"})

    assert searches_nano(2, prices) == web_search_nano(Usage(1, 1, web_searches=2), prices) == 0
    assert compute_cost(Usage(0, 0), prices, Units(2, 2, 2)).total_nano == 0


@pytest.mark.parametrize(
    ("price", "tokens", "discount"),
    [
        # The largest counts at the dearest prices lose no digit, and as many digits as a price may
        # have are billed.
        ("0.00098765432109876543", 2**40 + 1, "0"),
        (DIGITS, 10**30, DIGITS),
    ],
)
def test_no_digit_is_lost(price: str, tokens: int, discount: str) -> None:
    prices = Prices.parse({"prompt": price, "completion": "0", "discount": discount})

    exact = 10**9 * tokens * Fraction(price) * (1 - Fraction(discount))
    assert compute_cost(Usage(tokens, 0), prices).total_nano == round(exact)


def test_no_float_takes_part() -> None:
    prices = Prices.parse({"prompt": "0.1", "completion": "0.2", "discount": 0.1})
    cost = compute_cost(Usage(3, 3), prices)

    assert all(type(getattr(cost, part)) is int for part in Cost._fields)
    assert all(isinstance(getattr(prices, key), Decimal | None) for key in PRICE_KEYS)
    # 0.1 and 0.2 as doubles would leave 270000000.00000006 nano-dollars here.
    assert cost.total_nano == 810_000_000
    assert prices.discount == Decimal("0.1")
    with pytest.raises(ValueError, match="float"):
        Prices.parse({"prompt": 0.1, "completion": "0"})


# --- M7: prices -----------------------------------------------------------------------------------

ASK = Requirements(kinds=frozenset({"openai"}))
SOUND = {"prompt": "0.000001", "completion": "0.000002"}


def catalogue(pricing: Any, **provider: Any) -> dict[str, Any]:
    usual = {"slug": "acme", "name": "Acme", "base_url": "http://127.0.0.1:9/v1"}
    own = {"provider": "acme", "upstream_model": "sim/small", "max_completion_tokens": 100}
    if pricing is not ...:
        own["pricing"] = pricing
    return {
        "providers": [usual | {"supports_cancellation": True} | provider],
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
    assert load_catalogue(catalogue(pricing))["errors"] == []

    plan = _make_plan()

    assert plan.order == []
    assert [each.step for each in plan.removed] == [NO_PRICE]


@pytest.mark.both
@pytest.mark.django_db
def test_such_a_price_is_refused_in_a_file_and_takes_its_endpoint_out_when_set_by_hand() -> None:
    for what, pricing in UNUSABLE.items():
        assert load_catalogue(catalogue(pricing))["errors"], what
        assert not Endpoint.objects.exists()
    load_catalogue(catalogue(SOUND))

    for what, pricing in UNUSABLE.items():
        Endpoint.objects.update(pricing=pricing)
        plan = _make_plan()
        assert (plan.order, len(build_snapshot().problems)) == ([], 1), what
        assert [each.step for each in plan.removed] == [NO_PRICE]


def _make_plan() -> Any:
    snapshot = build_snapshot()
    return select([snapshot.models["acme/one"]], ASK, random=lambda: 0.0)


@pytest.mark.both
def test_over_http_every_request_pays_the_price_it_was_admitted_at(
    desk: Desk, tmp_path: Path
) -> None:
    """Priced, made dearer in the middle of an answer, unpriced, free: one server, one account."""
    server, account, simulator = desk.server, desk.account, desk.upstream
    file = tmp_path / "m7.yaml"
    # As long as an answer is held back here.
    patient = {"base_url": f"{simulator.url}/m7/v1", "first_byte_s": 60}
    usage = {"usage": {"prompt_tokens": 10, "completion_tokens": 5}}

    def load_pricing(pricing: Any) -> None:
        file.write_text(yaml.safe_dump(catalogue(pricing, **patient)))
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
