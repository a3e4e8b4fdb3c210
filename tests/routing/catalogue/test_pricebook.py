from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest
from genai_prices.types import (
    ClauseEquals,
    ConditionalPrice,
    ModelInfo,
    ModelPrice,
    StartDateConstraint,
    Tier,
    TieredPrices,
    TimeOfDateConstraint,
)

from routing.catalogue.pricebook import _pricing, book_prices
from routing.entities.prices import Prices

NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


def read_prices(prices: Any) -> dict[str, Any] | None:
    return _pricing(ModelInfo(id="m", match=ClauseEquals("m"), prices=prices), NOW)


def per_million(**prices: Any) -> ModelPrice:
    return ModelPrice(**{f"{name}_mtok": Decimal(str(usd)) for name, usd in prices.items()})


@pytest.mark.parametrize(
    ("provider", "model"),
    [("openai", "gpt-4o"), ("xai", "grok-4"), ("groq", "llama-3.3-70b-versatile")],
)
def test_well_known_models_have_a_usable_price(provider: str, model: str) -> None:
    pricing = book_prices(provider, model)

    assert pricing is not None
    assert Prices.parse(pricing).prompt > 0


@pytest.mark.parametrize(
    ("provider", "model"), [("nobody", "gpt-4o"), ("openai", "no-such-model-ever")]
)
def test_what_the_book_does_not_know_has_no_price(provider: str, model: str) -> None:
    assert book_prices(provider, model) is None


def test_prices_for_a_million_become_prices_for_one() -> None:
    assert read_prices(per_million(input=2.5, output=10, cache_read="1.25")) == {
        "prompt": "0.0000025",
        "completion": "0.00001",
        "input_cache_read": "0.00000125",
    }


def test_a_price_without_a_slot_or_none_for_answers_makes_the_whole_list_unusable() -> None:
    one = Decimal(1)
    hours = ModelPrice(input_mtok=one, output_mtok=one, input_audio_hours=Decimal("0.3"))

    assert read_prices(hours) is read_prices(per_million(input=1)) is None


def test_tiers_become_overrides_and_the_highest_reached_wins() -> None:
    tiers = [Tier(200_000, Decimal(4)), Tier(100_000, Decimal(3))]
    pricing = read_prices(
        ModelPrice(input_mtok=TieredPrices(Decimal(2), tiers), output_mtok=Decimal(8))
    )

    prices = Prices.parse(pricing)
    assert prices.effective(100_000, NOW).prompt == Decimal("0.000002")
    assert prices.effective(150_000, NOW).prompt == Decimal("0.000003")
    assert prices.effective(250_000, NOW).prompt == Decimal("0.000004")


def test_the_newest_list_that_has_begun_counts() -> None:
    one, two, three = (per_million(input=usd, output=usd) for usd in (1, 2, 3))
    lists = [
        ConditionalPrice(prices=one),
        ConditionalPrice(StartDateConstraint(date(2026, 1, 1)), prices=two),
        ConditionalPrice(StartDateConstraint(date(2027, 1, 1)), prices=three),
    ]

    assert read_prices(lists) == {"prompt": "0.000002", "completion": "0.000002"}


def test_hours_of_the_day_become_an_override_with_its_own_cache_price() -> None:
    hours = TimeOfDateConstraint(time(0, 30, tzinfo=UTC), time(16, 30, tzinfo=UTC))
    lists = [
        ConditionalPrice(prices=per_million(input=1, output=2, cache_read="0.1")),
        ConditionalPrice(hours, prices=per_million(input=3, output=4)),
    ]

    prices = Prices.parse(read_prices(lists))
    assert prices.effective(1, NOW.replace(hour=17)).input_cache_read == Decimal("0.0000001")
    assert prices.effective(1, NOW).prompt == Decimal("0.000003")
    assert prices.effective(1, NOW).input_cache_read == Decimal("0.000003")
