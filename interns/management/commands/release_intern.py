"""release_intern: take the lease of a stuck operation away."""

from typing import Any

from django.core.management.base import CommandParser

from gateway.commands import JsonCommand, Refused
from gateway.http.jsonio import JsonObject
from interns.errors import InternError
from interns.management.lookup import add_intern_argument, find_intern
from interns.operations import release_intern


class Command(JsonCommand):
    help = (
        "Take an intern from the operation that holds it: a provisioning becomes failed, a "
        "teardown destroy_failed, a suspension is forgotten. A worker that lives stops by itself."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_intern_argument(parser)

    def run(self, **options: Any) -> tuple[JsonObject, int]:
        intern = find_intern(options["intern"])
        try:
            kind = release_intern(intern.pk, by="release_intern")
        except InternError as error:
            raise Refused(error.text) from error
        intern.refresh_from_db()
        return {"intern_id": str(intern.pk), "released": kind, "status": intern.status}, 0
