"""Endpoints' history for charts: what they did in every five minutes, as rows.

With a hint store the schedule reads it off the stream that all processes share, once a stretch is
over; what has happened since is in each web process's memory. Without one, each web process adds
what it has seen itself, twice a minute.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Any, Final

import redis
from django.conf import settings
from django.db import DatabaseError, InterfaceError, transaction

from gateway.database.db import Lane, run_queries
from gateway.shared_cache import SharedCache, shared_cache
from routing.catalogue.models import Endpoint
from routing.selection.measurements.endpoint_counter import EndpointCounter
from routing.selection.measurements.histogram import percentiles
from routing.statistics.five_minutes import EndpointSample
from routing.statistics.observing import Observer, observer
from routing.statistics.shared_form import PAGE_ENTRIES, read_entry, stream

log = logging.getLogger("routing.statistics")

STRETCH_S: Final = 300
# Entries of a stretch may come that much after its end, and count for the next one then.
_SETTLED_S: Final = 10.0
_OWN_EVERY_S: Final = 30.0
_READ_LIMIT_S: Final = 1.0
_BATCH_ROWS: Final = 500
_Entry = tuple[bytes, dict[bytes, bytes]]
_FIELDS: Final = (
    *("calls", "errors", "rate_limited"),
    *("first_token_p50_ms", "first_token_p90_ms", "throughput_tps"),
)


def record_shared(now: float, *, store: SharedCache | None = None) -> int:
    """Write the last two stretches that are over and not written yet; returns the rows made. `now`
    is in Unix seconds. Done twice it is done once."""
    made = 0
    last = int((now - _SETTLED_S) // STRETCH_S) - 1
    for number in (last - 1, last):
        if EndpointSample.objects.filter(started_at=_moment(number)).exists():
            continue
        tallies = _shared_tallies(store or shared_cache(), number)
        if tallies:
            rows = _existing(samples_of(tallies, number))
            EndpointSample.objects.bulk_create(rows, batch_size=_BATCH_ROWS, ignore_conflicts=True)
            made += len(rows)
    return made


def forget_old(now: float) -> int:
    """Delete what is older than ROUTER_HISTORY_DAYS; returns how many rows."""
    oldest = _moment(int(now // STRETCH_S)) - timedelta(days=settings.ROUTER_HISTORY_DAYS)
    deleted, _ = EndpointSample.objects.filter(started_at__lt=oldest).delete()
    return deleted


def samples_of(tallies: Mapping[int, EndpointCounter], number: int) -> list[EndpointSample]:
    """A row for each endpoint of a stretch, not saved."""
    started_at = _moment(number)
    return [_sample(endpoint, tally, started_at) for endpoint, tally in tallies.items()]


def add_samples(samples: list[EndpointSample]) -> None:
    """Add to the rows that are there: counts add up, the rest is averaged by calls."""
    samples = sorted(_existing(samples), key=lambda sample: sample.endpoint_id)
    empty = [EndpointSample(endpoint_id=s.endpoint_id, started_at=s.started_at) for s in samples]
    with transaction.atomic():
        EndpointSample.objects.bulk_create(empty, batch_size=_BATCH_ROWS, ignore_conflicts=True)
        for start in range(0, len(samples), _BATCH_ROWS):
            _add_batch(samples[start : start + _BATCH_ROWS])


def newest_samples(endpoints: Iterable[int], now: float) -> list[EndpointSample]:
    """What all processes told of these endpoints in the statistics window up to now, for the five
    minutes that no row may hold yet. Empty without a hint store: rows are half a minute old there.
    """
    if not shared_cache().configured:
        return []
    started_at = datetime.fromtimestamp(now - STRETCH_S, UTC)
    observer().figures()
    totals = observer().recent.totals
    return [_sample(each, totals[each], started_at) for each in endpoints if each in totals]


class OwnHistory:
    """What one process has to write down where there is no hint store. `clock` is Unix seconds."""

    def __init__(self, observer: Observer, *, clock: Callable[[], float] = time.time) -> None:
        self._observer = observer
        self._clock = clock
        self._number = 0
        self._written_at = 0.0
        self._tallies: dict[int, EndpointCounter] = {}

    def keep(self) -> None:
        """Take over what was counted; write it at the end of a stretch, and before that so that
        charts know the last minute."""
        now = self._clock()
        number = int(now // STRETCH_S)
        if number != self._number or now - self._written_at >= _OWN_EVERY_S:
            self.write()
            self._number = number
        _add_all(self._tallies, self._observer.take().items())

    def write(self) -> None:
        """Add the stretch so far to the rows; a database that is gone costs the stretch."""
        tallies, self._tallies = self._tallies, {}
        self._written_at = self._clock()
        if not tallies:
            return
        samples, now = samples_of(tallies, self._number), self._clock()
        try:
            run_queries(Lane.OPERATOR, lambda: add_samples(samples))
            run_queries(Lane.OPERATOR, lambda: forget_old(now))
        except (DatabaseError, InterfaceError) as error:
            log.warning("A part of the endpoints' history was not written: %s", error)


@cache
def own_history() -> OwnHistory:
    """This process's own."""
    return OwnHistory(observer())


