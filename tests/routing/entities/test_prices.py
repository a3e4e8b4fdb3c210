from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.entities.prices import PRICE_KEYS, PRICE_MAX, HighestPrices, PriceError, Prices, plain

NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
BASE: dict[str, Any] = {"prompt": "1", "completion": "2"}
AMOUNTS = ["", "cheap", "-0.1", "NaN", "Infinity", "1e999999999", "1e-999999999", "10000.01"]
OVERRIDES: list[tuple[Any, str]] = [
    ({}, "overrides"),
    (["x"], "overrides[0]"),
    ([{"min_prompt_tokens": 1}], "overrides[0]"),
    ([{"prompt": "-1"}], "overrides[0].prompt"),
    ([{"prompt": "1", "x": 1}], "overrides[0].x"),
    ([{"prompt": "1"}, {"prompt": "1", "utc_start": 130}], "overrides[1].utc_start"),
    ([{"prompt": "1", "utc_start": "0960"}], "overrides[0].utc_start"),
    ([{"prompt": "1", "utc_end": "2401"}], "overrides[0].utc_end"),
    ([{"prompt": "1", "utc_end": "1a30"}], "overrides[0].utc_end"),
    ([{"prompt": "1", "utc_start": "0100", "utc_end": "0100"}], "overrides[0].utc_end"),
    ([{"prompt": "1", "min_prompt_tokens": -1}], "overrides[0].min_prompt_tokens"),
]


@pytest.mark.parametrize(
    ("pricing", "field"),
    [
        ({"completion": "1"}, "prompt"),
        ({"prompt": "1"}, "completion"),
        *[(BASE | {"prompt": amount}, "prompt") for amount in [*AMOUNTS, None, 0.1, True, ["1"]]],
        (BASE | {"image": "x"}, "image"),
        (BASE | {"promt": "1"}, "promt"),
        *[(BASE | {"discount": share}, "discount") for share in ("1.1", -0.1)],
        *[(BASE | {"overrides": given}, field) for given, field in OVERRIDES],
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


def test_prices_keep_every_digit_and_none_is_below_zero() -> None:
    told = {"prompt": "0.000000123456789", "completion": "1e-7", "image": "-0", "request": None}

    prices = Prices.parse(told)

    assert (prices.prompt, prices.request) == (Decimal("0.000000123456789"), None)
    wanted = {"prompt": "0.000000123456789", "completion": "0.0000001", "image": "0"}
    assert prices.serialize() == wanted


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
    ("start", "end", "inside", "outside"),
    [
        ("0930", "1700", ["09:30", "16:59"], ["09:29", "17:00"]),
        ("0900", "1700", ["09:00"], ["08:59"]),
        ("0059", "1259", ["00:59", "12:58"], ["00:58", "12:59"]),
        ("2200", "0600", ["22:00", "00:00", "05:59"], ["06:00", "21:59"]),
        ("0000", "2400", ["00:00", "23:59"], []),
    ],
)
def test_hours_are_half_open_may_wrap_past_midnight_and_are_those_of_utc(
    start: str, end: str, inside: list[str], outside: list[str]
) -> None:
    override = {"utc_start": start, "utc_end": end, "prompt": "5"}
    prices = Prices.parse(BASE | {"overrides": [override]})
    for clock, usd in [*[(each, 5) for each in inside], *[(each, 1) for each in outside]]:
        at = datetime.fromisoformat(f"2026-01-02T{clock}Z")
        for moment in (at, at.astimezone(timezone(timedelta(hours=9)))):
            assert prices.effective(1, moment).prompt == usd, clock


def test_all_conditions_must_hold_and_later_entries_win_for_each_key() -> None:
    overrides = [
        {"min_prompt_tokens": 10, "prompt": "5", "completion": "6"},
        {"min_prompt_tokens": 20, "prompt": "7"},
        {"min_prompt_tokens": 10, "utc_start": "0000", "utc_end": "0100", "prompt": "9"},
    ]
    prices = Prices.parse(BASE | {"overrides": overrides})

    assert prices.effective(11, NOON).serialize() == {"prompt": "5", "completion": "6"}
    assert prices.effective(21, NOON).serialize() == {"prompt": "7", "completion": "6"}


def test_conditions_that_always_hold_are_not_published() -> None:
    given = [
        {"prompt": "1"},
        {"prompt": "1", "min_prompt_tokens": 0},
        {"prompt": "1", "utc_start": "0000", "utc_end": "0100"},
    ]

    assert Prices.parse(BASE | {"overrides": given}).serialize()["overrides"] == given


def test_a_draw_goes_by_both_prices_after_discount() -> None:
    assert Prices.parse(BASE | {"discount": "0.5"}).token_price == 1.5


def test_the_dearest_price_is_whole_and_zero_where_there_is_none() -> None:
    highest = Prices.parse({"prompt": "0.000001", "completion": "0.000002"}).highest
    one = highest.parts
    assert highest == HighestPrices(
        one, prompt=1_000 * one, completion=2_000 * one, request=0, image=0
    )


_AMOUNTS = st.decimals(min_value=0, max_value=PRICE_MAX, places=12).map(str)


@given(st.fixed_dictionaries({"prompt": _AMOUNTS, "completion": _AMOUNTS}), st.data())
def test_what_is_published_parses_back_to_the_same_prices(
    pricing: dict[str, Any], data: st.DataObject
) -> None:
    pricing |= data.draw(st.dictionaries(st.sampled_from(PRICE_KEYS), _AMOUNTS))
    override = data.draw(st.dictionaries(st.sampled_from(PRICE_KEYS), _AMOUNTS, min_size=1))
    prices = Prices.parse(pricing | {"overrides": [{"utc_start": "2300"} | override]})

    assert Prices.parse(prices.serialize()) == prices


@pytest.mark.parametrize(
    ("amount", "text"), [("1E-7", "0.0000001"), ("100", "100"), ("1.50", "1.5"), ("0E-9", "0")]
)
def test_amounts_are_written_without_exponent(amount: str, text: str) -> None:
    assert plain(Decimal(amount)) == text
