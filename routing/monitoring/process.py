"""What a web process has under way, written down once a second for whoever scrapes; and its start
and stop."""

import logging
import platform
from collections import Counter as Tally
from collections.abc import Callable, Collection
from typing import Final

from django.conf import settings

from gateway.http.body import memory
from gateway.http.errors import Unavailable
from gateway.limits.fair_queue import fair_queue
from gateway.metrics.families import Counter, Gauge, Histogram
from gateway.metrics.files import LabelValues, is_enabled, sweep_dead_processes
from gateway.metrics.host import SPANS_LOST
from gateway.metrics.listener import listener
from routing.catalogue.snapshot import catalogue
from routing.entities.entries import Snapshot
from routing.ledger.writer import ledger
from routing.monitoring.requests import RequestMetrics
from routing.reports.failed_requests import FailureWriter
from routing.reports.report import publisher
from routing.serving.request import process
from routing.statistics.peer_sync import peer_sync
from routing.statistics.periodic import PeriodicWork

log = logging.getLogger("gateway.metrics")
EVERY_S: Final = 1.0

IN_PROGRESS: Final = Gauge("gateway_requests_in_progress", "Requests that have a slot now.")
WAITING: Final = Gauge(
    "gateway_requests_waiting",
    "Those of them that wait for a place at an endpoint that has none free.",
)
STREAMS: Final = Gauge("gateway_streams_in_progress", "Streamed answers under way.")
SLOTS: Final = Gauge(
    "gateway_request_slots", "Requests that may be in progress, over all web processes."
)
BODY_MEMORY: Final = Gauge(
    "gateway_body_memory_bytes", "What large bodies of requests in progress take."
)
BODY_MEMORY_MAX: Final = Gauge(
    "gateway_body_memory_limit_bytes", "What they may take, over all web processes."
)
LEDGER_QUEUE: Final = Gauge(
    "gateway_ledger_queue_depth", "Holds and charges that wait for the ledger writers."
)
LEDGER_BATCH: Final = Histogram(
    "gateway_ledger_batch_size",
    "Orders that one commit of a ledger writer carried.",
    buckets=(1, 2, 5, 10, 20, 50, 100, 200),
)
LEDGER_COMMIT: Final = Histogram(
    "gateway_ledger_commit_seconds",
    "Time that a ledger writer took for one batch, commit included.",
    buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0),
)
STATISTICS_AGE: Final = Gauge(
    "gateway_statistics_age_seconds",
    "Age of what the slowest web process knows of the others; not there without Redis.",
    mode="livemax",
)
ENDPOINTS: Final = Gauge(
    "gateway_endpoints", "Endpoints in the catalogue.", "provider", mode="livemax"
)
UNHEALTHY: Final = Gauge(
    "gateway_endpoints_unhealthy",
    "Endpoints that are tried last, by state: `unstable` after an outage, `parked` after a 429. "
    "`half_open`: the next request tries again. `failing`: most tries fail.",
    *("provider", "state"),
    mode="livemax",
)
ANSWER_AGE: Final = Gauge(
    "gateway_provider_answer_age_seconds",
    "Time since a provider last answered a request; not there before its first answer.",
    "provider",
    mode="livemin",
)
CATALOGUE_VERSION: Final = Gauge(
    "gateway_catalogue_version", "Newest catalogue that a web process serves.", mode="livemax"
)
CATALOGUE_VERSION_MIN: Final = Gauge(
    "gateway_catalogue_version_min", "Oldest catalogue that one serves.", mode="livemin"
)
BUILD: Final = Gauge(
    "gateway_build_info",
    "1, with the versions of the gateway and of Python.",
    *("version", "python"),
    mode="livemax",
)
WEB_PROCESSES: Final = Gauge("gateway_web_processes", "Web processes that live.")
REPORTS_DROPPED: Final = Counter(
    "gateway_reports_dropped_total",
    "Reports of ended requests that metrics, logs and records never saw, because too many queued.",
)
FAILURES_LOST: Final = Counter(
    "gateway_failed_requests_lost_total",
    "Failed requests that are not on record: the database was gone for too long, or refused them.",
)
_STATES: Final = ("unstable", "parked", "half_open", "failing")

_providers = LabelValues("provider")


