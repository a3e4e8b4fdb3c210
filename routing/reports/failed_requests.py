"""Puts failed and refused requests on record, in batches beside the books."""

import hashlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Final, NamedTuple
from uuid import UUID

from django.db import connection, transaction
from django.db.models import UUIDField

from gateway.database.db import DATABASE_GONE, Lane, run_queries
from routing.reports.flood import SourceSecond, admit_records
from routing.reports.models import FailedRequest, FailedRequestCount
from routing.reports.report import RequestReport
from routing.statistics.periodic import PeriodicWork

log = logging.getLogger("routing.reports")

# A caller finds his failed request at most a second later; reports come every half.
EVERY_S: Final = 0.25
# Rows that wait for a database that is gone; what comes then is only counted in the log.
_PENDING_MAX: Final = 5_000
_LOG_EVERY_S: Final = 60.0
# A statement of so many holds the event loop for a millisecond, and others run between two.
_ROWS_AT_ONCE: Final = 10
# Addresses counted by themselves within a minute; further ones are counted as "other".
_ADDRESSES_MAX: Final = 1_000
# Beginnings of keys counted by themselves for each of them; the caller chooses what he sends.
_PREFIXES_MAX: Final = 5
_COLUMNS: Final = (
    *("key", "minute", "account_id", "workspace_id", "api_key_id", "address", "key_prefix"),
    *("status", "error_type", "reason", "is_refused", "requests"),
)
_ADD_COUNTS: Final = (
    f"INSERT INTO {FailedRequestCount._meta.db_table} ({', '.join(_COLUMNS)}) VALUES "  # noqa: S608 - Names of columns.
    f"({', '.join(['%s'] * len(_COLUMNS))}) ON CONFLICT (key) DO UPDATE SET "
    f"requests = {FailedRequestCount._meta.db_table}.requests + excluded.requests"
)


class CountedFailure(NamedTuple):
    """What the failures of one count have in common."""

    minute: datetime
    account_id: UUID | None
    workspace_id: UUID | None
    api_key_id: int | None
    address: str
    key_prefix: str
    status: int
    error_type: str
    reason: str
    is_refused: bool


Store = Callable[[Sequence[FailedRequest], Counter[CountedFailure]], None]
Admit = Callable[[Mapping[SourceSecond, int]], Mapping[SourceSecond, int]]


