"""Moving interns from one machine to another. What runs on one that is drained boots again
elsewhere once its disk can be fetched.

What ran on one that is gone (T21) is parked, so that it boots elsewhere with the disk that was
archived last. Its owner hears of it. A machine that comes back owns none of them any more.
"""

import logging
from datetime import datetime, timedelta
from typing import Final
from uuid import uuid4

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from interns import history, hosts, leases, operations
from interns.archives.service import latest_archive
from interns.archives.store import is_shared
from interns.chat import runs
from interns.errors import InternError, UpstreamUnavailable
from interns.job_queue import publish_operation
from interns.leases import NO_LEASE, InternLease
from interns.machine import MoveRule
from interns.models import Intern, InternHost, LeaseKind, Status, WorkspaceArchive

log = logging.getLogger("gateway.interns")
_BY: Final = "moving interns"
_UP: Final = (Status.QUEUED, Status.PROVISIONING, Status.RUNNING)
# What becomes of one that is up where no archive holds its disk.
_FAILS_BY: Final = {
    Status.QUEUED: MoveRule.PROVISION_LOST,
    Status.PROVISIONING: MoveRule.PROVISION_LOST,
    Status.RUNNING: MoveRule.RUNTIME_LOST,
}


def move_interns(*, now: datetime | None = None) -> int:
    """One round over all machines; how many interns took a step. What could not be begun is tried
    again in the next one."""
    now = now or hosts.read_database_time()
    return park_lost(now) + _stop_drained() + _resume_waiting(now)


def _stop_drained() -> int:
    if not is_shared():
        # Their disks could not follow them.
        return 0
    draining = InternHost.objects.filter(draining=True).values("name")
    rows = Intern.objects.filter(host__in=draining, status=Status.RUNNING, lease_id__isnull=True)
    count = 0
    for intern in rows.order_by("status_since"):
        why = f"its machine {intern.host} is drained"
        try:
            operations.begin_suspend(intern.pk, by=_BY, why=why, resumes=True)
        except InternError as error:
            log.warning("Intern %s stays on %s: %s", intern.pk, intern.host, error)
        else:
            count += 1
    return count


def _resume_waiting(now: datetime) -> int:
    """Have interns booted that stopped only to be moved, where there is a machine for them."""
    rows = Intern.objects.filter(
        status=Status.STOPPED, provision_requested=True, lease_id__isnull=True
    )
    takes = set(hosts.filter_living(now).filter(draining=False).values_list("name", flat=True))
    count = 0
    for intern in rows.select_related("workspace").order_by("status_since"):
        account_id = intern.workspace.account_id
        if hosts.place(intern, LeaseKind.PROVISION, account_id=account_id) not in takes:
            continue
        try:
            operations.provision(intern.pk, by=_BY)
        except InternError as error:
            log.warning("Intern %s is not resumed yet: %s", intern.pk, error)
        else:
            count += 1
    return count


# --- Machines that are gone -----------------------------------------------------------------------


def park_lost(now: datetime) -> int:
    """One round over the interns of machines that are gone; how many took a step."""
    gone = hosts.list_gone(now)
    count = 0
    for intern in _select_lost(gone, now):
        is_gone = intern.host in gone
        why = f"its machine {intern.host} {'is gone' if is_gone else 'does not take it up'}"
        if intern.status == Status.DESTROYING:
            count += _hand_teardown_on(intern, now)
        elif not (intern.booted_at and intern.disk_host in gone) or hosts.has_kept_disk(intern):
            count += park_intern(intern, why, now=now)
        else:
            count += _fail(intern, f"host_lost: {why}, and no archive holds its disk", now)
    return count


def _select_lost(gone: list[str], now: datetime) -> list[Intern]:
    """Also those that nobody has begun for a whole term while others could. They are on a machine
    that was never heard of, or has no worker for them."""
    lost = Q(host__in=gone, status__in=(*_UP, Status.DESTROYING))
    living = set(hosts.filter_living(now).values_list("name", flat=True))
    unread = hosts.list_unread(living)
    if living:
        since = now - timedelta(seconds=settings.INTERN_HOST_SECONDS)
        overdue = Q(picked_at__isnull=True, operation_since__lte=since)
        is_new = Q(status=Status.QUEUED, booted_at__isnull=True)
        lost |= overdue & is_new & ~Q(host__in=InternHost.objects.values("name"))
        if unread != living:
            waits = Q(status__in=(Status.QUEUED, Status.PROVISIONING, Status.DESTROYING))
            lost |= overdue & waits & Q(host__in=unread)
    rows = Intern.objects.filter(lost).select_related("workspace").order_by("status_since")
    # Of a machine that is there, those whose disk is only there wait for it.
    return [each for each in rows if each.host not in unread or hosts.can_move(each)]


