"""create_management_key: the only way to one, besides the admin."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.management.base import CommandParser

from accounts.models import Account, Workspace
from accounts.scopes import SCOPES, clean_networks
from accounts.services.keys import create_key
from accounts.services.records import command_actor
from gateway.commands import JsonCommand, Misused, Refused
from gateway.http.jsonio import JsonObject


class Command(JsonCommand):
    help = "Make a management key for an account and print it; it is shown this once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--account", required=True, help="name of the account")
        parser.add_argument("--name", default="management key", help="name of the key")
        parser.add_argument(
            "--scope",
            action="append",
            choices=SCOPES,
            help="what it may do, once for each; everything without",
        )
        parser.add_argument(
            "--allowed-ip",
            action="append",
            help="an address or network that it may be used from, once for each",
        )
        parser.add_argument(
            "--workspace",
            action="append",
            help="slug of a workspace that it is for, once for each; the whole account without",
        )
        parser.add_argument("--days", type=int, help="after how many days it expires")

    def run(self, **options: Any) -> tuple[JsonObject, int]:
        account = Account.objects.filter(name=options["account"]).first()
        if account is None:
            raise Refused(f"There is no account {options['account']!r}")
        days, ips = options["days"], options["allowed_ip"]
        if days is not None and days < 1:
            raise Misused("--days is at least 1")
        try:
            networks = clean_networks(ips) if ips else None
        except ValueError as error:
            raise Misused(f"--allowed-ip: {error}") from error
        slugs = options["workspace"]
        rows = Workspace.objects.filter(account=account, slug__in=slugs or ())
        ids = {row.slug: str(row.pk) for row in rows}
        if missing := sorted(set(slugs or ()) - ids.keys()):
            raise Refused(f"The account has no workspace {missing[0]!r}")
        key, string = create_key(
            account=account,
            name=options["name"],
            workspace=None,
            scopes=options["scope"],
            managed_workspaces=sorted(ids.values()) if slugs else None,
            allowed_ips=networks,
            expires_at=datetime.now(UTC) + timedelta(days=days) if days else None,
            by=command_actor("create_management_key"),
        )
        return {"key": string, "key_hash": key.hash}, 0
