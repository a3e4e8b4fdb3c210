"""Metrics of the queue and of the disk, read when somebody scrapes, and of what is lost."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from django.conf import settings

from gateway.eventloop import run_in_thread
from gateway.health import QUEUES, find_worked_queues, read_beat_time
from gateway.metrics.families import Counter, ScrapedGauge
from gateway.metrics.scrape import Reading, register_source
from gateway.shared_cache import shared_cache
from gateway.tracing.process import call_on_loss

QUEUE: Final = ScrapedGauge(
    "gateway_queue_depth", "Messages that wait for Celery's workers.", "queue"
)
WORKED: Final = ScrapedGauge(
    "gateway_queue_worked",
    "1 where a living worker reads the queue; not there without Redis.",
    "queue",
)
DISK_FREE: Final = ScrapedGauge(
    "gateway_disk_free_bytes",
    "Room on the disk of `GATEWAY_HOME/interns`, or of `GATEWAY_HOME` where there is none.",
)
BEAT: Final = ScrapedGauge(
    "gateway_beat_timestamp_seconds", "When beat last sent a task, in seconds since 1970."
)
DISK_SIZE: Final = ScrapedGauge("gateway_disk_size_bytes", "Size of that disk.")

SPANS_LOST: Final = Counter(
    "gateway_spans_lost_total",
    "Spans that the collector of traces did not get: it was gone or slow, or the process ended.",
)


def register() -> None:
    register_source("queue", read_queue)
    register_source("disk", read_disk)
    register_source("beat", read_beat)
    call_on_loss(SPANS_LOST.add)


def read_queue() -> Iterator[Reading]:
    """How much waits, by queue: lists in Redis, or files where that is the broker."""
    if shared_cache().is_configured:
        depths = shared_cache().run(lambda store: [store.llen(queue) for queue in QUEUES], None)
        if depths is None:
            raise OSError("the queue does not answer")
    else:
        folder: Path = settings.GATEWAY_HOME / "queue"
        depths = [sum(1 for _ in folder.glob(f"*.{queue}.msg")) for queue in QUEUES]
    for queue, depth in zip(QUEUES, depths, strict=True):
        yield Reading(QUEUE, depth, (queue,))
    for queue, is_worked in find_worked_queues().items():
        if is_worked is not None:
            yield Reading(WORKED, float(is_worked), (queue,))


def read_disk() -> Iterator[Reading]:
    # In containers it is a volume of its own.
    interns: Path = settings.GATEWAY_HOME / "interns"

    def measure() -> Any:
        return shutil.disk_usage(interns if interns.is_dir() else settings.GATEWAY_HOME)

    # A disk that hangs must not hold the event loop.
    usage = run_in_thread(measure)
    yield Reading(DISK_FREE, usage.free)
    yield Reading(DISK_SIZE, usage.total)


def read_beat() -> Iterator[Reading]:
    """Nothing where beat never ran, or its store was lost since."""
    at = read_beat_time()
    if at is not None:
        yield Reading(BEAT, at)