class ProcessMetrics:
    """Writes down what this process has under way. `failures` is its writer of failed requests."""

    def __init__(self, failures: FailureWriter) -> None:
        self._failures = failures
        self._dropped = self._lost = 0
        self._providers: set[str] = set()
        self._unhealthy: set[tuple[str, str]] = set()

    def write(self) -> None:
        WEB_PROCESSES.set(1)
        BUILD.set(1, settings.GATEWAY_VERSION, platform.python_version())
        IN_PROGRESS.set(process.slots.taken)
        WAITING.set(len(fair_queue()))
        STREAMS.set(process.slots.streams)
        SLOTS.set(settings.ROUTER_MAX_CONCURRENCY)
        BODY_MEMORY.set(memory.taken_bytes)
        BODY_MEMORY_MAX.set(settings.ROUTER_BODY_MEMORY_BYTES)
        LEDGER_QUEUE.set(ledger.queue_depth)
        commits = [ledger.commits.popleft() for _ in range(len(ledger.commits))]
        if commits:
            LEDGER_BATCH.observe_all([size for size, _ in commits])
            LEDGER_COMMIT.observe_all([took_s for _, took_s in commits])
        dropped, lost = publisher.dropped, self._failures.lost
        REPORTS_DROPPED.add(dropped - self._dropped)
        FAILURES_LOST.add(lost - self._lost)
        self._dropped, self._lost = dropped, lost
        # Code that loses some adds them; it is there before, so that the first are an increase.
        SPANS_LOST.add(0)
        if (age_s := peer_sync().age_s()) is not None:
            STATISTICS_AGE.set(age_s)
        if (snapshot := _find_snapshot()) is not None:
            self._write_catalogue(snapshot)

    def _write_catalogue(self, snapshot: Snapshot) -> None:
        CATALOGUE_VERSION.set(snapshot.version)
        CATALOGUE_VERSION_MIN.set(snapshot.version)
        providers, endpoints = snapshot.derive(_list_providers), snapshot.derive(_count_endpoints)
        # Those that left the catalogue become 0.
        for provider in self._providers | endpoints.keys():
            ENDPOINTS.set(endpoints[provider], provider)
        self._providers |= endpoints.keys()
        health, now = process.health(), process.now()
        answered_at: dict[str, float] = {}
        for key, at in health.answered_at.items():
            if (name := providers.get(key)) is not None:
                answered_at[name] = max(at, answered_at.get(name, at))
        for provider, at in answered_at.items():
            ANSWER_AGE.set(max(0.0, now - at), provider)
        standing = health.snapshot(now)
        tally = Tally(
            (providers[key], state)
            for state in _STATES
            for key in getattr(standing, state)
            if key in providers
        )
        # Those that are well again become 0.
        for place in self._unhealthy | tally.keys():
            UNHEALTHY.set(tally[place], *place)
        self._unhealthy |= tally.keys()


def _list_providers(snapshot: Snapshot) -> dict[int, str]:
    """The provider of each endpoint, as in labels."""
    return {
        endpoint.pk: _providers.limit(endpoint.provider.name)
        for model in snapshot.models.values()
        for endpoint in model.endpoints
    }


def _count_endpoints(snapshot: Snapshot) -> Tally[str]:
    """Those of each provider."""
    return Tally(snapshot.derive(_list_providers).values())


def _find_snapshot() -> Snapshot | None:
    try:
        return catalogue.current()
    except Unavailable:
        return None


def _list_models() -> Collection[str]:
    snapshot = _find_snapshot()
    return () if snapshot is None else snapshot.models


_stops: Final[list[Callable[[float], None]]] = []


def start(failures: FailureWriter) -> None:
    """Measure from now on and let metrics be scraped, where anybody can; call after a fork."""
    if not is_enabled():
        return
    sweep_dead_processes(at_once=True)
    measures, requests = ProcessMetrics(failures), RequestMetrics(_list_models)
    publisher.add_observer("metrics", requests.observe)

    def write() -> None:
        # What is under way needs no new series, for which a full disk has no room.
        measures.write()
        requests.write()

    writing = PeriodicWork("metrics", write, every_s=EVERY_S, log=log)
    writing.start()
    listener.start()

    def end(within_s: float) -> None:
        listener.stop()
        writing.stop(within_s=within_s)
        write()

    _stops.append(end)


def stop(within_s: float) -> None:
    """Write down the last numbers; what reads the files removes them."""
    while _stops:
        _stops.pop()(within_s)
