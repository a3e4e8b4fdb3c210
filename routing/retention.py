"""Records of single requests leave after GENERATION_DAYS: generations with their figures, contents
and feedback, and refusals. Sums of hours and days and the ledger stay.

Nothing leaves before it is summed up. How far it went stands in `UsageRolled.forgotten_before`,
written before the first row goes: hours before it are never summed up again from what is left.
"""

import logging
import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from django.conf import settings
from django.db import OperationalError, connection, transaction
from django.db.models import Exists, F, OuterRef, Subquery

from routing.history.models import (
    GenerationContent,
    GenerationFact,
    GenerationFeedback,
    LateHour,
    UsageRolled,
)
from routing.history.rollup import FACTS_KEPT, delete_older
from routing.history.spans import day_of
from routing.metering.models import Generation
from routing.metering.popularity import CallsCounted
from routing.reports.models import FailedRequest, FailedRequestCount

log = logging.getLogger(__name__)

_LOCK: Final = "SET LOCAL lock_timeout = '300ms'"
_MONTHS_AHEAD: Final = 2
_MOMENT: Final = r"(?:'([^']+)'|MINVALUE)"
_BOUNDS: Final = re.compile(rf"FOR VALUES FROM \({_MOMENT}\) TO \('([^']+)'\)")
_SOON: Final = timedelta(seconds=5)
# What is left is for the next run.
_WORK_S: Final = 240.0
_RECORDS: Final[tuple[tuple[Any, str], ...]] = (
    (GenerationContent, "created_at"),
    (GenerationFact, "at"),
    (Generation, "created_at"),
    (FailedRequest, "at"),
    (FailedRequestCount, "minute"),
)


def forget_expired(now: datetime, *, work_s: float = _WORK_S) -> int:
    """Let records leave that are past GENERATION_DAYS: by whole months where a table has
    partitions, else in portions. Returns how many rows were deleted."""
    if not settings.GENERATION_DAYS:
        return 0
    with transaction.atomic():
        # The roll-up of hours waits for it, and sees the mark.
        rolled = UsageRolled.objects.select_for_update().filter(pk=1).first()
        calls = CallsCounted.objects.filter(pk=1).first()
        if rolled is None or calls is None:
            return 0
        # Full days (UTC) that are summed up.
        done = [now - timedelta(days=settings.GENERATION_DAYS), rolled.until, calls.until]
        late = LateHour.objects.order_by("hour").first()
        if late is not None:
            done.append(late.hour)
        before = day_of(min(done))
        if rolled.forgotten_before is not None and before <= rolled.forgotten_before:
            before = rolled.forgotten_before
        else:
            rolled.forgotten_before = before
            rolled.save(update_fields=["forgotten_before"])
    stop_at = time.monotonic() + work_s
    # Only generations say whose feedback it is, so it leaves before them.
    deleted = _mend_moments()
    deleted += delete_older(GenerationFeedback, "generation_at", before, stop_at=stop_at)
    return deleted + sum(_forget(model, column, before, stop_at) for model, column in _RECORDS)


def forget_facts(now: datetime, *, work_s: float = _WORK_S) -> int:
    """Let figures leave that no query reaches any more, in the same way."""
    return _forget(GenerationFact, "at", now - FACTS_KEPT, time.monotonic() + work_s)


def _mend_moments() -> int:
    """Feedback of a former version, which knew no `generation_at`, has the moment of its writing
    there. It gets its generation's; where that has left before, it leaves too. Returns how many."""
    own = Generation.objects.filter(pk=OuterRef("generation_id"))
    # Few others come so soon after their generation's begin.
    suspects = GenerationFeedback.objects.filter(generation_at__gte=F("created_at") - _SOON)
    suspects.filter(Exists(own.exclude(created_at=OuterRef("generation_at")))).update(
        generation_at=Subquery(own.values("created_at")[:1])
    )
    return suspects.filter(~Exists(own)).delete()[0]


def _forget(model: Any, column: str, before: datetime, stop_at: float) -> int:
    """Drop whole months, delete what stands in none; returns how many rows were deleted."""
    table = model._meta.db_table
    drop_partitions(table, before)
    return delete_older(model, column, find_deletion_end(table, before), stop_at=stop_at)


