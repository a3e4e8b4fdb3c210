"""The answer to a scrape: what processes wrote, and what is read for it from the database, the
queue and the disk."""

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, NamedTuple

import gevent
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector

from gateway.database.db import under_gevent
from gateway.eventloop import run_in_thread
from gateway.metrics.families import ScrapedGauge
from gateway.metrics.files import list_files, lock_folder, sweep_dead_processes

log = logging.getLogger("gateway.metrics")

# What was read is good for this long, so that many who scrape cost the database no more than one.
READ_EVERY_S: Final = 10.0
# A scrape does not wait longer for it, and shows what was read before, up to this age.
READ_S: Final = 2.0
STALE_S: Final = 60.0
_RENDER_EVERY_S: Final = 1.0


class Reading(NamedTuple):
    """One number of a family that is read when somebody asks. `values` are those of the labels."""

    family: ScrapedGauge
    value: float
    values: tuple[str, ...] = ()


Read = Callable[[], Iterable[Reading]]
SOURCE_UP: Final = ScrapedGauge(
    "gateway_metrics_source_up",
    "Whether what a scrape reads from a source was there in time.",
    "source",
)


class _Source:
    """Something that is read at most every ten seconds, by one greenlet at a time."""

    def __init__(self, name: str, read: Read) -> None:
        self.name = name
        self._read = read
        self._readings: list[Reading] = []
        self._read_at = float("-inf")
        self._is_failing = False
        self.under_way: gevent.Greenlet | None = None

    def begin(self) -> gevent.Greenlet | None:
        """The greenlet that reads, where that is due."""
        if self.under_way is not None and not self.under_way.dead:
            return self.under_way
        if time.monotonic() - self._read_at < READ_EVERY_S:
            return None
        self.under_way = gevent.spawn(self.refresh)
        return self.under_way

    def refresh(self) -> None:
        try:
            self._readings = list(self._read())
        except Exception as error:  # noqa: BLE001 - Whatever broke, the other numbers are answered.
            if not self._is_failing:
                log.warning("Metrics of %s cannot be read: %s", self.name, error)
            self._is_failing = True
        else:
            self._read_at = time.monotonic()
            self._is_failing = False

    def list_readings(self) -> Iterator[Reading]:
        age_s = time.monotonic() - self._read_at
        yield Reading(SOURCE_UP, float(age_s < READ_EVERY_S + READ_S), (self.name,))
        if age_s < STALE_S:
            yield from self._readings


_sources: dict[str, _Source] = {}


def register_source(name: str, read: Read) -> None:
    """Have `read` called for scrapes, at most every ten seconds and in one process of a gateway."""
    _sources[name] = _Source(name, read)


class _Collected:
    """What the library writes out."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = sorted(metrics, key=lambda metric: metric.name)

    def collect(self) -> Iterable[Metric]:
        return self._metrics


class Renderer:
    """Answers scrapes. Those that come within a second get the same numbers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rendered: dict[str, tuple[float, bytes]] = {}

    def render(self, accept: str) -> tuple[bytes, str]:
        """The text in the format that `accept` prefers, and its content type."""
        encode, content_type = choose_encoder(accept)
        with self._lock:
            at, text = self._rendered.get(content_type, (float("-inf"), b""))
            if time.monotonic() - at > _RENDER_EVERY_S:
                if under_gevent():
                    begun = [source.begin() for source in _sources.values()]
                    gevent.joinall([each for each in begun if each is not None], timeout=READ_S)
                else:
                    for source in _sources.values():
                        source.refresh()
                readings = [each for source in _sources.values() for each in source.list_readings()]
                # Beside the event loop: it takes some milliseconds for a thousand series.
                text = run_in_thread(partial(_write_text, encode, readings))
                self._rendered = {content_type: (time.monotonic(), text)}
        return text, content_type


renderer: Final = Renderer()


def _write_text(encode: Callable[[_Collected], bytes], readings: list[Reading]) -> bytes:
    sweep_dead_processes()
    with lock_folder(shared=True) as _:
        metrics = [*MultiProcessCollector.merge(list_files())]  # type: ignore[no-untyped-call]  # Untyped.
    by_family: dict[ScrapedGauge, list[Reading]] = defaultdict(list)
    for reading in readings:
        by_family[reading.family].append(reading)
    for family, own in by_family.items():
        metric = GaugeMetricFamily(family.name, family.text, labels=family.labels)
        for reading in own:
            metric.add_metric(reading.values, reading.value)
        metrics.append(metric)
    return encode(_Collected(metrics))
