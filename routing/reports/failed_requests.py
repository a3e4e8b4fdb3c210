"""The records of failed and refused requests: written in batches, and erased for an end user."""

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
from django.db.models import Exists, OuterRef, Q, QuerySet, UUIDField

from gateway.database.db import DATABASE_GONE, Lane, run_queries
from routing.history.erasure import AT_ONCE, EndUser, erase_tags, walk_rows
from routing.metering.models import Generation
from routing.reports.flood import SourceSecond, admit_records
from routing.reports.models import FailedRequest, FailedRequestCount
from routing.reports.report import RequestReport
from routing.statistics.periodic import PeriodicWork

log = logging.getLogger("routing.reports")

# A caller finds a failed request at most a second later; reports come every half.
EVERY_S: Final = 0.25
# Rows that wait for a database that is gone; what comes then is only counted in the log.
_PENDING_MAX: Final = 5_000
_LOG_EVERY_S: Final = 60.0
# A statement of this many holds the event loop for a millisecond, and others run between two.
_ROWS_AT_ONCE: Final = 10
# Addresses counted by themselves within a minute; further ones are counted as "other".
_ADDRESSES_MAX: Final = 1_000
# Beginnings of keys counted by themselves for each of them; the caller chooses what to send.
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
    """Collects the failures of batches of reports, and writes them in a greenlet of its own.

    So a silent database delays no other observer. What cannot be written waits for the next round,
    up to a bound.
    """

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
        """Write a row of as many failures as their key may have in a second, counts of the rest."""
        if self._new:
            new, self._new = self._new, []
            admitted = dict(self._admit(Counter(_find_second(row) for row, _ in new)))
            for row, counted in new:
                second = _find_second(row)
                if admitted[second]:
                    admitted[second] -= 1
                    self._rows.append(row)
                else:
                    self._counts[counted] += 1
        if not self._rows and not self._counts:
            return
        rows, counts = self._rows, self._counts
        self._rows, self._counts = [], Counter()
        try:
            self._store(rows, counts)
        except DATABASE_GONE:
            self._keep(rows, counts)
        except Exception as error:  # noqa: BLE001 - Whatever is wrong with one row, the others are written.
            log.error("Failed requests are written one by one: %s", type(error).__name__)
            for row in rows:
                # On SQLite another row may have that of the write that was undone.
                row.pk = None
                self._store_alone([row], Counter())
            for counted, count in counts.items():
                self._store_alone([], Counter({counted: count}))

    def _store_alone(self, rows: list[FailedRequest], counts: Counter[CountedFailure]) -> None:
        try:
            self._store(rows, counts)
        except DATABASE_GONE:
            self._keep(rows, counts)
        except Exception:  # noqa: BLE001 - The log says what was wrong.
            self._lose(len(rows) + counts.total())

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
            # The write that gave it was undone; on SQLite another row may have it by now.
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
            text = (
                "%d failed requests are not on record so far: too many waited, or no row fits them"
            )
            log.warning(text, self.lost)


def _find_second(row: FailedRequest) -> SourceSecond:
    return str(row.api_key_id), int(row.at.timestamp())


def store_failures(rows: Sequence[FailedRequest], counts: Counter[CountedFailure]) -> None:
    """Write rows, and add counts to those already stored: all or nothing, because what failed is
    written again."""
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


def erase_from_failures(user: EndUser) -> int:
    """Erase an end user from failed and refused requests; returns how many rows changed.

    Erases the tags whose value is the user's id, and the request ids of the user's generations.
    """
    erased = 0
    own = Generation.objects.filter(
        Q(user.matches("external_user")) | Q(user.matches("session_id"))
    )
    own = own.filter(pk=OuterRef("generation_id"), account_id=user.account_id)
    is_own = ~Q(request_id="") & Q(Exists(own))

    def erase(window: QuerySet[FailedRequest]) -> int:
        nonlocal erased
        with transaction.atomic():
            # A row that is found loses what it was found by, so it is not found again.
            found = window.filter(Q(user.is_named_in("tags")) | is_own)
            rows = list(found.annotate(is_own=Exists(own)).order_by("at")[:AT_ONCE])
            for row in rows:
                row.tags = row.tags and erase_tags(row.tags, user)
                row.request_id = "" if row.is_own else row.request_id
            FailedRequest.objects.bulk_update(rows, ["tags", "request_id"])
        erased += len(rows)
        return len(rows)

    rows = FailedRequest.objects.filter(account_id=user.account_id)
    failures = rows.filter(Q(tags__isnull=False) | Q(generation_id__isnull=False))
    walk_rows(failures, "at", erase)
    return erased
