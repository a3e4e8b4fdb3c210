"""reconcile_interns: compare runtimes with rows."""

from dataclasses import asdict

from django.core.management.base import CommandParser

from gateway.commands import JsonCommand, Refused
from gateway.http.jsonio import JsonObject
from interns.jobs.reconcile import reconcile
from interns.runtime.driver import RuntimeFailed, current_driver


class Command(JsonCommand):
    help = (
        "Compare runtimes with interns, both ways: runtimes that nobody wants are stopped, interns "
        "whose runtime is gone become failed. Exit 1 where something differed."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only report")

    def run(self, **options: object) -> tuple[JsonObject, int]:
        try:
            report = reconcile(current_driver(), dry=bool(options["dry_run"]))
        except RuntimeFailed as failure:
            raise Refused(f"The driver cannot say what runs: {failure}") from failure
        return asdict(report), int(not report.is_clean)
