from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.catalogue.prices import PRICE_KEYS, PRICE_MAX, PriceError, Prices, plain

NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
BASE = {"prompt": "1", "completion": "2"}


@pytest.mark.parametrize(
    ("pricing", "field"),
    [
        ({"completion": "1"}, "prompt"),
        ({"prompt": "1"}, "completion"),
        ({"prompt": None, "completion": "1"}, "prompt"),
        (BASE | {"prompt": ""}, "prompt"),
        (BASE | {"prompt": "cheap"}, "prompt"),
        (BASE | {"prompt": "-0.1"}, "prompt"),
        (BASE | {"prompt": "NaN"}, "prompt"),
        (BASE | {"prompt": "Infinity"}, "prompt"),
        (BASE | {"prompt": "1e999999999"}, "prompt"),
        (BASE | {"prompt": "1e-999999999"}, "prompt"),
        (BASE | {"prompt": "10000.01"}, "prompt"),
        (BASE | {"prompt": 0.1}, "prompt"),
        (BASE | {"prompt": True}, "prompt"),
        (BASE | {"prompt": ["1"]}, "prompt"),
        (BASE | {"image": "x"}, "image"),
        (BASE | {"promt": "1"}, "promt"),
        (BASE | {"discount": "1.1"}, "discount"),
        (BASE | {"discount": -0.1}, "discount"),
        (BASE | {"overrides": {}}, "overrides"),
        (BASE | {"overrides": ["x"]}, "overrides[0]"),
        (BASE | {"overrides": [{"min_prompt_tokens": 1}]}, "overrides[0]"),
        (BASE | {"overrides": [{"prompt": "-1"}]}, "overrides[0].prompt"),
        (BASE | {"overrides": [{"prompt": "1", "x": 1}]}, "overrides[0].x"),
        (
            BASE | {"overrides": [{"prompt": "1"}, {"prompt": "1", "utc_start": 130}]},
            "overrides[1].utc_start",
        ),
        (BASE | {"overrides": [{"prompt": "1", "utc_start": "0960"}]}, "overrides[0].utc_start"),
        (BASE | {"overrides": [{"prompt": "1", "utc_end": "2401"}]}, "overrides[0].utc_end"),
        (BASE | {"overrides": [{"prompt": "1", "utc_end": "1a30"}]}, "overrides[0].utc_end"),
        (
            BASE | {"overrides": [{"prompt": "1", "utc_start": "0100", "utc_end": "0100"}]},
            "overrides[0].utc_end",
        ),
        (
            BASE | {"overrides": [{"prompt": "1", "min_prompt_tokens": -1}]},
            "overrides[0].min_prompt_tokens",
        ),
        ("free", ""),
        (None, ""),
    ],
)
def test_a_price_that_cannot_be_billed_is_refused_by_name(pricing: Any, field: str) -> None:
    with pytest.raises(PriceError) as refusal:
        Prices.parse(pricing)

    assert refusal.value.field == field


@pytest.mark.parametrize(("read", "cheaper"), [(None, False), ("1", False), ("0.9", True)])
def test_whether_a_cached_token_costs_less(read: str | None, cheaper: bool) -> None:
    assert Prices.parse(BASE | {"input_cache_read": read}).caches_cheaper is cheaper


def test_no_price_is_below_zero() -> None:
    assert Prices.parse({"prompt": "-0", "completion": "0"}).published()["prompt"] == "0"


def test_prices_keep_every_digit() -> None:
    prices = Prices.parse({"prompt": "0.000000123456789", "completion": "1e-7", "image": "0.5"})

    assert prices.prompt == Decimal("0.000000123456789")
    assert prices.published() == {
        "prompt": "0.000000123456789",
        "completion": "0.0000001",
        "image": "0.5",
    }


def test_a_price_that_is_not_given_is_none_and_not_published() -> None:
    prices = Prices.parse(BASE | {"request": None})

    assert prices.request is None
    assert prices.published() == BASE


@pytest.mark.parametrize(
    ("pricing", "free"),
    [
        ({"prompt": "0", "completion": "0.000"}, True),
        ({"prompt": 0, "completion": 0}, True),
        ({"prompt": "-0", "completion": "0"}, True),
        ({"prompt": "0", "completion": "0", "request": "0.001"}, False),
        ({"prompt": "0", "completion": "0", "overrides": [{"prompt": "1"}]}, False),
        (BASE | {"discount": 1}, True),
        (BASE, False),
    ],
)
def test_free_means_that_nothing_can_ever_be_charged(pricing: Any, free: bool) -> None:
    assert Prices.parse(pricing).is_free is free