# --- Partitions by month --------------------------------------------------------------------------


class PartitionedTable(NamedTuple):
    """`moment` is the column by which its rows stand in months, `key` its primary key."""

    name: str
    moment: str
    key: str


PARTITIONED: Final = (
    PartitionedTable("routing_generation", "created_at", "id"),
    PartitionedTable("routing_generationfact", "at", "generation_id"),
    PartitionedTable("routing_failedrequest", "at", "id"),
)


class Partition(NamedTuple):
    """Its rows are from `start` (None: of all time) until before `end`."""

    name: str
    start: datetime | None
    end: datetime


def list_partitions(table: str) -> list[Partition]:
    """In order of time, without the default one; none where the table has no partitions."""
    if connection.vendor != "postgresql":
        return []
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.relname, pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits i"
            " JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = %s::regclass",
            [table],
        )
        found = [(name, _BOUNDS.fullmatch(bounds)) for name, bounds in cursor.fetchall()]
    partitions = [
        Partition(name, _read_bound(match[1]), _read_bound(match[2]))
        for name, match in found
        if match is not None
    ]
    return sorted(partitions, key=lambda each: each.end)


def create_partitions(now: datetime) -> int:
    """Make every table's partitions of the months up to two ahead; returns how many."""
    ahead = now.astimezone(UTC)
    for _ in range(_MONTHS_AHEAD):
        ahead = _next_month(ahead)
    created = 0
    for table in PARTITIONED:
        partitions = list_partitions(table.name)
        start = partitions[-1].end if partitions else _next_month(ahead)
        while start <= ahead and _try_locked(_create_partition, table, start):
            created, start = created + 1, _next_month(start)
    return created


def drop_partitions(table: str, before: datetime) -> int:
    """Drop the table's partitions that end by then; returns how many."""
    expired = [each for each in list_partitions(table) if each.end <= before]
    return sum(_try_locked(_drop_partition, table, each.name) for each in expired)


def find_deletion_end(table: str, before: datetime) -> datetime:
    """Before when the table's single rows are deleted. Those of a partition by month stay until all
    of it is dropped; the one from before there were such would stay for long."""
    partitions = list_partitions(table)
    if not partitions:
        return before
    first = partitions[0]
    return min(before, first.end if first.start is None else first.start)


def _create_partition(cursor: Any, table: PartitionedTable, start: datetime) -> None:
    """Attached, and not made as a partition: that would lock the whole table."""
    end, name = _next_month(start), f"{table.name}_{start:%Y_%m}"
    cursor.execute(
        f"CREATE TABLE {name} (LIKE {table.name} INCLUDING DEFAULTS, PRIMARY KEY ({table.key}))"
    )
    # What the default one has caught of this month.
    cursor.execute(
        f"WITH caught AS (DELETE FROM {table.name}_default"  # noqa: S608 - Names of ours; the values are bound.
        f" WHERE {table.moment} >= %s AND {table.moment} < %s RETURNING *)"
        f" INSERT INTO {name} SELECT * FROM caught",
        [start, end],
    )
    cursor.execute(
        f"ALTER TABLE {table.name} ATTACH PARTITION {name}"
        f" FOR VALUES FROM ('{start.isoformat()}') TO ('{end.isoformat()}')"
    )


def _drop_partition(cursor: Any, table: str, name: str) -> None:
    cursor.execute(f"ALTER TABLE {table} DETACH PARTITION {name}")
    cursor.execute(f"DROP TABLE {name}")
    log.info("Dropped the partition %s", name)


def _try_locked(step: Any, *arguments: Any) -> bool:
    """Carry a step out in a transaction; False where a lock could not be had in time."""
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(_LOCK)
            step(cursor, *arguments)
    except OperationalError as error:
        log.warning("Partitions are left for the next time: %s", error)
        return False
    return True


def _next_month(moment: datetime) -> datetime:
    months = moment.year * 12 + moment.month
    return datetime(months // 12, months % 12 + 1, 1, tzinfo=UTC)


def _read_bound(text: str | None) -> Any:
    return None if text is None else datetime.fromisoformat(text).astimezone(UTC)