def _shared_tallies(store: SharedCache, number: int) -> dict[int, EndpointCounter] | None:
    """What all processes counted in a stretch; None where the store does not tell."""
    tallies: dict[int, EndpointCounter] = {}
    after = f"{number * STRETCH_S * 1000}-0"
    end_ms = (number + 1) * STRETCH_S * 1000 - 1
    while True:
        read: Callable[[redis.Redis], list[_Entry] | None]
        read = partial(_page, after=after, end_ms=end_ms)
        page = store.run(read, None, limit_s=_READ_LIMIT_S, knocks=True)
        if page is None:
            return None
        for _, fields in page:
            _add_all(tallies, _pairs(fields.get(b"d", b"")))
        if len(page) < PAGE_ENTRIES:
            return tallies
        after = f"({page[-1][0].decode()}"


def _page(store: "redis.Redis", after: str, end_ms: int) -> list[_Entry]:
    found: Any = store.xrange(stream(), min=after, max=str(end_ms), count=PAGE_ENTRIES)
    return list(found)


def _pairs(data: bytes) -> list[tuple[int, EndpointCounter]]:
    try:
        return read_entry(data, at=0.0).tallies
    except ValueError:
        return []


def _add_all(
    tallies: dict[int, EndpointCounter], pairs: Iterable[tuple[int, EndpointCounter]]
) -> None:
    for endpoint, tally in pairs:
        known = tallies.get(endpoint)
        if known is None:
            tallies[endpoint] = tally
        else:
            known.add(tally)


def _sample(endpoint: int, tally: EndpointCounter, started_at: datetime) -> EndpointSample:
    """Also of few calls: a chart shows what there was."""
    times = tally.first_token or tally.whole
    latency = percentiles(times) if times else None
    speed = percentiles(tally.speed, high_is_good=True) if tally.speed else None
    return EndpointSample(
        endpoint_id=endpoint,
        started_at=started_at,
        calls=tally.calls,
        errors=tally.failed,
        rate_limited=tally.limited,
        first_token_p50_ms=latency and round(latency.p50 * 1000),
        first_token_p90_ms=latency and round(latency.p90 * 1000),
        throughput_tps=speed and round(speed.p50, 1),
    )


def _existing(samples: list[EndpointSample]) -> list[EndpointSample]:
    """Without endpoints that are gone from the catalogue meanwhile."""
    known: set[int] = set()
    pks = [sample.endpoint_id for sample in samples]
    for start in range(0, len(pks), _BATCH_ROWS):
        part = pks[start : start + _BATCH_ROWS]
        known.update(Endpoint.objects.filter(pk__in=part).values_list("pk", flat=True))
    return [sample for sample in samples if sample.endpoint_id in known]


def _add_batch(samples: list[EndpointSample]) -> None:
    wanted = {sample.endpoint_id: sample for sample in samples}
    rows = EndpointSample.objects.select_for_update().order_by("pk")
    rows = rows.filter(endpoint_id__in=wanted, started_at=samples[0].started_at)
    changed = list(rows)
    for row in changed:
        _add(row, wanted[row.endpoint_id])
    EndpointSample.objects.bulk_update(changed, _FIELDS, batch_size=_BATCH_ROWS)


def _add(row: EndpointSample, more: EndpointSample) -> None:
    for name, value in _averages(row, more):
        setattr(row, name, value)
    row.calls += more.calls
    row.errors += more.errors
    row.rate_limited += more.rate_limited


def _averages(row: EndpointSample, more: EndpointSample) -> Iterator[tuple[str, float | None]]:
    for name in _FIELDS[3:]:
        known, new = getattr(row, name), getattr(more, name)
        if known is None or new is None:
            yield name, new if known is None else known
        else:
            mean = (known * row.calls + new * more.calls) / max(1, row.calls + more.calls)
            yield name, round(mean, 1) if name == "throughput_tps" else round(mean)


def _moment(number: int) -> datetime:
    return datetime.fromtimestamp(number * STRETCH_S, UTC)
