"""fill_scim_groups: an account's groups from a file, where no directory fills them."""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from accounts.models import Account
from accounts.services.directory.groups import fill_groups
from accounts.services.records import command_actor
from gateway.commands import JsonCommand, Refused
from gateway.http.errors import GatewayError, MalformedJson
from gateway.http.jsonio import JsonObject, loads


class Command(JsonCommand):
    help = (
        "Let an account's groups be those of a JSON file: an object of group names, each with a "
        "list of members by user name, address or id. Groups that are not in it are deleted."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--account", required=True, help="name of the account")
        parser.add_argument("--file", required=True, type=Path, help="the JSON file")

    def run(self, **options: Any) -> tuple[JsonObject, int]:
        account = Account.objects.filter(name=options["account"]).first()
        if account is None:
            raise Refused(f"There is no account {options['account']!r}")
        try:
            groups = loads(options["file"].read_bytes())
        except (OSError, MalformedJson) as error:
            raise Refused(f"{options['file']} cannot be read: {error}") from error
        if not _is_groups(groups):
            raise Refused('The file holds something else than {"group": ["member", …], …}')
        try:
            synced, deleted = fill_groups(
                account=account, groups=groups, by=command_actor("fill_scim_groups")
            )
        except GatewayError as error:
            raise Refused(error.text) from error
        return {"groups": synced, "deleted_groups": deleted}, 0


def _is_groups(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(members, list) and all(isinstance(each, str) for each in members)
        for members in value.values()
    )
