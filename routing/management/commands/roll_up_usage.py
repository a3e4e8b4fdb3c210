"""roll_up_usage: sum history up now, and anew where rows came in past the gateway."""

from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandParser

from gateway.commands import JsonCommand, Refused
from routing.history.rollup import mark_late_since, roll_up


def _day(text: str) -> datetime:
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise Refused(f"--since must be a day as YYYY-MM-DD, not {text!r}") from None


class Command(JsonCommand):
    help = "Sum up what the schedule has not yet; with --since also what was summed up since."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--since", help="the first day (UTC) to sum up anew, YYYY-MM-DD")

    def run(self, **options: Any) -> tuple[dict[str, Any], int]:
        since, now = options["since"], datetime.now(UTC)
        marked = mark_late_since(_day(since), now) if since else 0
        hours = 0
        while done := roll_up(now):
            hours += done
        return {"marked": marked, "hours": hours}, 0
