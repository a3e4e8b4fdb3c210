"""create_management_key: the only way to one, besides the admin."""

from typing import Any

from django.core.management.base import CommandParser

from accounts.models import Account
from accounts.services.keys import create_key
from accounts.services.records import command_actor
from gateway.commands import JsonCommand, Refused


class Command(JsonCommand):
    help = "Make a management key for an account and print it; it is shown this once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--account", required=True, help="name of the account")
        parser.add_argument("--name", default="management key", help="name of the key")

    def run(self, **options: Any) -> tuple[dict[str, Any], int]:
        account = Account.objects.filter(name=options["account"]).first()
        if account is None:
            raise Refused(f"There is no account {options['account']!r}")
        key, string = create_key(
            account=account,
            name=options["name"],
            workspace=None,
            by=command_actor("create_management_key"),
        )
        return {"key": string, "key_hash": key.hash}, 0