def park_intern(intern: Intern, why: str, *, now: datetime) -> bool:
    """Have an intern stopped whose machine ran it, to be booted wherever there is a place; one that
    was being suspended stays stopped. Whether it still was as it was read."""
    resumes = intern.lease_kind != LeaseKind.SUSPEND or intern.provision_requested
    with transaction.atomic():
        if not _end(intern, now, status=Status.STOPPED, reason=why, resumes=resumes):
            return False
        move = (MoveRule.HOST_LOST, intern.status, Status.STOPPED)
        history.record_move(intern, *move, by=_BY, why=why, at=now)
        if intern.booted_at is not None and intern.disk_host in hosts.list_gone(now):
            _record_loss(intern, latest_archive(intern.pk), now)
    log.warning("Intern %s is parked: %s", intern.pk, why)
    return True


def _fail(intern: Intern, failure: str, now: datetime) -> bool:
    with transaction.atomic():
        if not _end(intern, now, status=Status.FAILED, failure=failure):
            return False
        move = (_FAILS_BY[Status(intern.status)], intern.status, Status.FAILED)
        history.record_move(intern, *move, by=_BY, why=failure, at=now)
    log.error("Intern %s: %s", intern.pk, failure)
    return True


def _end(
    intern: Intern,
    now: datetime,
    *,
    status: str,
    reason: str = "",
    failure: str | None = None,
    resumes: bool = False,
) -> bool:
    """Move the row as it was read, and end what it held: the former holder of its lease writes no
    more.
    """
    as_read = Intern.objects.filter(
        pk=intern.pk,
        status=intern.status,
        host=intern.host,
        lease_id=intern.lease_id,
        boot_id=intern.boot_id,
    )
    moved = as_read.update(
        **NO_LEASE,
        status=status,
        status_since=now,
        status_reason=reason,
        last_failure_message=failure,
        progress_step=None,
        provision_requested=resumes,
        failed_probes=0,
        updated_at=now,
    )
    if moved:
        runs.close_all(intern.pk, "run_ended", now=now)
    return bool(moved)


def _hand_teardown_on(intern: Intern, now: datetime) -> bool:
    """Where nothing is needed of the machine that is gone, another one takes the intern down; else
    the teardown waits for it."""
    host = hosts.place(
        intern,
        LeaseKind.DELETE,
        account_id=intern.workspace.account_id,
        acknowledged=intern.acknowledge_workspace_loss,
    )
    if host == intern.host or intern.lease_id is None or intern.operation_id is None:
        return False
    lease = InternLease(intern.pk, uuid4(), intern.operation_id, LeaseKind.DELETE, host)
    as_read = Intern.objects.filter(pk=intern.pk, lease_id=intern.lease_id)
    if not as_read.update(
        lease_id=lease.lease_id,
        host=host,
        lease_expires_at=now + leases.lease_term(),
        lease_attempt=0,
        picked_at=None,
    ):
        return False
    try:
        publish_operation(lease)
    except UpstreamUnavailable:
        # The new machine's reaper publishes it once the lease has expired.
        log.warning("The teardown of intern %s waits for the queue", intern.pk)
    return True


def record_restore(
    intern: Intern, archive: WorkspaceArchive, lease: InternLease, *, by: str
) -> None:
    """Write down what a boot on another machine found on its disk."""
    made = f"{archive.created_at:%Y-%m-%d %H:%M} (UTC)"
    with transaction.atomic():
        leases.write(lease)
        why = f"the disk that was on {intern.disk_host}, as archived at {made}"
        history.record_note(intern, why, by=by)
        if archive.boot_id != intern.boot_id:
            _record_loss(intern, archive, archive.created_at)


def _record_loss(intern: Intern, archive: WorkspaceArchive | None, at: datetime) -> None:
    """For its owner, once for each boot that was lost."""
    kept = f"as they were archived at {archive.created_at:%Y-%m-%d %H:%M} (UTC)" if archive else ""
    history.record_intern_event(
        "intern.host_lost",
        intern,
        key=f"{intern.pk}:{intern.boot_id}",
        what="lost its machine",
        text=f"The machine {intern.disk_host} of intern {intern.name} is gone. The intern boots on "
        f"another one, with its files {kept}; what it wrote since is on the machine that is gone.",
        data={
            "host": intern.disk_host,
            "archived_at": archive.created_at.isoformat() if archive else None,
        },
        at=at,
    )
