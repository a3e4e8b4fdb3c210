"""The Celery application of worker and beat, and what their processes log: births and deaths, and a
broker that went and came back. A task message only says "look now"."""

import atexit
import logging
import os
from typing import Any

from celery import Celery, bootsteps, signals
from django.conf import settings
from django.db.backends.signals import connection_created
from kombu.transport import TRANSPORT_ALIASES, redis

from gateway.database.outages import database, queue
from gateway.environment.interns import name_host_queue
from gateway.home import home, private_folder
from gateway.logs.setup import configure
from gateway.outbound.cluster_connection import ClusterConnection, TlsClusterConnection

log = logging.getLogger("gateway.worker")


# kombu's prefix leaves out the one command by which it asks whether a queue is there.
redis.GlobalKeyPrefixMixin.PREFIXED_SIMPLE_COMMANDS.append("EXISTS")


class Channel(redis.Channel):
    def _connparams(self, asynchronous: bool = False) -> dict[str, Any]:
        # kombu's types know neither of them.
        kombu_channel: Any = super()
        client: Any = self.connection.client
        nodes = client.transport_options.get("cluster_nodes")
        if nodes is not None:
            self.connection_class = ClusterConnection
            self.connection_class_ssl = TlsClusterConnection
        options: dict[str, Any] = kombu_channel._connparams(asynchronous)
        return options if nodes is None else {**options, "nodes": nodes}

    def close(self) -> None:
        """Close also where the broker has died.

        kombu 5.7 gives up at once if it still waits for a message then. Celery closes again after
        the channel's address is forgotten, and dies of an `AttributeError`.
        """
        try:
            super().close()
        except redis.Transport.connection_errors:
            super().close()


class Transport(redis.Transport):
    """kombu's own, for workers that outlive their broker."""

    Channel = Channel


os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")
# Django's checks read every page and path, which takes a worker longer than all else it loads.
# Migrating, which comes before any worker, has made them.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

# Beat keeps its schedule in the first, the broker without Redis its messages in the second; each
# process may be the first of its home.
for folder in ("run", "queue"):
    private_folder(home() / folder)

# Every `redis` and `rediss` URL of this process uses it.
_TRANSPORT = f"{__name__}:{Transport.__qualname__}"
TRANSPORT_ALIASES.update(redis=_TRANSPORT, rediss=_TRANSPORT)
app = Celery("gateway")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
_SPANS_STOP_S = 1.0


class QueueAnswers(bootsteps.StartStopStep):
    """Begun each time a worker has reached the broker."""

    requires = ("celery.worker.consumer.connection:Connection",)

    def start(self, parent: object) -> None:
        queue.recover()


app.steps["consumer"].add(QueueAnswers)


@signals.celeryd_after_setup.connect
def add_queues(instance: Any, **_: Any) -> None:
    """A worker of the first queue of destinations takes from the others in turn, one of interns
    from its machine's own queues. So the command is the same everywhere."""
    first, *others = settings.DESTINATION_QUEUES
    queues = instance.app.amqp.queues
    if first in queues.consume_from:
        for name in others:
            queues.select_add(name)
    if "intern-control" in queues.consume_from:
        queues.select_add(settings.INTERN_TICKS_QUEUE)
    for name in ("interns", "intern-control"):
        own = name_host_queue(name, settings.INTERN_HOST)
        if name in queues.consume_from and own != name:
            queues.select_add(own)
            queues.deselect(name)


@signals.worker_process_shutdown.connect
@signals.worker_shutdown.connect
def send_last_spans(**_: object) -> None:
    from gateway.tracing.process import stop_sender

    stop_sender(_SPANS_STOP_S)


@signals.setup_logging.connect
def configure_logs(**_: object) -> None:
    """`--loglevel` and its like have no say: all lines are of one form."""
    configure()
    # The shared cache and the queue are one store here, of which the queue tells.
    logging.getLogger("gateway.hints").setLevel(logging.ERROR)
    connection_created.connect(note_database)


@signals.worker_ready.connect
def log_worker(sender: Any, **_: Any) -> None:
    log.info("Worker %s started", sender.hostname)


@signals.worker_shutdown.connect
def log_worker_end(sender: Any, **_: Any) -> None:
    log.info("Worker %s stopped", sender.hostname)


@signals.worker_process_init.connect
def log_process(**_: object) -> None:
    log.info("Worker process %d began", os.getpid())


@signals.worker_process_shutdown.connect
def log_process_end(pid: int, exitcode: int, **_: object) -> None:
    log.info("Worker process %d ended with status %d", pid, exitcode)


@signals.beat_init.connect
def log_beat(**_: object) -> None:
    log.info("Beat started")
    atexit.register(log.info, "Beat stopped")


@signals.after_task_publish.connect
def note_queue(**_: object) -> None:
    queue.recover()


def note_database(**_: object) -> None:
    """Connections of the pool have been looked at before they are given out."""
    database.recover()
