"""The manners of every management command: one JSON object or human lines, and honest exit codes.

Exit 0 is done, 1 refused or mismatch, 2 usage. With `--json` stdout carries exactly one JSON
object; everything else goes to stderr.
"""

import sys
from collections.abc import Callable, Iterable
from typing import NoReturn

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from gateway.http.jsonio import JsonObject, dumps


class Refused(CommandError):
    """The command will not do it; the text says why and what to do next. Exit status 1."""

    def __init__(self, message: str) -> None:
        super().__init__(message, returncode=1)


class Misused(Refused):
    """The arguments do not go together; the text says how they would. Exit status 2."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.returncode = 2


class JsonCommand(BaseCommand):
    """Base of the commands scripts drive: `run` answers a dict and an exit status.

    Arguments are declared in `add_arguments` as usual; `--json` is there by itself. `lines` says
    the same answer to a person.
    """

    # Checks would import every view of the project; `manage.py check` runs them.
    requires_system_checks = []

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: object) -> CommandParser:
        parser = super().create_parser(prog_name, subcommand, **kwargs)
        parser.add_argument("--json", action="store_true", help="print one JSON object on stdout")
        refuse: Callable[[str], NoReturn] = parser.error

        def error(message: str) -> NoReturn:
            # Arguments that are none are found before any of them is known.
            if parser.called_from_command_line and "--json" in sys.argv:
                self._print_json({"error": message})
            refuse(message)

        parser.error = error  # type: ignore[method-assign]  # Django chooses the parser's class.
        return parser

    def run(self, **options: object) -> tuple[JsonObject, int]:
        """Do the work; return what to print and the exit status. Raises `Refused`."""
        raise NotImplementedError

    def lines(self, result: JsonObject) -> Iterable[str]:
        """The answer for a person, line by line."""
        for key, value in result.items():
            if not isinstance(value, str):
                value = "" if value is None else dumps(value).decode()
            yield f"{key}: {value}"

    def handle(self, *args: object, **options: object) -> None:
        try:
            result, status = self.run(**options)
        except (Refused, DatabaseError) as refusal:
            if options["json"]:
                self._print_json({"error": str(refusal).strip()})
            if isinstance(refusal, Refused):
                raise
            raise Refused(f"The database said: {refusal}") from refusal
        if options["json"]:
            self._print_json(result)
        else:
            for line in self.lines(result):
                self.stdout.write(line)
        if status:
            sys.exit(status)

    def _print_json(self, value: JsonObject) -> None:
        self.stdout.write(dumps(value).decode())
