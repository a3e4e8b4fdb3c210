"""UTC windows, and USD as people write it."""

from argparse import ArgumentTypeError
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounts.models import ApiKey, Workspace
from accounts.money import format_dollars, parse_usd_argument, usd_to_nano
from accounts.spending import (
    LIMITED_WINDOW,
    EndUserBudget,
    TagBudget,
    find_limited_window,
    find_window_end,
    find_window_starts,
    read_end_user_budget,
    read_tag_budgets,
)

WINDOWS = [
    # A moment, its day, week and month: a Monday; the Sunday before it; the turn of a year inside
    # a week; a leap day.
    ("2026-03-02T00:00:00", "2026-03-02", "2026-03-02", "2026-03-01"),
    ("2026-03-01T23:59:59", "2026-03-01", "2026-02-23", "2026-03-01"),
    ("2027-01-01T12:00:00", "2027-01-01", "2026-12-28", "2027-01-01"),
    ("2028-02-29T00:00:00", "2028-02-29", "2028-02-28", "2028-02-01"),
]


@pytest.mark.parametrize(("moment", "day", "week", "month"), WINDOWS)
def test_windows_are_days_iso_weeks_and_months_of_utc(
    moment: str, day: str, week: str, month: str
) -> None:
    at = datetime.fromisoformat(moment).replace(tzinfo=UTC)
    starts = find_window_starts(at)
    told = {window: str(start) for window, start in starts.items()}
    assert told == {"total": "1970-01-01", "day": day, "week": week, "month": month}

    following = [find_window_starts(at + timedelta(days=step)) for step in range(32)]
    for window in ("day", "week", "month"):
        later = [found[window] for found in following if found[window] > starts[window]]
        assert find_window_end(window, starts[window]) == min(later)
    assert find_window_end("total", starts["total"]) is None


@given(st.datetimes(timezones=st.just(UTC)))
def test_every_week_begins_on_monday_and_every_month_on_its_first(at: datetime) -> None:
    starts = find_window_starts(at)
    assert starts["week"].isoweekday() == 1
    assert (at.date() - starts["week"]).days in range(7)
    assert starts["month"] == at.date().replace(day=1)


def test_each_reset_limits_a_window_of_its_own() -> None:
    assert LIMITED_WINDOW == {None: "total", "daily": "day", "weekly": "week", "monthly": "month"}
    assert find_limited_window(ApiKey(limit_reset="daily")) == "", "a key without a limit"
    assert find_limited_window(ApiKey(limit_nano=0, limit_reset="weekly")) == "week"


def test_a_workspace_s_budgets_of_tags_and_end_users_are_read_from_its_columns() -> None:
    workspace = Workspace(include_byok_in_budgets=True)
    assert (read_tag_budgets(workspace), read_end_user_budget(workspace)) == ((), None)
    month = {"interval": "monthly", "limit_nano": 5}
    workspace.tag_budgets = [{"tag": tag, **month} for tag in ("team=*", "team=a=b")]
    workspace.end_user_budget = month | {"limits": {"hash": 7}}
    whose = workspace.pk.hex
    assert read_tag_budgets(workspace) == tuple(
        TagBudget(whose, "team", value, "month", 5, counts_byok=True) for value in (None, "a=b")
    )
    limits: dict[str, int | None] = {"hash": 7}
    assert read_end_user_budget(workspace) == EndUserBudget(whose, "month", 5, limits, True)


def test_limits_are_told_in_dollars_and_cents_at_least() -> None:
    told = {0: "$0.00", 500 * 10**9: "$500.00", 10**8: "$0.10", 1_234_567_890: "$1.23456789"}
    assert {nano: format_dollars(nano) for nano in told} == told


@pytest.mark.parametrize("usd", ["NaN", "sNaN", "Infinity", "1e30", "0.0000000001"])
def test_odd_decimals_are_no_amounts(usd: str) -> None:
    with pytest.raises(ValueError, match="at most 9 decimal places"):
        usd_to_nano(Decimal(usd))


def test_amounts_are_whole_nano_dollars() -> None:
    read = {"5": 5 * 10**9, "0.25": 250_000_000, "0.000000001": 1, "1e3": 10**12, "0": 0}
    assert {text: parse_usd_argument(text) for text in read} == read


ODD = [
    *("", "five", "-1", "0.0000000001", "1.0000000000000000000000000000000001", "1000000001"),
    *("NaN", "sNaN", "Infinity", "-Infinity", "1e999999", "1e999999999", "1e-999999999"),
    *("1,5", "$5"),
]


@pytest.mark.parametrize("text", ODD)
def test_odd_amounts_are_refused_and_never_rounded(text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        parse_usd_argument(text)


@given(st.integers(-(10**18), 10**18))
def test_nano_dollars_survive_being_written_as_usd(nano: int) -> None:
    assert usd_to_nano(Decimal(nano).scaleb(-9)) == nano
