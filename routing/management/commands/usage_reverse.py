"""usage_reverse: give a charge back."""

from typing import Any

from django.core.management.base import CommandParser

from accounts.models import Account
from accounts.money import parse_usd_argument
from gateway.commands import JsonCommand, Refused
from gateway.http.jsonio import JsonObject, usd
from routing.metering.reversals import (
    MoreThanCharged,
    NotCharged,
    RecordGone,
    reverse_usage,
)


class Command(JsonCommand):
    help = "Give some or all of a generation's charge back. The same --ref counts once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--generation", required=True, help="id of the generation")
        parser.add_argument(
            "--usd", required=True, type=parse_usd_argument, help="USD, e.g. 5 or 0.25"
        )
        parser.add_argument("--ref", required=True, help="what names this reversal")
        parser.add_argument("--note", default="", help="why; kept on the entry")

    def run(self, **options: Any) -> tuple[JsonObject, int]:
        generation_id, amount_nano = options["generation"], options["usd"]
        if not amount_nano:
            raise Refused("--usd must be more than zero")
        try:
            entry, created = reverse_usage(
                generation_id=generation_id,
                amount_nano=amount_nano,
                source_ref=options["ref"],
                note=options["note"],
            )
        except NotCharged:
            raise Refused(f"There is no charge of {generation_id!r}") from None
        except RecordGone:
            raise Refused(
                f"The record of {generation_id!r} is gone, and its entry does not say in which day "
                "it counted: grant credits instead (credits_add)"
            ) from None
        except MoreThanCharged:
            raise Refused("--usd is more than what is left of the charge") from None
        if entry.generation_id != generation_id or entry.amount_nano != -amount_nano:
            raise Refused(f"--ref {options['ref']!r} names another reversal")
        account = Account.objects.get(pk=entry.account_id)
        result = {
            "entry_id": entry.pk,
            "created": created,
            "total_credits": usd(account.total_credits_nano),
            "total_usage": usd(account.total_usage_nano),
        }
        return result, 0
