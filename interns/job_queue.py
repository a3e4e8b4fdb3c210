"""Telling the workers, in a bounded time. A message only says which row to look at.

A broker that is frozen holds a publisher for half a minute and more, so a thread beside waits for
it. A publish that was given up may still arrive: its message finds nothing to do.
"""

import logging
import threading
from typing import Final
from uuid import UUID

from django.conf import settings

from gateway.environment.interns import JOBS_QUEUE, name_host_queue
from interns.errors import UpstreamUnavailable
from interns.leases import InternLease
from interns.models import LeaseKind
from interns.spans import trace_publishing

log = logging.getLogger("gateway.interns")
CONTROL_QUEUE: Final = "intern-control"
# By name: the tasks are further up.
_TASKS: Final = {
    LeaseKind.PROVISION: ("interns.tasks.provision", JOBS_QUEUE),
    LeaseKind.SUSPEND: ("interns.tasks.suspend", CONTROL_QUEUE),
    LeaseKind.DELETE: ("interns.tasks.tear_down", JOBS_QUEUE),
}


class _Publishing(threading.Thread):
    """One publish on a connection of its own: one that is stuck harms nobody after it."""

    def __init__(self, lease: InternLease, headers: dict[str, str]) -> None:
        super().__init__(daemon=True, name="publish")
        # Importing it names the settings for every process that this one starts. For a command it
        # takes a good part of the time that a publish has.
        from gateway.celery import app

        self._app = app
        self._lease = lease
        self._headers = headers
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self._publish()
        except Exception as error:  # noqa: BLE001 - Whatever it is, nothing was published.
            self.error = error

    def _publish(self) -> None:
        app, bound = self._app, settings.INTERN_PUBLISH_SECONDS
        task, queue = _TASKS[LeaseKind(self._lease.kind)]
        timeouts = {"socket_timeout": bound, "socket_connect_timeout": bound}
        options = timeouts if settings.REDIS_URL else {}
        with app.connection_for_write(transport_options=options) as connection:
            app.send_task(
                task,
                serialize_lease(self._lease),
                connection=connection,
                queue=name_host_queue(queue, self._lease.host),
                retry=False,
                headers=self._headers,
            )


def publish_operation(lease: InternLease) -> None:
    """Tell the workers of an operation. Raises `UpstreamUnavailable` within a second."""
    with trace_publishing(lease) as headers:
        sending = _Publishing(lease, headers)
        sending.start()
        sending.join(settings.INTERN_PUBLISH_SECONDS)
        if sending.is_alive():
            log.warning("The queue says nothing: %s of intern %s", lease.kind, lease.intern_id)
            raise UpstreamUnavailable
        if sending.error is not None:
            log.warning("The queue cannot be reached: %s", sending.error)
            raise UpstreamUnavailable from sending.error


def serialize_lease(lease: InternLease) -> tuple[str, str, str, str]:
    """What a message says of an operation."""
    return str(lease.intern_id), str(lease.lease_id), str(lease.operation_id), lease.kind


def parse_lease(intern_id: str, lease_id: str, operation_id: str, kind: str) -> InternLease:
    """What a message said. It came to the machine that it was meant for."""
    ids = UUID(intern_id), UUID(lease_id), UUID(operation_id)
    return InternLease(*ids, kind, settings.INTERN_HOST)
