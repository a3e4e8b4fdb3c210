"""What Celery does with interns. A message says which row to look at, the row says what to do."""

import logging
import os
import socket
from datetime import UTC, datetime
from math import ceil
from typing import Any

from celery import bootsteps, shared_task
from celery.signals import worker_ready
from django.conf import settings
from django.db import DatabaseError, InterfaceError
from kombu.exceptions import OperationalError

from gateway.celery import app
from gateway.environment.interns import JOBS_QUEUE, name_host_queue
from interns import hosts
from interns.archives.service import delete_abandoned_spools, delete_expired_archives
from interns.archives.store import is_shared
from interns.chat.clock import CLOCK
from interns.chat.run_cleanup import delete_old_runs, expire_runs
from interns.creation import delete_expired_creations
from interns.job_queue import CONTROL_QUEUE, parse_lease
from interns.jobs import archiving, moving, prober, reaper, teardown
from interns.jobs import provision as provisioning
from interns.jobs.heartbeat import Heartbeat
from interns.jobs.reconcile import reconcile
from interns.runtime.driver import current_driver
from interns.spans import trace_job

log = logging.getLogger("gateway.interns")
_PATIENCE_S = 60


def _name_worker() -> str:
    return f"worker {os.getpid()} on {socket.gethostname()}"


# A job that keeps to its time is over before either. Where disks are fetched, that takes its own.
_FETCH_S = settings.INTERN_ARCHIVE_SECONDS if is_shared() else 0
_SOFT_LIMIT_S = ceil(settings.INTERN_PROVISION_SECONDS + _FETCH_S) + 5


@shared_task(bind=True, soft_time_limit=_SOFT_LIMIT_S, time_limit=_SOFT_LIMIT_S + _PATIENCE_S)
def provision(task: Any, intern_id: str, lease_id: str, operation_id: str, kind: str) -> bool:
    lease = parse_lease(intern_id, lease_id, operation_id, kind)
    with trace_job(lease, task.request.headers):
        return provisioning.provision(lease, current_driver(), by=_name_worker())


@shared_task(bind=True)
def tear_down(task: Any, intern_id: str, lease_id: str, operation_id: str, kind: str) -> bool:
    lease = parse_lease(intern_id, lease_id, operation_id, kind)
    with trace_job(lease, task.request.headers):
        return teardown.tear_down(lease, current_driver(), by=_name_worker())


@shared_task(bind=True)
def suspend(task: Any, intern_id: str, lease_id: str, operation_id: str, kind: str) -> bool:
    lease = parse_lease(intern_id, lease_id, operation_id, kind)
    with trace_job(lease, task.request.headers):
        was_done = teardown.suspend(lease, current_driver(), by=_name_worker())
    if was_done:
        _publish_archiving()
    return was_done


def _publish_archiving() -> None:
    """Have the disks that lie only here archived, where other machines could boot them."""
    if not hosts.keeps_archives():
        return
    queue = name_host_queue(JOBS_QUEUE, settings.INTERN_HOST)
    try:
        archive_disks.apply_async(queue=queue, retry=False)
    except OperationalError as error:
        # Reconciling asks again.
        log.warning("Disks are not archived yet, the broker is gone: %s", error)


@shared_task
def archive_disks() -> int:
    """After each suspension, and when runtimes are compared with rows."""
    return archiving.archive_disks(current_driver())


def _publish_to_others(task: Any, host: str, expires_s: float) -> None:
    """What beat asks for comes to one machine, which has the others do it too; they are named."""
    if host:
        return
    for other in hosts.list_other_hosts():
        queue = name_host_queue(CONTROL_QUEUE, other)
        try:
            task.apply_async((other,), queue=queue, expires=expires_s, retry=False)
        except OperationalError as error:
            log.warning("Machine %s is not told: %s", other, error)


@shared_task(bind=True)
def reap(task: Any, host: str = "") -> tuple[int, ...]:
    """Every `INTERN_REAPER_SECONDS`: operations that nobody carries out any more."""
    _publish_to_others(task, host, settings.INTERN_REAPER_SECONDS)
    return tuple(reaper.reap(current_driver()))