def test_an_override_begins_above_its_threshold() -> None:
    prices = Prices.parse(BASE | {"overrides": [{"min_prompt_tokens": 100, "prompt": "5"}]})

    assert prices.effective(100, NOON).prompt == 1
    assert prices.effective(101, NOON).prompt == 5
    assert prices.effective(101, NOON).completion == 2


@pytest.mark.parametrize(
    ("start", "end", "hour_minute", "holds"),
    [
        ("0930", "1700", (9, 29), False),
        ("0930", "1700", (9, 30), True),
        ("0900", "1700", (16, 59), True),
        ("0900", "1700", (17, 0), False),
        ("0900", "1700", (8, 59), False),
        ("2200", "0600", (22, 0), True),
        ("2200", "0600", (0, 0), True),
        ("2200", "0600", (5, 59), True),
        ("2200", "0600", (6, 0), False),
        ("2200", "0600", (21, 59), False),
        ("0000", "2400", (23, 59), True),
    ],
)
def test_hours_are_half_open_and_may_wrap_past_midnight(
    start: str, end: str, hour_minute: tuple[int, int], holds: bool
) -> None:
    override = {"utc_start": start, "utc_end": end, "prompt": "5"}
    prices = Prices.parse(BASE | {"overrides": [override]})
    at = datetime(2026, 1, 2, *hour_minute, tzinfo=UTC)

    assert (prices.effective(1, at).prompt == 5) is holds


def test_hours_are_those_of_utc_wherever_the_clock_hangs() -> None:
    override = {"utc_start": "1200", "utc_end": "1300", "prompt": "5"}
    prices = Prices.parse(BASE | {"overrides": [override]})
    tokyo = NOON.astimezone(timezone(timedelta(hours=9)))

    assert prices.effective(1, tokyo).prompt == 5


def test_all_conditions_must_hold_and_later_entries_win_for_each_key() -> None:
    prices = Prices.parse(
        BASE
        | {
            "overrides": [
                {"min_prompt_tokens": 10, "prompt": "5", "completion": "6"},
                {"min_prompt_tokens": 20, "prompt": "7"},
                {"min_prompt_tokens": 10, "utc_start": "0000", "utc_end": "0100", "prompt": "9"},
            ]
        }
    )

    assert prices.effective(11, NOON).published() == {"prompt": "5", "completion": "6"}
    assert prices.effective(21, NOON).published() == {"prompt": "7", "completion": "6"}


def test_conditions_that_always_hold_are_not_published() -> None:
    given = [
        {"prompt": "1"},
        {"prompt": "1", "min_prompt_tokens": 0},
        {"prompt": "1", "utc_start": "0000", "utc_end": "0100"},
    ]

    assert Prices.parse(BASE | {"overrides": given}).published()["overrides"] == given


def test_a_draw_goes_by_both_prices_after_discount() -> None:
    assert Prices.parse(BASE | {"discount": "0.5"}).token_price == 1.5


_AMOUNTS = st.decimals(min_value=0, max_value=PRICE_MAX, places=12).map(str)


@given(st.fixed_dictionaries({"prompt": _AMOUNTS, "completion": _AMOUNTS}), st.data())
def test_what_is_published_parses_back_to_the_same_prices(
    pricing: dict[str, Any], data: st.DataObject
) -> None:
    pricing |= data.draw(st.dictionaries(st.sampled_from(PRICE_KEYS), _AMOUNTS))
    override = data.draw(st.dictionaries(st.sampled_from(PRICE_KEYS), _AMOUNTS, min_size=1))
    prices = Prices.parse(pricing | {"overrides": [{"utc_start": "2300"} | override]})

    assert Prices.parse(prices.published()) == prices


@pytest.mark.parametrize(
    ("amount", "text"), [("1E-7", "0.0000001"), ("100", "100"), ("1.50", "1.5"), ("0E-9", "0")]
)
def test_amounts_are_written_without_exponent(amount: str, text: str) -> None:
    assert plain(Decimal(amount)) == text
