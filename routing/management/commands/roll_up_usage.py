"""roll_up_usage: sum history up now, and anew where rows came in past the gateway."""

from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandParser

from gateway.commands import JsonCommand, Refused
from gateway.http.jsonio import JsonObject
from routing.history.rollup import mark_late_since, roll_up


class Command(JsonCommand):
    help = "Sum up what the schedule has not yet; with --since also what was summed up since."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--since", help="the first day (UTC) to sum up anew, YYYY-MM-DD")

    def run(self, **options: Any) -> tuple[JsonObject, int]:
        since, now = options["since"], datetime.now(UTC)
        marked = hours = 0
        if since:
            try:
                day = datetime.strptime(since, "%Y-%m-%d").replace(tzinfo=UTC)
            except ValueError:
                raise Refused(f"--since must be a day as YYYY-MM-DD, not {since!r}") from None
            marked = mark_late_since(day, now)
        while done := roll_up(now):
            hours += done
        return {"marked": marked, "hours": hours}, 0
