"""The Celery application of worker and beat. A task message only says "look now"."""

import os
from typing import Any

from celery import Celery, signals
from django.conf import settings
from kombu.transport import TRANSPORT_ALIASES, redis

from gateway.environment.interns import name_host_queue
from gateway.home import home, private_folder
from gateway.logs import worker_lines


class Channel(redis.Channel):
    def close(self) -> None:
        """Close also where the broker has died.

        kombu 5.7 gives up at once if it still waits for a message then, and Celery, which closes
        again after the channel's address is forgotten, dies of an `AttributeError`.
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
worker_lines.connect(app)
_SPANS_STOP_S = 1.0


def _send_last_spans(**_: object) -> None:
    from gateway.tracing.process import stop_sender

    stop_sender(_SPANS_STOP_S)


def _add_queues(instance: Any, **_: Any) -> None:
    """A worker of the first queue of destinations takes from the others in turn, one of interns
    from its machine's own queues, so that the command is the same everywhere."""
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


# Celery knows its receivers by weak references.
signals.celeryd_after_setup.connect(_add_queues, weak=False)
signals.worker_process_shutdown.connect(_send_last_spans, weak=False)
signals.worker_shutdown.connect(_send_last_spans, weak=False)
