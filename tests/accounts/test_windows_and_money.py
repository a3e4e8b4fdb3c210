"""UTC windows, and USD as people write it."""

from argparse import ArgumentTypeError
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounts.models import ApiKey
from accounts.money import dollars, nano_of, usd_argument
from accounts.windows import LIMITED_WINDOW, limited_window, window_end, window_starts

WINDOWS: list[tuple[datetime, date, date, date]] = [
    # A Monday; the Sunday before it; the turn of a year inside a week; a leap day.
    (datetime(2026, 3, 2, 0, 0, tzinfo=UTC), date(2026, 3, 2), date(2026, 3, 2), date(2026, 3, 1)),
    (
        datetime(2026, 3, 1, 23, 59, 59, tzinfo=UTC),
        date(2026, 3, 1),
        date(2026, 2, 23),
        date(2026, 3, 1),
    ),
    (
        datetime(2027, 1, 1, 12, 0, tzinfo=UTC),
        date(2027, 1, 1),
        date(2026, 12, 28),
        date(2027, 1, 1),
    ),
    (
        datetime(2028, 2, 29, 0, 0, tzinfo=UTC),
        date(2028, 2, 29),
        date(2028, 2, 28),
        date(2028, 2, 1),
    ),
]


@pytest.mark.parametrize(("at", "day", "week", "month"), WINDOWS)
def test_windows_are_the_utc_day_the_iso_week_and_the_month(
    at: datetime, day: date, week: date, month: date
) -> None:
    assert window_starts(at) == {
        "total": date(1970, 1, 1),
        "day": day,
        "week": week,
        "month": month,
    }


@given(st.datetimes(timezones=st.just(UTC)))
def test_every_week_begins_on_monday_and_every_month_on_its_first(at: datetime) -> None:
    starts = window_starts(at)

    assert starts["week"].isoweekday() == 1
    assert (at.date() - starts["week"]).days in range(7)
    assert starts["month"] == at.date().replace(day=1)


def test_each_reset_limits_a_window_of_its_own() -> None:
    assert LIMITED_WINDOW == {None: "total", "daily": "day", "weekly": "week", "monthly": "month"}


def test_a_key_without_a_limit_limits_no_window() -> None:
    assert limited_window(ApiKey(limit_reset="daily")) == ""
    assert limited_window(ApiKey(limit_nano=0, limit_reset="weekly")) == "week"


@pytest.mark.parametrize(("at", "day", "week", "month"), WINDOWS)
def test_a_window_ends_where_the_next_one_begins(
    at: datetime, day: date, week: date, month: date
) -> None:
    later = (at + timedelta(days=step) for step in range(32))
    following = [window_starts(each) for each in later]
    for window, start in (("day", day), ("week", week), ("month", month)):
        assert window_end(window, start) == min(
            found[window] for found in following if found[window] > start
        )
    assert window_end("total", date(1970, 1, 1)) is None


TOLD = [(0, "$0.00"), (500 * 10**9, "$500.00"), (10**8, "$0.10"), (1_234_567_890, "$1.23456789")]


@pytest.mark.parametrize(("nano", "text"), TOLD)
def test_limits_are_told_in_dollars_and_cents_at_least(nano: int, text: str) -> None:
    assert dollars(nano) == text


@pytest.mark.parametrize("usd", ["NaN", "sNaN", "Infinity", "1e30", "0.0000000001"])
def test_odd_decimals_are_no_amounts(usd: str) -> None:
    with pytest.raises(ValueError, match="at most 9 decimal places"):
        nano_of(Decimal(usd))


AMOUNTS = [("5", 5 * 10**9), ("0.25", 250_000_000), ("0.000000001", 1), ("1e3", 10**12), ("0", 0)]


@pytest.mark.parametrize(("text", "nano"), AMOUNTS)
def test_amounts_are_whole_nano_dollars(text: str, nano: int) -> None:
    assert usd_argument(text) == nano


ODD = [
    "",
    "five",
    "-1",
    "0.0000000001",
    "1.0000000000000000000000000000000001",
    "1000000001",
    "NaN",
    "sNaN",
    "Infinity",
    "-Infinity",
    "1e999999",
    "1e999999999",
    "1e-999999999",
    "1,5",
    "$5",
]


@pytest.mark.parametrize("text", ODD)
def test_odd_amounts_are_refused_and_never_rounded(text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        usd_argument(text)


@given(st.integers(-(10**18), 10**18))
def test_nano_dollars_survive_being_written_as_usd(nano: int) -> None:
    assert nano_of(Decimal(nano).scaleb(-9)) == nano
