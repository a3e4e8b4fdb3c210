"""doctor: examine a deployment and say what is wrong with it."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from django.core.management.base import CommandParser

from gateway.commands import JsonCommand
from gateway.doctor.findings import Question, examine
from gateway.http.jsonio import JsonObject

_MARKS: Final = {
    "ok": "ok      ",
    "warning": "warning ",
    "problem": "PROBLEM ",
    "unknown": "unknown ",
}


class Command(JsonCommand):
    help = (
        "Examine this deployment: settings, database, Redis, migrations, prices, disk, sandbox, "
        "workers and beat, the address from outside with its certificate, backups. Run it with "
        "the settings that the processes have. It changes nothing, and ends with 1 where there is "
        "a problem."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--url", default="", help="address from outside; else PUBLIC_URL")
        parser.add_argument("--backups", type=Path, help="folder of the backups")
        parser.add_argument(
            "--backup-hours", type=float, default=26, help="how old the newest may be; 26"
        )

    def run(self, **options: Any) -> tuple[JsonObject, int]:
        question = Question(options["url"], options["backups"], options["backup_hours"])
        findings = list(examine(question))
        counts = Counter(each.state for each in findings)
        result = {
            "findings": [asdict(each) for each in findings],
            "problems": counts["problem"],
            "warnings": counts["warning"],
        }
        return result, 1 if counts["problem"] else 0

    def lines(self, result: JsonObject) -> Iterable[str]:
        for each in result["findings"]:
            yield f"{_MARKS[each['state']]} {each['subject']}: {each['text']}"
            if each["advice"]:
                yield f"          {each['advice']}"
        yield f"{result['problems']} problems, {result['warnings']} warnings"
