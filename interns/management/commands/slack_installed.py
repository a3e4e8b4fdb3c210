"""slack_installed: record that Slack was installed for an intern."""

import sys
from typing import Any

from django.core.management.base import CommandParser

from gateway.commands import JsonCommand, Refused
from gateway.http.jsonio import JsonObject
from interns import slack
from interns.errors import InternError
from interns.management.lookup import add_intern_argument, find_intern, require_worker


class Command(JsonCommand):
    help = "Record that Slack was installed for an intern; what waited for it begins."

    def add_arguments(self, parser: CommandParser) -> None:
        add_intern_argument(parser)
        parser.add_argument(
            "--tokens", action="store_true", help="read the tokens from stdin, for its vault"
        )

    def run(self, **options: Any) -> tuple[JsonObject, int]:
        intern = find_intern(options["intern"])
        require_worker()
        tokens = sys.stdin.read().strip() if options["tokens"] else ""
        try:
            began = slack.record_install(intern.pk, by="slack_installed", tokens=tokens)
        except InternError as error:
            raise Refused(error.text) from error
        return {"intern_id": str(intern.pk), "provisioning": began}, 0
