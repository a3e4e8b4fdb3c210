"""What Celery's processes log: births and deaths, and a broker that went and came back."""

import atexit
import logging
import os
from typing import Any

from celery import Celery, bootsteps, signals
from django.db.backends.signals import connection_created

from gateway.logs.setup import configure
from gateway.outages import database, queue

log = logging.getLogger("gateway.worker")


class QueueAnswers(bootsteps.StartStopStep):
    """Begun each time a worker has reached the broker."""

    requires = ("celery.worker.consumer.connection:Connection",)

    def start(self, parent: object) -> None:
        queue.recover()


def connect(app: Celery) -> None:
    """Have the processes of this application say what becomes of them."""
    app.steps["consumer"].add(QueueAnswers)
    for signal, receiver in (
        (signals.setup_logging, _configure),
        (signals.worker_ready, _report_worker),
        (signals.worker_shutdown, _report_worker_end),
        (signals.worker_process_init, _report_process),
        (signals.worker_process_shutdown, _report_process_end),
        (signals.beat_init, _report_beat),
        (signals.after_task_publish, _note_queue),
    ):
        signal.connect(receiver)


def _configure(**options: object) -> None:
    """`--loglevel` and its like have no say: all lines are of one form."""
    configure()
    # The shared cache and the queue are one store here, of which the queue tells.
    logging.getLogger("gateway.hints").setLevel(logging.ERROR)
    connection_created.connect(_note_database)


def _report_worker(sender: Any, **more: Any) -> None:
    log.info("Worker %s started", sender.hostname)


def _report_worker_end(sender: Any, **more: Any) -> None:
    log.info("Worker %s stopped", sender.hostname)


def _report_process(**more: object) -> None:
    log.info("Worker process %d began", os.getpid())


def _report_process_end(pid: int, exitcode: int, **more: object) -> None:
    log.info("Worker process %d ended with status %d", pid, exitcode)


def _report_beat(**more: object) -> None:
    log.info("Beat started")
    atexit.register(log.info, "Beat stopped")


def _note_queue(**more: object) -> None:
    queue.recover()


def _note_database(**more: object) -> None:
    """Connections of the pool have been looked at before they are given out."""
    database.recover()
