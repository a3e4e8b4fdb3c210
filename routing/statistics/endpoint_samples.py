"""Endpoints' history for charts: a row for each endpoint and five minutes.

With a shared cache a scheduled task reads each finished stretch off the shared stream; newer events
are in each web process's memory. Without one, each web process adds its own counts twice a minute.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from operator import methodcaller
from typing import Final

from django.conf import settings
from django.db import DatabaseError, InterfaceError, transaction

from gateway.database.db import Lane, run_queries
from gateway.shared_cache import SharedCache, shared_cache
from routing.catalogue.models import Endpoint
from routing.selection.measurements.endpoint_counter import EndpointCounter, merge_counters
from routing.selection.measurements.histogram import percentiles
from routing.statistics.models import EndpointSample
from routing.statistics.observation import Observer, observer
from routing.statistics.stream_format import PAGE_ENTRIES, read_entry, stream_key

log = logging.getLogger("routing.statistics")

STRETCH_S: Final = 300
# Entries may arrive that much after the end of their stretch; they count for the next one then.
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
    """Write the last two finished stretches where they have no rows yet; returns the rows made.

    `now` is in Unix seconds. Running it again changes nothing.
    """
    made = 0
    last = int((now - _SETTLED_S) // STRETCH_S) - 1
    for number in (last - 1, last):
        if EndpointSample.objects.filter(started_at=_start_of(number)).exists():
            continue
        counters = _read_shared_counters(store or shared_cache(), number)
        if counters:
            rows = _drop_unknown_endpoints(build_samples(counters, number))
            EndpointSample.objects.bulk_create(rows, batch_size=_BATCH_ROWS, ignore_conflicts=True)
            made += len(rows)
    return made


def forget_old(now: float) -> int:
    """Delete what is older than ROUTER_HISTORY_DAYS; returns how many rows."""
    oldest = _start_of(int(now // STRETCH_S)) - timedelta(days=settings.ROUTER_HISTORY_DAYS)
    deleted, _ = EndpointSample.objects.filter(started_at__lt=oldest).delete()
    return deleted


def build_samples(counters: Mapping[int, EndpointCounter], number: int) -> list[EndpointSample]:
    """Build an unsaved row for each endpoint of a stretch."""
    started_at = _start_of(number)
    return [_build_sample(endpoint, counter, started_at) for endpoint, counter in counters.items()]


def add_samples(samples: list[EndpointSample]) -> None:
    """Add to existing rows: counts are summed, the rest is averaged weighted by calls."""
    samples = sorted(_drop_unknown_endpoints(samples), key=lambda sample: sample.endpoint_id)
    empty = [EndpointSample(endpoint_id=s.endpoint_id, started_at=s.started_at) for s in samples]
    with transaction.atomic():
        EndpointSample.objects.bulk_create(empty, batch_size=_BATCH_ROWS, ignore_conflicts=True)
        for start in range(0, len(samples), _BATCH_ROWS):
            more = {each.endpoint_id: each for each in samples[start : start + _BATCH_ROWS]}
            rows = EndpointSample.objects.select_for_update().order_by("pk")
            own = rows.filter(endpoint_id__in=more, started_at=samples[start].started_at)
            changed = list(own)
            for row in changed:
                _add_sample(row, more[row.endpoint_id])
            EndpointSample.objects.bulk_update(changed, _FIELDS, batch_size=_BATCH_ROWS)


def build_newest_samples(endpoints: Iterable[int], now: float) -> list[EndpointSample]:
    """Build unsaved rows of these endpoints from the statistics window, for the five minutes that
    may have no row yet. Empty without a shared cache: rows are half a minute old there.
    """
    if not shared_cache().is_configured:
        return []
    started_at = datetime.fromtimestamp(now - STRETCH_S, UTC)
    observer().endpoint_stats()
    totals = observer().recent.totals
    return [_build_sample(each, totals[each], started_at) for each in endpoints if each in totals]


class LocalSamples:
    """One process's samples where there is no shared cache. `clock` gives Unix seconds."""

    def __init__(self, observer: Observer, *, clock: Callable[[], float] = time.time) -> None:
        self._observer = observer
        self._clock = clock
        self._number = 0
        self._written_at = 0.0
        self._counters: dict[int, EndpointCounter] = {}

    def collect(self) -> None:
        """Take over what was counted. It is written at the end of a stretch, and every half minute
        so that charts show the last minute."""
        now = self._clock()
        number = int(now // STRETCH_S)
        if number != self._number or now - self._written_at >= _OWN_EVERY_S:
            self.write()
            self._number = number
        merge_counters(self._counters, self._observer.take().items())

    def write(self) -> None:
        """Add the stretch so far to the rows; without a database it is lost."""
        counters, self._counters = self._counters, {}
        self._written_at = self._clock()
        if not counters:
            return
        samples, now = build_samples(counters, self._number), self._clock()
        try:
            run_queries(Lane.OPERATOR, lambda: add_samples(samples))
            run_queries(Lane.OPERATOR, lambda: forget_old(now))
        except (DatabaseError, InterfaceError) as error:
            log.warning("A part of the endpoints' history was not written: %s", error)


@cache
def local_samples() -> LocalSamples:
    """The one of this process."""
    return LocalSamples(observer())


def _read_shared_counters(store: SharedCache, number: int) -> dict[int, EndpointCounter] | None:
    """Read what all processes counted in a stretch; None where the store does not answer."""
    counters: dict[int, EndpointCounter] = {}
    after = f"{number * STRETCH_S * 1000}-0"
    end_ms = (number + 1) * STRETCH_S * 1000 - 1
    while True:
        read = methodcaller("xrange", stream_key(), after, str(end_ms), count=PAGE_ENTRIES)
        page: list[_Entry] | None
        page = store.run(read, None, limit_s=_READ_LIMIT_S, knocks=True)
        if page is None:
            return None
        for _, fields in page:
            try:
                entry = read_entry(fields.get(b"d", b""), at=0.0)
            except ValueError:
                continue
            merge_counters(counters, entry.counters)
        if len(page) < PAGE_ENTRIES:
            return counters
        after = f"({page[-1][0].decode()}"


def _build_sample(endpoint: int, counter: EndpointCounter, started_at: datetime) -> EndpointSample:
    """Build one row, also of few calls: a chart shows every call."""
    times = counter.first_token or counter.whole
    latency = percentiles(times) if times else None
    speed = percentiles(counter.speed, high_is_good=True) if counter.speed else None
    return EndpointSample(
        endpoint_id=endpoint,
        started_at=started_at,
        calls=counter.calls,
        errors=counter.failed,
        rate_limited=counter.limited,
        first_token_p50_ms=latency and round(latency.p50 * 1000),
        first_token_p90_ms=latency and round(latency.p90 * 1000),
        throughput_tps=speed and round(speed.p50, 1),
    )


def _drop_unknown_endpoints(samples: list[EndpointSample]) -> list[EndpointSample]:
    """Keep the samples of endpoints that the catalogue still has."""
    known: set[int] = set()
    pks = [sample.endpoint_id for sample in samples]
    for start in range(0, len(pks), _BATCH_ROWS):
        part = pks[start : start + _BATCH_ROWS]
        known.update(Endpoint.objects.filter(pk__in=part).values_list("pk", flat=True))
    return [sample for sample in samples if sample.endpoint_id in known]


def _add_sample(row: EndpointSample, more: EndpointSample) -> None:
    for name in _FIELDS[3:]:
        known, new = getattr(row, name), getattr(more, name)
        if known is None:
            setattr(row, name, new)
        elif new is not None:
            mean = (known * row.calls + new * more.calls) / max(1, row.calls + more.calls)
            setattr(row, name, round(mean, 1) if name == "throughput_tps" else round(mean))
    row.calls += more.calls
    row.errors += more.errors
    row.rate_limited += more.rate_limited


def _start_of(number: int) -> datetime:
    return datetime.fromtimestamp(number * STRETCH_S, UTC)
