"""interns: which there are, and how they are."""

from collections.abc import Iterable
from datetime import UTC, datetime

from django.core.management.base import CommandParser

from gateway.commands import JsonCommand
from gateway.http.jsonio import JsonObject, format_time
from interns.leases import is_pickup_overdue
from interns.machine import build_progress
from interns.models import Intern, Status


class Command(JsonCommand):
    help = "List interns with their status, and count them by status."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--status", choices=Status.values, help="only those")
        parser.add_argument("--account", help="only this account's")

    def run(self, **options: object) -> tuple[JsonObject, int]:
        rows = Intern.objects.select_related("workspace__account").order_by("created_at")
        if options["account"]:
            rows = rows.filter(workspace__account__name=options["account"])
        if options["status"]:
            rows = rows.filter(status=options["status"])
        interns = list(map(_serialize, rows))
        counts = dict.fromkeys(Status.values, 0)
        for each in interns:
            counts[each["status"]] += 1
        return {"interns": interns, "counts": counts}, 0

    def lines(self, result: JsonObject) -> Iterable[str]:
        for each in result["interns"]:
            age = f"{each['seconds_in_status']} s"
            reason = each["last_failure_message"] or each["status_reason"]
            name = f"{each['account']}/{each['name']}"
            yield f"{each['id']}  {name}  {each['status']}  {age}  {reason}"
        yield ", ".join(f"{count} {status}" for status, count in result["counts"].items() if count)


def _serialize(intern: Intern) -> JsonObject:
    now = datetime.now(UTC)
    return {
        "id": str(intern.pk),
        "account": intern.workspace.account.name,
        "workspace": intern.workspace.slug,
        "name": intern.name,
        "status": str(intern.status),
        "status_since": format_time(intern.status_since),
        "seconds_in_status": int((now - intern.status_since).total_seconds()),
        "status_reason": intern.status_reason,
        "progress": build_progress(intern.progress_step, waits=is_pickup_overdue(intern, now)),
        "held_by": intern.lease_kind or None,
        "hostname": intern.hostname,
        "host": intern.host,
        "last_failure_message": intern.last_failure_message,
    }