class FailureWriter:
    """Collects what batches of reports have of failures, and writes it in a greenlet of its own, so
    that a database that says nothing delays no other observer. What finds none is kept for the next
    round, up to a bound."""

    def __init__(self, store: Store | None = None, admit: Admit = admit_records) -> None:
        self._store = store or store_failures
        self._admit = admit
        self._work = PeriodicWork("failed requests", self.write, every_s=EVERY_S, log=log)
        self._logged_at = float("-inf")
        # What came since the last round: a row, and what it counts as where there are too many.
        self._new: list[tuple[FailedRequest, CountedFailure]] = []
        # What a round could not write.
        self._rows: list[FailedRequest] = []
        self._counts: Counter[CountedFailure] = Counter()
        self._minute: datetime | None = None
        self._prefixes: dict[str, set[str]] = {}
        self.lost = 0

    def observe(self, reports: Sequence[RequestReport]) -> None:
        for report in reports:
            if report.error is not None:
                self._add(report)

    def start(self) -> None:
        """Write from now on; call after a fork."""
        self._work.start()

    def stop(self, within_s: float) -> None:
        """Write what is left, if the database takes it in time."""
        self._work.finish(within_s=within_s)

    def write(self) -> None:
        """Write what was collected."""
        self._sort_new()
        if not self._rows and not self._counts:
            return
        rows, counts = self._rows, self._counts
        self._rows, self._counts = [], Counter()
        try:
            self._store(rows, counts)
        except DATABASE_GONE:
            self._keep(rows, counts)

    def _sort_new(self) -> None:
        """Make rows of as many as their keys may have in a second, counts of the others."""
        if not self._new:
            return
        new, self._new = self._new, []
        admitted = dict(self._admit(Counter(_find_second(row) for row, _ in new)))
        for row, counted in new:
            second = _find_second(row)
            if admitted[second]:
                admitted[second] -= 1
                self._rows.append(row)
            else:
                self._counts[counted] += 1

    def _add(self, report: RequestReport) -> None:
        error, caller = report.error, report.caller
        assert error is not None
        if caller is None or report.is_counted:
            self._counts[self._describe_count(report)] += 1
            return
        if len(self._new) + len(self._rows) >= _PENDING_MAX:
            self._lose(1)
            return
        row = FailedRequest(
            at=report.ended_at,
            request_id=report.identity.id if report.identity else "",
            generation_id=report.generation_id,
            account_id=caller.account_id,
            workspace_id=caller.workspace_id,
            api_key_id=caller.key_id,
            format=report.format,
            requested_model=report.requested_model,
            streamed=report.streamed,
            status=report.status,
            error_type=error.error_type[:40],
            reason=error.reason[:64],
            text=error.text.replace("\x00", "")[:500],
            duration_ms=report.duration_ms,
            detail=error.detail,
            plan=report.plan,
            tags=dict(report.tags) or None,
        )
        self._new.append((row, self._describe_count(report)))

    def _describe_count(self, report: RequestReport) -> CountedFailure:
        error, caller = report.error, report.caller
        assert error is not None
        minute = report.ended_at.replace(second=0, microsecond=0)
        if minute != self._minute:
            self._minute, self._prefixes = minute, {}
        source = ("", "") if caller else self._limit_source(report.address, report.key_prefix)
        return CountedFailure(
            minute,
            caller.account_id if caller else None,
            caller.workspace_id if caller else None,
            caller.key_id if caller else None,
            *source,
            report.status,
            error.error_type[:40],
            error.reason[:64],
            report.generation_id is None,
        )

    def _limit_source(self, address: str, key_prefix: str) -> tuple[str, str]:
        prefixes = self._prefixes.get(address)
        if prefixes is None:
            if len(self._prefixes) >= _ADDRESSES_MAX:
                return "other", ""
            prefixes = self._prefixes[address] = set()
        if key_prefix not in prefixes:
            if len(prefixes) >= _PREFIXES_MAX:
                return address, ""
            prefixes.add(key_prefix)
        return address, key_prefix

    def _keep(self, rows: list[FailedRequest], counts: Counter[CountedFailure]) -> None:
        for row in rows:
            # Given before the write was undone; somebody else's by now, on SQLite.
            row.pk = None
        room = max(0, _PENDING_MAX - len(self._rows))
        self._rows = rows[:room] + self._rows
        if len(counts) <= _PENDING_MAX:
            self._counts.update(counts)
        else:
            self._lose(counts.total())
        if len(rows) > room:
            self._lose(len(rows) - room)

    def _lose(self, count: int) -> None:
        self.lost += count
        now = time.monotonic()
        if now - self._logged_at >= _LOG_EVERY_S:
            self._logged_at = now
            log.warning("%d failed requests are not on record so far: too many waited", self.lost)


def _find_second(row: FailedRequest) -> SourceSecond:
    return str(row.api_key_id), int(row.at.timestamp())


def store_failures(rows: Sequence[FailedRequest], counts: Counter[CountedFailure]) -> None:
    """Write rows, and add counts to what is counted of them already: all or nothing, because what
    failed is written again."""
    run_queries(Lane.OPERATOR, lambda: _store_failures(rows, counts))


@transaction.atomic
def _store_failures(rows: Sequence[FailedRequest], counts: Counter[CountedFailure]) -> None:
    FailedRequest.objects.bulk_create(rows, batch_size=_ROWS_AT_ONCE)
    if not counts:
        return
    # SQLite has no type for them.
    to_column = partial(UUIDField().get_db_prep_value, connection=connection)
    with connection.cursor() as cursor:
        # In one order, so that two processes never wait for each other.
        for key, counted in sorted((_hash_count(each), each) for each in counts):
            ids = [to_column(each) for each in counted[1:3]]
            values = (counted.minute, *ids, *counted[3:])
            cursor.execute(_ADD_COUNTS, (key, *values, counts[counted]))


def _hash_count(counted: CountedFailure) -> str:
    words = "\x1f".join(map(str, counted))
    return hashlib.md5(words.encode(), usedforsecurity=False).hexdigest()