@shared_task
def move_interns() -> int:
    """Every `INTERN_REAPER_SECONDS`: interns that are to live on another machine."""
    return moving.move_interns()


@shared_task
def publish_waiting() -> int:
    """Whenever a worker has reached the broker."""
    try:
        return reaper.publish_waiting()
    except (DatabaseError, InterfaceError) as error:
        # A worker may come before the tables do; the reaper looks again.
        log.warning("Interns that wait cannot be looked up: %s", error)
        return 0


class RepublishWaiting(bootsteps.StartStopStep):
    """A worker that comes, or comes back, asks for all that waits. A broker that was gone has lost
    it, or keeps for an hour what the worker had taken and not begun."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def start(self, parent: Any) -> None:
        jobs, control = _name_own_queues()
        if {jobs, control}.isdisjoint(parent.app.amqp.queues.consume_from):
            return
        try:
            publish_waiting.apply_async(
                queue=control, expires=settings.INTERN_LEASE_SECONDS, retry=False
            )
        except OperationalError as error:
            log.warning("The broker is gone again: %s", error)


app.steps["consumer"].add(RepublishWaiting)


@worker_ready.connect
def begin_heartbeat(sender: Any, **_: object) -> None:
    """The worker that looks after what runs here tells that this machine is there."""
    if _name_own_queues()[1] in sender.app.amqp.queues.consume_from:
        Heartbeat(_publish_reconciling).start()


def _publish_reconciling() -> bool:
    """Have this machine's runtimes compared with rows: meanwhile others may have taken some over.
    Whether the message was sent."""
    try:
        reconcile_interns.apply_async(
            (settings.INTERN_HOST,), queue=_name_own_queues()[1], retry=False
        )
    except OperationalError as error:
        log.warning("Runtimes are not compared yet, the broker is gone: %s", error)
        return False
    return True


def _name_own_queues() -> tuple[str, str]:
    """Those of this machine's jobs, and of what must not wait for them."""
    host = settings.INTERN_HOST
    return name_host_queue(JOBS_QUEUE, host), name_host_queue(CONTROL_QUEUE, host)


@shared_task(bind=True)
def probe(task: Any, host: str = "") -> int:
    """Every `INTERN_PROBE_SECONDS`: are those that run well, and have they budget left."""
    _publish_to_others(task, host, settings.INTERN_PROBE_SECONDS)
    return prober.probe_all(current_driver())


@shared_task(bind=True)
def reconcile_interns(task: Any, host: str = "") -> bool:
    """Every `INTERN_RECONCILE_SECONDS`: runtimes against rows."""
    _publish_to_others(task, host, settings.INTERN_RECONCILE_SECONDS)
    _publish_archiving()
    archiving.remove_destroyed(current_driver())
    report = reconcile(current_driver())
    if not report.is_clean:
        log.error(
            "Interns and runtimes differed: leaked %s, lost %s, stuck %s",
            *(report.leaked, report.lost, report.stuck),
        )
    return report.is_clean


@shared_task
def forget_creations() -> int:
    """Every hour: requests that made an intern more than a day ago."""
    return delete_expired_creations(datetime.now(UTC))


# What is left is removed the next time.
@shared_task(name="interns.archives.tasks.forget_archives", soft_time_limit=600, time_limit=630)
def forget_archives() -> int:
    """Every hour: archives older than `INTERN_ARCHIVE_DAYS`, and unfinished ones."""
    delete_abandoned_spools()
    return delete_expired_archives(datetime.now(UTC))


@shared_task(bind=True, name="interns.chat.tasks.close_left_over_runs")
def close_left_over_runs(task: Any, host: str = "") -> None:
    """Every few seconds: runs whose process or caller is gone, and old ones."""
    _publish_to_others(task, host, settings.INTERN_REAPER_SECONDS)
    expire_runs(CLOCK.now(), driver=current_driver())
    delete_old_runs(CLOCK.now())
