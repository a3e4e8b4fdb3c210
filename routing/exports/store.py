"""Where exports of the schedule are kept: an S3 bucket, or a folder of GATEWAY_HOME."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal, cast

from django.conf import settings
from django.core.files import File
from django.core.files.storage import storages

from accounts.models import LedgerEntry
from accounts.models.ledger import USAGE_KINDS
from gateway.home import private_folder
from routing.exports.columns import Per
from routing.exports.files import ExportSums, Format, write_export
from routing.exports.rows import UsageExport, yesterday

# A day is exported once its last requests are booked: some run for minutes over midnight.
_BOOKED_AFTER: Final = timedelta(hours=1)
# What was missed while nothing ran is made up for.
_DAYS_BACK: Final = 7


class NoBucket(Exception):
    """USAGE_EXPORT_STORE names none."""


def export_folder() -> Path:
    """The folder of exports without a bucket."""
    return private_folder(Path(settings.GATEWAY_HOME) / "exports")


def upload_export(export: UsageExport, form: Format) -> tuple[str, ExportSums]:
    """Write an export and put it into the bucket, in place of an earlier one; its URI and sums.

    Raises `NoBucket`, `ParquetMissing` and what boto3 raises.
    """
    if not settings.USAGE_EXPORT_STORE:
        raise NoBucket
    name = export.name(form)
    with TemporaryDirectory(dir=export_folder()) as folder:
        path = Path(folder) / name
        sums = write_export(export, form, path)
        with path.open("rb") as file:
            storages["usage-exports"].save(name, File(file))
    return f"{settings.USAGE_EXPORT_STORE}/{name}", sums


def export_finished_days(now: datetime) -> int:
    """Write the files of the last days that are over and have none yet; returns how many."""
    form = cast(Format | Literal[""], settings.USAGE_EXPORT_FORMAT)
    first = LedgerEntry.objects.filter(kind__in=USAGE_KINDS).order_by("pk").first()
    if not form or first is None:
        return 0
    written = 0
    last_day = yesterday(now - _BOOKED_AFTER)
    for back in reversed(range(_DAYS_BACK)):
        day = last_day - timedelta(days=back)
        export = UsageExport(day, day, cast(Per, settings.USAGE_EXPORT_PER))
        name = export.name(form)
        if settings.USAGE_EXPORT_STORE:
            is_stored = storages["usage-exports"].exists(name)
        else:
            is_stored = (export_folder() / name).exists()
        if is_stored or day < first.created_at.astimezone(UTC).date():
            continue
        if settings.USAGE_EXPORT_STORE:
            upload_export(export, form)
        else:
            write_export(export, form, export_folder() / name)
        written += 1
    return written
