"""Audit records of credentials that were presented: few of them, however many come.

Of what one address presents in one way the first in ten minutes is on record, the tenth, the
hundredth and so on. Each has how many came by then. Each process counts by itself and writes sixty
of these records a minute; beyond, one for each power of ten stands for all other addresses.
"""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db import DatabaseError, InterfaceError, transaction

from accounts.services.records import Actor, command_actor, record_change
from gateway.database.db import Lane, run_queries
from gateway.http.address import find_origin

log = logging.getLogger("gateway.sign_in")
RECORDS_MAX: Final = 60
_WINDOW_S: Final = 600.0
_MINUTE_S: Final = 60.0
_COUNTS_MAX: Final = 4096
_OTHERS: Final = "other addresses"
_BY_NOBODY: Final = command_actor("sign-in")


class Count(NamedTuple):
    """How many came by now, and from where."""

    number: int
    origin: str


class AttemptCounter:
    """`count(kind, address)` says when a number is worth a record."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, Lock()
        self._counts: OrderedDict[tuple[str, str], tuple[float, int]] = OrderedDict()
        self._minute, self._written = -1, 0

    def count(self, kind: str, address: str) -> Count | None:
        """The number, where it is the first, the tenth, the hundredth and so on; else None."""
        now = self._clock()
        with self._lock:
            number = self._add(kind, address, now)
            if not _is_power_of_ten(number):
                return None
            minute = int(now // _MINUTE_S)
            if minute != self._minute:
                self._minute, self._written = minute, 0
            if self._written < RECORDS_MAX:
                self._written += 1
                return Count(number, address)
            number = self._add(kind, _OTHERS, now)
            return Count(number, _OTHERS) if _is_power_of_ten(number) else None

    def _add(self, kind: str, address: str, now: float) -> int:
        begun, number = self._counts.get((kind, address), (now, 0))
        if now - begun >= _WINDOW_S:
            begun, number = now, 0
        self._counts[kind, address] = begun, number + 1
        self._counts.move_to_end((kind, address))
        while len(self._counts) > _COUNTS_MAX:
            self._counts.popitem(last=False)
        return number + 1


_counter = AttemptCounter()


def record_attempt(
    action: str,
    *,
    object_type: str,
    object_id: object = "unknown",
    account_id: UUID | None = None,
    by: Actor = _BY_NOBODY,
    **facts: Any,
) -> None:
    """Count what the request under way presents, and write a record where it is time for one.

    What the database refuses is in the log alone: nobody is answered otherwise for it.
    """
    origin = find_origin()
    address = origin.address if origin else "unknown"
    found = _counter.count(f"{object_type} {object_id} {action}", address)
    if found is None:
        return
    after = {"times": found.number, **facts}
    if found.origin != address:
        after["from"] = found.origin

    def write() -> None:
        with transaction.atomic():
            record_change(
                by=by,
                action=action,
                object_type=object_type,
                object_id=object_id,
                account_id=account_id,
                before=None,
                after=after,
            )

    try:
        run_queries(Lane.OPERATOR, write)
    except (DatabaseError, InterfaceError) as error:
        log.warning("Not on record: %s %s %s (%s)", object_type, action, after, error)


def forget_attempts() -> None:
    """Begin to count anew."""
    global _counter
    _counter = AttemptCounter()


def _is_power_of_ten(number: int) -> bool:
    return str(number).rstrip("0") == "1"
