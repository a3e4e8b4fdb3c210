"""Timestamps as the API writes them."""

from datetime import UTC, datetime


def format_time(moment: datetime) -> str:
    """ISO 8601 in UTC with milliseconds: `2026-01-31T12:00:00.123Z`."""
    text = moment.astimezone(UTC).isoformat(timespec="milliseconds")
    return text.removesuffix("+00:00") + "Z"


def format_optional_time(moment: datetime | None) -> str | None:
    return None if moment is None else format_time(moment)
