"""What processes tell each other of endpoints, through the hint store: a stream of entries.

Every two seconds a process appends what it has counted and met since, and reads what the others
have. A new process begins with the last minutes of the stream, and with the long windows that one
of the others leaves there once a minute. No request waits for any of this; without a store, or
while it does not answer, every process goes by what it has seen itself.
"""

import logging
import secrets
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Final, NamedTuple

import redis
from django.conf import settings

from gateway.eventloop import yield_control
from gateway.shared_cache import Patience, SharedCache, cache_key, shared_cache
from routing.selection.health import EndpointHealth
from routing.selection.measurements.window import PIECE_ENDPOINTS
from routing.serving.request import process
from routing.statistics import observing
from routing.statistics.beside import Beside
from routing.statistics.history import own_history
from routing.statistics.long_windows import LIMIT_S, LongWindows, head_key, read_head
from routing.statistics.observing import Observer
from routing.statistics.shared_form import (
    PAGE_ENTRIES,
    STREAM_KEEPS_S,
    append,
    entry_json,
    read_entry,
    stream,
)

log = logging.getLogger("routing.statistics")

SHARE_S: Final = 2.0
LONG_EVERY_S: Final = 60.0
STOP_S: Final = 0.3
_MS: Final = 1000


class _Read(NamedTuple):
    """What the store answered: its time, and entries as `(id, fields)`."""

    at_ms: int
    entries: list[tuple[bytes, dict[bytes, bytes]]]


