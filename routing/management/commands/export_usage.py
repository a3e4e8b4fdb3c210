"""export_usage: what was charged, as a file."""

from datetime import date
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.management.base import CommandParser

from accounts.models import Account
from gateway.commands import JsonCommand, Misused, Refused
from gateway.http.jsonio import JsonObject, usd
from routing.exports.columns import PERIODS
from routing.exports.files import FORMATS, ParquetMissing, write_export
from routing.exports.rows import UsageExport, parse_day
from routing.exports.store import NoBucket, export_folder, upload_export


class Command(JsonCommand):
    help = "Write what was charged on some days to a file, whose sum is the ledger's."

    def add_arguments(self, parser: CommandParser) -> None:
        day = "of what was booked (UTC), YYYY-MM-DD"
        parser.add_argument("--from", dest="first", required=True, help=f"first day {day}")
        parser.add_argument("--to", dest="last", required=True, help=f"last day {day}; included")
        parser.add_argument("--format", choices=FORMATS, default="csv")
        parser.add_argument(
            "--per", choices=PERIODS, default="day", help="a row per generation, or per day"
        )
        parser.add_argument(
            "--account", action="append", help="id of an account; all without it; may be repeated"
        )
        place = parser.add_mutually_exclusive_group()
        place.add_argument("--output", help="the file; by default in exports/ of GATEWAY_HOME")
        place.add_argument(
            "--to-s3", action="store_true", help="into the bucket of USAGE_EXPORT_STORE"
        )

    def run(self, **options: Any) -> tuple[JsonObject, int]:
        export = UsageExport(
            *_read_days(options["first"], options["last"]),
            options["per"],
            _find_accounts(options["account"]),
        )
        form = options["format"]
        path = Path(options["output"] or export_folder() / export.name(form))
        try:
            if options["to_s3"]:
                place, sums = upload_export(export, form)
            else:
                place, sums = str(path), write_export(export, form, path)
        except ParquetMissing as error:
            raise Refused(str(error)) from None
        except NoBucket:
            raise Refused("--to-s3 needs USAGE_EXPORT_STORE=s3://bucket/prefix") from None
        except OSError as error:
            raise Refused(f"{path}: {error.strerror}") from None
        result = {
            "file": place,
            "rows": sums.rows,
            "charge": usd(sums.charge_nano),
            "charge_nano": sums.charge_nano,
            "byok": usd(sums.byok_nano),
            "byok_nano": sums.byok_nano,
        }
        return result, 0


def _read_days(first: str, last: str) -> tuple[date, date]:
    try:
        days = parse_day(first), parse_day(last)
    except ValueError:
        raise Misused("--from and --to must be days as YYYY-MM-DD") from None
    if days[1] < days[0]:
        raise Misused("--to must not be before --from")
    return days


def _find_accounts(texts: list[str] | None) -> tuple[UUID, ...] | None:
    if texts is None:
        return None
    try:
        ids = tuple(UUID(text) for text in texts)
    except ValueError:
        raise Misused("--account must be the id of an account") from None
    known = set(Account.objects.filter(pk__in=ids).values_list("pk", flat=True))
    for account_id in ids:
        if account_id not in known:
            raise Refused(f"There is no account {account_id}")
    return ids
