"""erase_user: erase one end user of an account."""

import re
from dataclasses import asdict
from typing import Any, Final
from uuid import UUID

from django.core.management.base import CommandParser

from accounts.models import Account
from accounts.services.records import command_actor
from gateway.commands import JsonCommand, Misused, Refused
from gateway.http.jsonio import JsonObject
from routing.history.erasure import EndUser, erase_end_user

_HASH: Final = re.compile(r"[0-9a-f]{64}")


class Command(JsonCommand):
    help = "Delete what an end user asked and was answered, and blank his id. The books stay."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--account", required=True, help="id of the account")
        whom = parser.add_mutually_exclusive_group(required=True)
        whom.add_argument("--user", help="the id as requests gave it")
        whom.add_argument("--user-hash", help="the same as history tells it")

    def run(self, **options: Any) -> tuple[JsonObject, int]:
        try:
            account_id = UUID(options["account"])
        except ValueError:
            raise Misused("--account must be the id of an account") from None
        if not Account.objects.filter(pk=account_id).exists():
            raise Refused(f"There is no account {account_id}")
        name, hashed = options["user"], options["user_hash"]
        if hashed is not None and not _HASH.fullmatch(hashed):
            raise Misused("--user-hash must be 64 hexadecimal digits")
        user = EndUser.from_name(account_id, name) if name else EndUser(account_id, hashed or "")
        erased = erase_end_user(user, by=command_actor("erase_user"))
        return {"user_hash": user.hash, **asdict(erased)}, 0
