"""The UTC windows that spending is counted in."""

from datetime import date, datetime, timedelta
from functools import lru_cache

from accounts.models import SpendCounter

ALL_TIME = date(1970, 1, 1)
Window = SpendCounter.Window


def window_starts(at: datetime) -> dict[str, date]:
    """First day of each window at `at` (UTC): all time, day, ISO week from Monday, month."""
    return dict(windows_of(at.date()))


@lru_cache(maxsize=8)
def windows_of(day: date) -> tuple[tuple[str, date], ...]:
    """The windows that a UTC day falls into, each with its first day."""
    starts = {
        Window.TOTAL.value: ALL_TIME,
        Window.DAY.value: day,
        Window.WEEK.value: day - timedelta(days=day.weekday()),
        Window.MONTH.value: day.replace(day=1),
    }
    return tuple(starts.items())


# Which window a key's `limit_reset` limits.
LIMITED_WINDOW = {
    None: Window.TOTAL.value,
    "daily": Window.DAY.value,
    "weekly": Window.WEEK.value,
    "monthly": Window.MONTH.value,
}
