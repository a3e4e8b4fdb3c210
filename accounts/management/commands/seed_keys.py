"""seed_keys: an account, a workspace, one inference key and one management key."""

from typing import Any

from django.core.management.base import CommandParser

from accounts.models import Account, ApiKey, Membership, Workspace
from accounts.money import parse_usd_argument
from accounts.services.books.credits import MovementConflict, add_credits
from accounts.services.keys import create_key, rotate_key
from accounts.services.organization import admit_member, open_account, open_workspace
from accounts.services.records import command_actor
from gateway.commands import JsonCommand, Misused, Refused
from gateway.http.jsonio import JsonObject, usd

_BY = command_actor("seed_keys")
MANAGEMENT_KEY_NAME = "seeded management key"


class Command(JsonCommand):
    help = (
        "Make sure that an account, its workspace, one inference key and one management key exist, "
        "and print the keys. A key is shown only when it is made (null later on) unless --rotate "
        "gives both a new string. Credits are booked once per account. The inference key's creator "
        "is an admin member of the account."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--account", required=True, help="name of the account")
        parser.add_argument("--workspace", required=True, help="slug of the workspace")
        parser.add_argument(
            "--credits", type=parse_usd_argument, default=0, help="USD, e.g. 5 or 0.25"
        )
        parser.add_argument("--name", default="seeded key", help="name of the inference key")
        parser.add_argument("--rotate", action="store_true", help="give existing keys new strings")

    def run(self, **options: Any) -> tuple[JsonObject, int]:
        if not options["account"].strip():
            raise Misused("--account is the name of an account, and none is given")
        account = open_account(name=options["account"])
        workspace = open_workspace(account=account, slug=options["workspace"])
        user = admit_member(
            account=account, username=f"{account.name}-admin", role=Membership.Role.ADMIN
        )
        if options["credits"]:
            try:
                add_credits(
                    account=account,
                    amount_nano=options["credits"],
                    source="seed",
                    source_ref=str(account.pk),
                )
            except MovementConflict:
                raise Refused(
                    "The account was seeded with other credits; credits_add adds more of them"
                ) from None
        found = ApiKey.objects.filter(account=account, deleted_at__isnull=True)
        key = found.filter(workspace=workspace, name=options["name"]).first()
        manager = found.filter(workspace=None, name=MANAGEMENT_KEY_NAME).first()
        key, string, made = _key(key, account, options["name"], workspace, user, options["rotate"])
        manager, manager_string, manager_made = _key(
            manager, account, MANAGEMENT_KEY_NAME, None, None, options["rotate"]
        )
        account.refresh_from_db()
        result = {
            "account_id": str(account.pk),
            "workspace_id": str(workspace.pk),
            "user_id": user.public_id,
            "api_key": string,
            "api_key_hash": key.hash,
            "management_key": manager_string,
            "management_key_hash": manager.hash,
            "created": made or manager_made,
            "total_credits": usd(account.total_credits_nano),
        }
        return result, 0


def _key(
    key: ApiKey | None,
    account: Account,
    name: str,
    workspace: Workspace | None,
    creator: Any,
    rotate: bool,
) -> tuple[ApiKey, str | None, bool]:
    """The key, its string where it is new, and whether it was made now."""
    if key is None:
        key, string = create_key(
            account=account, name=name, workspace=workspace, creator=creator, by=_BY
        )
        return key, string, True
    if not rotate:
        return key, None, False
    return *rotate_key(keys=ApiKey.objects.filter(pk=key.pk), by=_BY), False
