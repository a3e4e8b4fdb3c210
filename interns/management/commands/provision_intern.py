"""provision_intern: boot an intern, or resume it."""

from typing import Any

from django.core.management.base import CommandParser

from gateway.commands import JsonCommand, Refused
from gateway.http.jsonio import JsonObject
from interns import operations
from interns.errors import InternError
from interns.management.lookup import add_intern_argument, find_intern, require_worker


class Command(JsonCommand):
    help = "Boot an intern, or resume one that was suspended. A worker does it."

    def add_arguments(self, parser: CommandParser) -> None:
        add_intern_argument(parser)

    def run(self, **options: Any) -> tuple[JsonObject, int]:
        intern = find_intern(options["intern"])
        require_worker()
        try:
            operations.provision(intern.pk, by="provision_intern")
        except InternError as error:
            raise Refused(error.text) from error
        return {"intern_id": str(intern.pk), "provisioning": True}, 0