class Sharing:
    """One process's part. `sync` is called every two seconds, by one greenlet."""

    def __init__(
        self,
        observer: Observer,
        health: EndpointHealth,
        store: SharedCache,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = secrets.token_hex(6)
        self._observer = observer
        self._health = health
        self._hints = store
        self._clock = clock
        self._long = LongWindows(observer, store, clock=clock)
        self._joined = False
        self._last_id = "0-0"
        self._long_id = (0, 0)
        self._store_ms = 0
        self._long_at = float("-inf")
        self._complained = False

    def sync(self) -> bool:
        """Tell and be told once; whether the store answered."""
        if not (self._joined or self._join()):
            # Nobody is going to be told what was counted here.
            self._own_entries()
            return False
        if not self._read_all(self._own_entries()):
            return False
        self._leave_long()
        return True

    def listen(self) -> bool:
        """Be told once and tell nothing, for a command that only looks; whether all was read."""
        return (self._joined or self._join()) and self._read_all([])

    def part(self) -> None:
        """Tell what is left to tell, in little time."""
        if self._joined:
            entries = self._own_entries()
            self._hints.run(lambda store: self._exchange(store, entries), None, limit_s=STOP_S)

    # --- Joining --------------------------------------------------------------------------------

    def _join(self) -> bool:
        """Learn the store's time and what it keeps of long ago; entries are read afterwards."""
        found = self._hints.run(_first_look, None, limit_s=LIMIT_S, knocks=True)
        if found is None:
            return False
        at_ms, long = found
        self._store_ms = at_ms
        kept_s: float = STREAM_KEEPS_S
        if long is not None and self._adopt_long(long, at_ms):
            kept_s = settings.ROUTER_STATS_WINDOW_SECONDS
        since_ms = at_ms - int(kept_s * _MS)
        if self._long_id[0]:
            since_ms = min(since_ms, self._long_id[0])
        self._last_id = f"{max(0, since_ms)}-0"
        self._joined = True
        return True

    def _adopt_long(self, data: bytes, at_ms: int) -> bool:
        now = self._clock()
        try:
            head = read_head(data)
            long_id = _parts(head.entry_id)
            if not self._long.load(head, then=now - max(0, at_ms - head.at_ms) / _MS):
                return False
        except ValueError as error:
            self._complain(error)
            return False
        self._long_id = long_id
        return True

    # --- Each time ------------------------------------------------------------------------------

    def _own_entries(self) -> list[bytes]:
        """What was counted and met here since the last time. Lost if the store does not take it:
        told twice it would count twice."""
        now, marks = self._clock(), self._observer.marks.take()
        pairs = list(self._observer.take().items())
        entries = [entry_json((), marks, now=now)] if marks else []
        for start in range(0, len(pairs), PIECE_ENDPOINTS):
            entries.append(entry_json(pairs[start : start + PIECE_ENDPOINTS], (), now=now))
            yield_control()
        return entries

    def _read_all(self, entries: list[bytes]) -> bool:
        """Tell these entries, then read whatever others have told; whether the store answered."""
        while (read := self._exchanged(entries)) is not None:
            self._take_in(read)
            if len(read.entries) < PAGE_ENTRIES:
                return True
            entries = []
        return False

    def _exchanged(self, entries: list[bytes]) -> _Read | None:
        exchange: Callable[[redis.Redis], _Read | None]
        exchange = partial(self._exchange, entries=entries)
        return self._hints.run(exchange, None, limit_s=LIMIT_S, knocks=True)

    def _exchange(self, store: "redis.Redis", entries: Sequence[bytes]) -> _Read:
        pipe = store.pipeline(transaction=False)
        pipe.time()
        for data in entries:
            append(pipe, data, name=self.name, store_ms=self._store_ms)
        probed = list(self._observer.marks.probed)
        if probed:
            pipe.delete(*map(probe_key, probed))
        pipe.xrange(stream(), min=f"({self._last_id}", count=PAGE_ENTRIES)
        replies = pipe.execute()
        # Only now: what could not be told is to be told the next time.
        del self._observer.marks.probed[: len(probed)]
        return _Read(_ms(replies[0]), replies[-1])

    def _take_in(self, read: _Read) -> None:
        if read.at_ms < _parts(self._last_id)[0] - _MS:
            # Another store, or an emptied one whose clock is behind: all that is in it is new.
            self._last_id = "0-0"
        self._store_ms = read.at_ms
        now = self._clock()
        for entry_id, fields in read.entries:
            self._last_id = entry_id.decode()
            if fields.get(b"p") != self.name.encode():
                parts = _parts(self._last_id)
                age_s = max(0, read.at_ms - parts[0]) / _MS
                self._adopt(fields.get(b"d", b""), now - age_s, is_new=parts > self._long_id)
                yield_control()

    def _adopt(self, data: bytes, at: float, *, is_new: bool) -> None:
        try:
            entry = read_entry(data, at=at)
        except ValueError as error:
            self._complain(error)
            return
        for mark in entry.marks:
            self._observer.marks.adopt(mark, self._health, now=self._clock())
        if entry.tallies:
            self._observer.add_others(entry.tallies, at, in_long=is_new)

    def _leave_long(self) -> None:
        """Once a minute one of the processes leaves the long windows for those to come."""
        now = self._clock()
        if now - self._long_at < LONG_EVERY_S:
            return
        self._long_at = now
        if self._hints.run(self._take_turn, False):
            self._long.leave(entry_id=self._last_id, at_ms=self._store_ms)

    def _take_turn(self, store: "redis.Redis") -> bool:
        turn_ms = int((LONG_EVERY_S - SHARE_S) * _MS)
        return bool(store.set(cache_key("traffic:turn"), self.name, nx=True, px=turn_ms))

    def _complain(self, error: ValueError) -> None:
        if not self._complained:
            self._complained = True
            log.warning("The hint store holds statistics that cannot be read: %s", error)


def _first_look(store: "redis.Redis") -> tuple[int, bytes | None]:
    pipe = store.pipeline(transaction=False)
    pipe.time()
    pipe.get(head_key())
    time_, long = pipe.execute()
    return _ms(time_), long


def _ms(time_: tuple[int, int]) -> int:
    return time_[0] * _MS + time_[1] // _MS


def _parts(entry_id: str) -> tuple[int, int]:
    """An entry's id as numbers, the first of them the store's milliseconds. Raises `ValueError`."""
    ms, _, number = entry_id.partition("-")
    return int(ms), int(number or 0)


# --- Probes ---------------------------------------------------------------------------------------


def probe_key(endpoint: int) -> str:
    """Who holds it sends the probe."""
    return f"{cache_key('probe')}:{endpoint}"


def may_probe(endpoint: int, patience: Patience | None = None) -> bool:
    """Whether this process may send a half-open endpoint its probe: one of all processes may.

    Asked once per probe, when a plan is about to begin with one; without a store, always.
    """
    if shared_cache().run(lambda store: _take_probe(store, endpoint), True, patience=patience):
        observing.observer().marks.probing.add(endpoint)
        return True
    return False


def give_probe_back(endpoint: int) -> None:
    """The request that was to send it is done with it. The other processes may send one as soon as
    this one has told them what it met."""
    process.health().abandon_probe(endpoint)
    observing.observer().marks.end_probe(endpoint)


def _take_probe(store: "redis.Redis", endpoint: int) -> bool:
    return bool(store.set(probe_key(endpoint), 1, nx=True, px=int(process.PROBE_S * _MS)))


# --- The process's own ----------------------------------------------------------------------------


@cache
def sharing() -> Sharing:
    """This process's own."""
    return Sharing(observing.observer(), process.health(), shared_cache())


def _share() -> None:
    if shared_cache().configured:
        sharing().sync()
    else:
        own_history().keep()


_sharing: Final = Beside("sharing", _share, every_s=SHARE_S, log=log)


def start() -> None:
    """Tell and be told from now on; call after a fork."""
    observing.observer().collects = True
    _sharing.start()


def stop() -> None:
    """Tell what is left, and go."""
    _sharing.stop(within_s=STOP_S)
    observing.refresh()
    if shared_cache().configured:
        sharing().part()
    else:
        own_history().keep()
        own_history().write()
    shared_cache().close()
