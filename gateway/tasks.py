"""What every Celery worker does besides its tasks. It shows `/readyz` that it lives, measures its
tasks, and does not outlive the supervisor that started it."""

import os
import signal
import threading
import time
from contextvars import ContextVar
from typing import Any, Final

from celery import current_app
from celery.signals import (
    beat_init,
    before_task_publish,
    heartbeat_sent,
    task_postrun,
    task_prerun,
    worker_init,
    worker_process_shutdown,
    worker_ready,
    worker_shutdown,
)

from gateway.env import SUPERVISED
from gateway.health import note_beat, note_worker
from gateway.metrics.families import Counter, Histogram
from gateway.metrics.files import is_enabled, leave

_LOOK_S = 0.5
# The signal that came with the supervisor's death has had its chance by then.
_ORPHAN_S = 4.0

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


@worker_ready.connect
@heartbeat_sent.connect
def show_life(**_: object) -> None:
    """Every two seconds, from the worker's main process."""
    note_worker(current_app.amqp.queues.consume_from)


@beat_init.connect
def watch_beat(**_: object) -> None:
    before_task_publish.connect(show_beat)


def show_beat(**_: object) -> None:
    note_beat()


@worker_init.connect
def watch_supervisor(**_: object) -> None:
    """With the broker gone as well, a worker was seen to miss the signal and to retry for good."""
    supervisor = os.getppid()

    def end_with_supervisor() -> None:
        while os.getppid() == supervisor:
            time.sleep(_LOOK_S)
        time.sleep(_ORPHAN_S)
        # It leads a group of its own, which holds its pool.
        os.killpg(os.getpgrp(), signal.SIGKILL)

    if os.environ.get(SUPERVISED):
        threading.Thread(target=end_with_supervisor, daemon=True).start()


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
