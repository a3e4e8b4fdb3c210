"""Rate limits that the API wrote, in the console's forms."""

from typing import Any

from console.forms.rate_limits import FiguresForm, ScopedLimitForm, find_whole_limit
from gateway.limits.rules import LIMITS_MAX

SCOPED = {"scope": {"model": "acme/small"}, "concurrent": 2}


def test_several_limits_of_all_requests_are_shown_and_kept_as_they_hold() -> None:
    limits: list[dict[str, Any]] = [
        {"requests_per_minute": 60, "concurrent": 9},
        SCOPED,
        {"requests_per_minute": 90, "tokens_per_minute": 200_000},
    ]
    whole = find_whole_limit(limits)
    assert whole == {"requests_per_minute": 60, "tokens_per_minute": 200_000, "concurrent": 9}

    form = FiguresForm({**whole, "requests_per_minute": 80})
    assert form.is_valid()
    assert form.read_rate_limits(limits) == [{**whole, "requests_per_minute": 80}, SCOPED]


def test_the_console_keeps_no_more_limits_than_the_api_takes() -> None:
    form = ScopedLimitForm({"part": "model", "value": "acme/other", "concurrent": 1})
    assert form.is_valid()
    assert form.add_to([SCOPED] * LIMITS_MAX) is None
    assert "no more" in str(form.errors)
