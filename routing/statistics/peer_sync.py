"""Sharing endpoint statistics and health between processes, through a stream in the shared cache.

Every two seconds a process appends what it counted and met since, and reads what the others did. A
new process starts from the last minutes of the stream, and from the long windows that one process
publishes once a minute. No request waits for this. Without a store, or while it does not answer,
each process goes by what it has seen itself.
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
from routing.statistics import observation
from routing.statistics.endpoint_samples import local_samples
from routing.statistics.long_windows import LIMIT_S, LongWindows, head_key, read_head
from routing.statistics.observation import Observer
from routing.statistics.parked_credentials import ParkedCredentials, parked_credentials
from routing.statistics.periodic import PeriodicWork
from routing.statistics.stream_format import (
    PAGE_ENTRIES,
    STREAM_KEEPS_S,
    append_entry,
    read_entry,
    serialize_entry,
    stream_key,
)

log = logging.getLogger("routing.statistics")

SHARE_S: Final = 2.0
LONG_EVERY_S: Final = 60.0
STOP_S: Final = 0.3
_MS: Final = 1000


class _StreamRead(NamedTuple):
    """An answer of the store: its time, and entries as `(id, fields)`."""

    at_ms: int
    entries: list[tuple[bytes, dict[bytes, bytes]]]


class PeerSync:
    """One process's side of the stream. One greenlet calls `sync` every two seconds."""

    def __init__(
        self,
        observer: Observer,
        health: EndpointHealth,
        store: SharedCache,
        *,
        parked: ParkedCredentials | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._parked = ParkedCredentials() if parked is None else parked
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
        self._logged = False
        self._synced_at: float | None = None

    def age_s(self) -> float | None:
        """Seconds since everything of the others was read; None before the first time."""
        return None if self._synced_at is None else self._clock() - self._synced_at

    def sync(self) -> bool:
        """Publish and receive once; whether the store answered."""
        if not (self._joined or self._join()):
            # Nobody can receive what was counted here.
            self._take_own_entries()
            return False
        if not self._read_all(self._take_own_entries()):
            return False
        now = self._clock()
        if now - self._long_at >= LONG_EVERY_S:
            # Once a minute one of the processes publishes the long windows for new ones.
            self._long_at = now
            key, turn_ms = cache_key("traffic:turn"), int((LONG_EVERY_S - SHARE_S) * _MS)
            if self._hints.run(
                lambda store: bool(store.set(key, self.name, nx=True, px=turn_ms)), False
            ):
                self._long.publish(entry_id=self._last_id, at_ms=self._store_ms)
        return True

    def receive(self) -> bool:
        """Receive once and publish nothing, for commands; whether everything was read."""
        return (self._joined or self._join()) and self._read_all([])

    def send_rest(self) -> None:
        """Publish what is left, within `STOP_S`."""
        if self._joined:
            entries = self._take_own_entries()
            self._hints.run(lambda store: self._exchange(store, entries), None, limit_s=STOP_S)

    # --- Joining --------------------------------------------------------------------------------

    def _join(self) -> bool:
        """Read the store's time and the long windows; entries are read afterwards."""
        head = self._hints.run(_read_time_and_head, None, limit_s=LIMIT_S, knocks=True)
        if head is None:
            return False
        at_ms, long = head
        self._store_ms = at_ms
        kept_s: float = STREAM_KEEPS_S
        if long is not None and self._load_long_windows(long, at_ms):
            kept_s = settings.ROUTER_STATS_WINDOW_SECONDS
        since_ms = at_ms - int(kept_s * _MS)
        if self._long_id[0]:
            since_ms = min(since_ms, self._long_id[0])
        self._last_id = f"{max(0, since_ms)}-0"
        self._joined = True
        return True

    def _load_long_windows(self, data: bytes, at_ms: int) -> bool:
        now = self._clock()
        try:
            head = read_head(data)
            long_id = _parse_entry_id(head.entry_id)
            if not self._long.load(head, then=now - max(0, at_ms - head.at_ms) / _MS):
                return False
        except ValueError as error:
            self._log_unreadable(error)
            return False
        self._long_id = long_id
        return True

    # --- Each time ------------------------------------------------------------------------------

    def _take_own_entries(self) -> list[bytes]:
        """Take what was counted and met here since the last exchange. If the store does not take
        it, it is lost: sent again it could count twice."""
        now, events = self._clock(), self._observer.health_events.take()
        pairs = list(self._observer.take().items())
        parked, doubts = self._parked.take(), self._parked.take_doubts()
        entries = []
        if events or parked or doubts:
            entries.append(serialize_entry((), events, now=now, credentials=parked, doubts=doubts))
        for start in range(0, len(pairs), PIECE_ENDPOINTS):
            entries.append(serialize_entry(pairs[start : start + PIECE_ENDPOINTS], (), now=now))
            yield_control()
        return entries

    def _read_all(self, entries: list[bytes]) -> bool:
        """Append these entries, then read those of others; whether the store answered."""
        exchange: Callable[[redis.Redis], _StreamRead | None]
        while True:
            exchange = partial(self._exchange, entries=entries)
            read = self._hints.run(exchange, None, limit_s=LIMIT_S, knocks=True)
            if read is None:
                return False
            if read.at_ms < _parse_entry_id(self._last_id)[0] - _MS:
                # Another store, or an emptied one whose clock is behind: all its entries are new.
                self._last_id = "0-0"
            self._store_ms = read.at_ms
            now = self._clock()
            for entry_id, fields in read.entries:
                self._last_id = entry_id.decode()
                if fields.get(b"p") != self.name.encode():
                    parts = _parse_entry_id(self._last_id)
                    at = now - max(0, read.at_ms - parts[0]) / _MS
                    self._apply_entry(fields.get(b"d", b""), at, is_new=parts > self._long_id)
                    yield_control()
            if len(read.entries) < PAGE_ENTRIES:
                self._synced_at = self._clock()
                return True
            entries = []

    def _exchange(self, store: "redis.Redis", entries: Sequence[bytes]) -> _StreamRead:
        pipe = store.pipeline(transaction=False)
        pipe.time()
        for data in entries:
            append_entry(pipe, data, name=self.name, store_ms=self._store_ms)
        probed = list(self._observer.health_events.probed)
        if probed:
            pipe.delete(*map(probe_key, probed))
        pipe.xrange(stream_key(), min=f"({self._last_id}", count=PAGE_ENTRIES)
        replies = pipe.execute()
        # Only now: what could not be sent is sent the next time.
        del self._observer.health_events.probed[: len(probed)]
        return _StreamRead(_ms(replies[0]), replies[-1])

    def _apply_entry(self, data: bytes, at: float, *, is_new: bool) -> None:
        try:
            entry = read_entry(data, at=at)
        except ValueError as error:
            self._log_unreadable(error)
            return
        for event in entry.events:
            self._observer.health_events.apply(event, self._health, now=self._clock())
        for parking in entry.credentials:
            self._parked.apply(parking)
        for key, doubt in entry.doubts:
            self._parked.apply_doubt(key, doubt)
        if entry.counters:
            self._observer.add_others(entry.counters, at, in_long=is_new)

    def _log_unreadable(self, error: ValueError) -> None:
        if not self._logged:
            self._logged = True
            log.warning("The hint store holds statistics that cannot be read: %s", error)


def _read_time_and_head(store: "redis.Redis") -> tuple[int, bytes | None]:
    pipe = store.pipeline(transaction=False)
    pipe.time()
    pipe.get(head_key())
    time_, long = pipe.execute()
    return _ms(time_), long


def _ms(time_: tuple[int, int]) -> int:
    return time_[0] * _MS + time_[1] // _MS


def _parse_entry_id(entry_id: str) -> tuple[int, int]:
    """An entry's id as numbers, the first of them the store's milliseconds. Raises `ValueError`."""
    ms, _, number = entry_id.partition("-")
    return int(ms), int(number or 0)


# --- Probes ---------------------------------------------------------------------------------------


def probe_key(endpoint: int) -> str:
    """The process that sets this key sends the probe."""
    return f"{cache_key('probe')}:{endpoint}"


def may_probe(endpoint: int, patience: Patience | None = None) -> bool:
    """Whether this process may probe a half-open endpoint, as only one of all processes may.

    Called once per probe, when a plan is about to begin with one. Without a store, always True.
    """
    key, probe_ms = probe_key(endpoint), int(process.PROBE_S * _MS)
    if shared_cache().run(
        lambda store: bool(store.set(key, 1, nx=True, px=probe_ms)), True, patience=patience
    ):
        observation.observer().health_events.probing.add(endpoint)
        return True
    return False


def release_probe(endpoint: int) -> None:
    """End the probe of a request. Other processes may probe once this one has published what it
    met."""
    process.health().abandon_probe(endpoint)
    observation.observer().health_events.end_probe(endpoint)


# --- The process's own ----------------------------------------------------------------------------


@cache
def peer_sync() -> PeerSync:
    """The one of this process."""
    return PeerSync(
        observation.observer(), process.health(), shared_cache(), parked=parked_credentials()
    )


def _share() -> None:
    if shared_cache().is_configured:
        peer_sync().sync()
    else:
        local_samples().collect()


_exchanging: Final = PeriodicWork("sharing", _share, every_s=SHARE_S, log=log)


def start() -> None:
    """Exchange from now on; call after a fork."""
    observation.observer().collects = True
    _exchanging.start()


def stop() -> None:
    """Publish what is left, and end."""
    _exchanging.stop(within_s=STOP_S)
    observation.refresh()
    if shared_cache().is_configured:
        peer_sync().send_rest()
    else:
        local_samples().collect()
        local_samples().write()
    shared_cache().close()
