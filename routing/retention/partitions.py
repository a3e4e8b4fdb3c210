"""The partitions of generations, their figures and refusals on PostgreSQL: one per month, made
ahead and dropped as a whole.

What was there before them is one partition without a beginning. A default one catches what has no
month, should nobody make them for long. No lock is waited for longer than `_LOCK`: whoever writes
records waits behind it. What does not get it is done the next time.
"""

import logging
import re
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from django.db import OperationalError, connection, transaction

log = logging.getLogger(__name__)

_LOCK: Final = "SET LOCAL lock_timeout = '300ms'"
_MONTHS_AHEAD: Final = 2
_MOMENT: Final = r"(?:'([^']+)'|MINVALUE)"
_BOUNDS: Final = re.compile(rf"FOR VALUES FROM \({_MOMENT}\) TO \('([^']+)'\)")


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
