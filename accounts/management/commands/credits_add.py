"""credits_add: book a purchase."""

from typing import Any

from django.core.management.base import CommandParser

from accounts.models import Account
from accounts.money import parse_usd_argument
from accounts.services.books.credits import MovementConflict, take_payment
from accounts.services.records import command_actor
from gateway.commands import JsonCommand, Refused
from gateway.http.jsonio import JsonObject, usd


class Command(JsonCommand):
    help = (
        "Add what was paid, less CREDIT_FEE_RATE, to an account. The same --ref counts once, "
        "however often it is told."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--account", required=True, help="name of the account")
        parser.add_argument(
            "--usd", required=True, type=parse_usd_argument, help="USD, e.g. 5 or 0.25"
        )
        parser.add_argument("--ref", required=True, help="what names this payment")
        parser.add_argument("--note", default="", help="why; kept on the entry")

    def run(self, **options: Any) -> tuple[JsonObject, int]:
        account = Account.objects.filter(name=options["account"]).first()
        if account is None:
            raise Refused(f"There is no account {options['account']!r}")
        if not options["usd"]:
            raise Refused("--usd must be more than zero")
        try:
            entry, created = take_payment(
                account=account,
                paid_nano=options["usd"],
                source="credits_add",
                source_ref=options["ref"],
                note=options["note"],
                by=command_actor("credits_add"),
            )
        except MovementConflict:
            raise Refused(f"--ref {options['ref']!r} names another payment") from None
        account.refresh_from_db()
        result = {
            "entry_id": entry.pk,
            "created": created,
            "total_credits": usd(account.total_credits_nano),
            "total_usage": usd(account.total_usage_nano),
        }
        return result, 0
