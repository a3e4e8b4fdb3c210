"""The UTC windows that spending is counted in."""

from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Any

from accounts.models import SpendCounter

ALL_TIME = date(1970, 1, 1)
Window = SpendCounter.Window


def find_window_starts(at: datetime) -> dict[str, date]:
    """First day of each window at `at` (UTC): all time, day, ISO week from Monday, month."""
    return dict(list_windows(at.date()))


@lru_cache(maxsize=8)
def list_windows(day: date) -> tuple[tuple[str, date], ...]:
    """The windows that a UTC day falls into, each with its first day."""
    starts = {
        Window.TOTAL.value: ALL_TIME,
        Window.DAY.value: day,
        Window.WEEK.value: day - timedelta(days=day.weekday()),
        Window.MONTH.value: day.replace(day=1),
    }
    return tuple(starts.items())


def find_window_end(window: str, start: date) -> date | None:
    """The first day after a window; None where there is none."""
    match window:
        case Window.DAY.value:
            return start + timedelta(days=1)
        case Window.WEEK.value:
            return start + timedelta(days=7)
        case Window.MONTH.value:
            return (start + timedelta(days=31)).replace(day=1)
    return None


# Which window a key's `limit_reset` limits.
LIMITED_WINDOW = {
    None: Window.TOTAL.value,
    "daily": Window.DAY.value,
    "weekly": Window.WEEK.value,
    "monthly": Window.MONTH.value,
}


def find_limited_window(key: Any) -> str:
    """The window that an `ApiKey`'s limit stands on, "" where it has none that is enforced."""
    return "" if key.enforced_limit_nano is None else LIMITED_WINDOW[key.limit_reset]
