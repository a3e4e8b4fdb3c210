"""What every Celery worker does besides its tasks: it shows `/readyz` that it lives, and does not
outlive the supervisor that started it."""

import os
import signal
import threading
import time

from celery import current_app
from celery.signals import (
    beat_init,
    before_task_publish,
    heartbeat_sent,
    worker_init,
    worker_ready,
)

from gateway.env import SUPERVISED
from gateway.health import note_beat, note_worker
from gateway.metrics import tasks as _metrics  # noqa: F401 - Importing it listens to all tasks.

_LOOK_S = 0.5
# The signal that came with the supervisor's death has had its chance by then.
_ORPHAN_S = 4.0


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
    if os.environ.get(SUPERVISED):
        threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()


def _end_with(supervisor: int) -> None:
    while os.getppid() == supervisor:
        time.sleep(_LOOK_S)
    time.sleep(_ORPHAN_S)
    # It leads a group of its own, which holds its pool.
    os.killpg(os.getpgrp(), signal.SIGKILL)
