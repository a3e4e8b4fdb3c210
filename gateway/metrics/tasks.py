"""Metrics of Celery's workers. A worker's pool processes write files like any other."""

import time
from contextvars import ContextVar
from typing import Any, Final

from celery.signals import (
    task_postrun,
    task_prerun,
    worker_process_shutdown,
    worker_shutdown,
)

from gateway.metrics.families import Counter, Histogram
from gateway.metrics.files import is_enabled, leave

TASKS: Final = Counter(
    "gateway_tasks_total",
    "Tasks of workers that ended, by outcome: `success`, `failure`, `retry` and so on.",
    *("task", "outcome"),
)
TASK_DURATION: Final = Histogram(
    "gateway_task_duration_seconds",
    "Time that tasks took, such as `interns.tasks.provision`.",
    "task",
    buckets=(0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0),
)
# A pool of threads runs several at once, each in a context of its own.
_begun_at: ContextVar[float] = ContextVar("task_begun_at")


@task_prerun.connect
def note_begin(**_: object) -> None:
    _begun_at.set(time.monotonic())


@task_postrun.connect
def count_task(task: Any = None, state: str | None = None, **_: Any) -> None:
    name, begun_at = task.name, _begun_at.get(None)
    TASKS.add(1, name, (state or "unknown").lower())
    if begun_at is not None:
        TASK_DURATION.observe(time.monotonic() - begun_at, name)


@worker_process_shutdown.connect
@worker_shutdown.connect
def forget_process(**_: object) -> None:
    """The process ends: its numbers go to those of the dead."""
    if is_enabled():
        leave()
