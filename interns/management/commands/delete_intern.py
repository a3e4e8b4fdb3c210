"""delete_intern: take an intern down."""

from typing import Any

from django.core.management.base import CommandParser

from gateway.commands import JsonCommand, Refused
from gateway.http.jsonio import JsonObject
from interns import operations
from interns.errors import InternError
from interns.management.lookup import add_intern_argument, find_intern, require_worker


class Command(JsonCommand):
    help = "Take an intern down: its runtime, disk, key and vault. A worker does it."

    def add_arguments(self, parser: CommandParser) -> None:
        add_intern_argument(parser)
        parser.add_argument(
            "--acknowledge-workspace-loss",
            action="store_true",
            help="go on although the disk cannot be archived",
        )

    def run(self, **options: Any) -> tuple[JsonObject, int]:
        intern = find_intern(options["intern"])
        require_worker()
        acknowledged = bool(options["acknowledge_workspace_loss"])
        try:
            operations.delete(intern.pk, by="delete_intern", acknowledged=acknowledged)
        except InternError as error:
            raise Refused(error.text) from error
        return {"intern_id": str(intern.pk), "deleting": True}, 0
