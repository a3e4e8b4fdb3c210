"""What becomes of operations whose worker was lost (T12, T20): done again once, then given up.

What no worker ever took up only waits, and is published again.
"""

import logging
from datetime import UTC, datetime
from typing import Final, NamedTuple

from django.conf import settings
from django.db import transaction

from interns import hosts, leases
from interns.errors import UpstreamUnavailable
from interns.history import REAPER
from interns.job_queue import publish_operation
from interns.leases import LeaseLost
from interns.models import Intern, LeaseKind
from interns.operations import end_lost_operation
from interns.runtime.driver import Driver, RuntimeFailed

log = logging.getLogger("gateway.interns")
_LOST: Final = "operation_lost: the worker was lost twice"
_WORKERS: Final = (LeaseKind.PROVISION, LeaseKind.DELETE)


class ReapCounts(NamedTuple):
    """How many operations were handed on, given up, and left to wait for a free worker."""

    again: int = 0
    given_up: int = 0
    waiting: int = 0

    def add(self, other: "ReapCounts") -> "ReapCounts":
        return ReapCounts(*(mine + more for mine, more in zip(self, other, strict=True)))


def reap(driver: Driver, *, now: datetime | None = None) -> ReapCounts:
    """One round over this machine's leases that have expired."""
    if hosts.is_impostor():
        return ReapCounts()
    now = now or datetime.now(UTC)
    counts = ReapCounts()
    rows = Intern.objects.filter(
        lease_id__isnull=False, lease_expires_at__lte=now, host=settings.INTERN_HOST
    )
    nobody_works = bool(hosts.list_unread([settings.INTERN_HOST]))
    for intern in rows.select_related("workspace").order_by("lease_expires_at"):
        is_waiting = intern.picked_at is None and intern.lease_kind in _WORKERS
        # A worker that comes asks for all that waits: until then messages would only pile up.
        if is_waiting and (nobody_works or _is_behind_others(intern, now)):
            counts = counts.add(ReapCounts(waiting=int(leases.extend(intern, now=now))))
        elif is_waiting:
            counts = counts.add(ReapCounts(again=int(_hand_on(intern, now, counts=False))))
        elif intern.lease_attempt == 0:
            counts = counts.add(ReapCounts(again=int(_hand_on(intern, now, counts=True))))
        else:
            counts = counts.add(ReapCounts(given_up=int(_give_up(intern, driver, now))))
    return counts


def publish_waiting() -> int:
    """Tell of every operation again that no worker of this machine has taken up; its first message
    may be lost.

    Where it is not, the later one finds nothing to do. Returns how many could be published.
    """
    if hosts.is_impostor():
        return 0
    rows = Intern.objects.filter(
        lease_id__isnull=False, picked_at__isnull=True, host=settings.INTERN_HOST
    )
    count = 0
    for intern in rows.order_by("operation_since"):
        try:
            publish_operation(leases.current_lease(intern))
        except UpstreamUnavailable:
            break
        count += 1
    return count


def _is_behind_others(intern: Intern, now: datetime) -> bool:
    """Whether it was never begun because workers have their hands full with earlier ones.

    Some of them may be between two jobs this very moment, so half of them do. A later one that was
    begun shows that the message is lost: the queue keeps their order.
    """
    busy = Intern.objects.filter(
        lease_kind__in=_WORKERS,
        picked_at__isnull=False,
        lease_expires_at__gt=now,
        host=intern.host,
    )
    since = list(busy.values_list("operation_since", flat=True))
    assert intern.operation_since is not None
    if any(each is not None and each > intern.operation_since for each in since):
        return False
    return len(since) >= max(1, settings.INTERN_JOBS // 2)


def _hand_on(intern: Intern, now: datetime, *, counts: bool) -> bool:
    lease = leases.reissue(intern, now=now, counts=counts)
    if lease is None:
        return False
    try:
        publish_operation(lease)
    except UpstreamUnavailable:
        leases.undo_reissue(lease, now=now, counts=counts)
        return False
    log.warning("Intern %s: %s is done again", intern.pk, lease.kind)
    return True


def _give_up(intern: Intern, driver: Driver, now: datetime) -> bool:
    lease = leases.current_lease(intern)
    try:
        with transaction.atomic():
            if not leases.expired_rows(intern, now).select_for_update().exists():
                return False
            end_lost_operation(lease, by=REAPER, why=_LOST)
    except LeaseLost:
        return False
    log.error("Intern %s: %s was lost twice", intern.pk, lease.kind)
    if lease.kind == LeaseKind.PROVISION:
        # What the lost workers may have begun. A later boot has another id.
        try:
            driver.stop(lease.intern_id, boot_id=lease.operation_id)
        except RuntimeFailed as failure:
            log.error("Intern %s: what was begun does not stop: %s", lease.intern_id, failure)
    return True
