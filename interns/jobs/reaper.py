"""What becomes of operations whose worker was lost (T12, T20): done again once, then given up.

What no worker ever took up only waits, and is told of again.
"""

import logging
from datetime import UTC, datetime
from typing import Final, NamedTuple

from django.conf import settings
from django.db import transaction

from gateway.health import worked_queues
from interns import leases
from interns.errors import UpstreamUnavailable
from interns.history import REAPER
from interns.leases import Lease, LeaseLost
from interns.models import Intern, LeaseKind
from interns.publishing import JOBS_QUEUE, publish
from interns.releasing import release
from interns.runtime.driver import Driver, RuntimeFailed

log = logging.getLogger("gateway.interns")
_LOST: Final = "operation_lost: the worker was lost twice"
_WORKERS: Final = (LeaseKind.PROVISION, LeaseKind.DELETE)


class Reaped(NamedTuple):
    """How many operations were handed on, given up, and left to wait for a free worker."""

    again: int = 0
    given_up: int = 0
    waiting: int = 0

    def plus(self, other: "Reaped") -> "Reaped":
        return Reaped(*(mine + more for mine, more in zip(self, other, strict=True)))


def reap(driver: Driver, *, now: datetime | None = None) -> Reaped:
    """One round over all leases that have expired."""
    now = now or datetime.now(UTC)
    found = Reaped()
    rows = Intern.objects.filter(lease_id__isnull=False, lease_expires_at__lte=now)
    nobody_works = worked_queues()[JOBS_QUEUE] is False
    for intern in rows.select_related("workspace").order_by("lease_expires_at"):
        if intern.picked_at is None and intern.lease_kind in _WORKERS:
            found = found.plus(_asked_again(intern, now, nobody_works=nobody_works))
        elif intern.lease_attempt == 0:
            found = found.plus(Reaped(again=int(_again(intern, now, counts=True))))
        else:
            found = found.plus(Reaped(given_up=int(_give_up(intern, driver, now))))
    return found


def publish_waiting() -> int:
    """Tell of every operation again that no worker has taken up; its first message may be lost.

    Where it is not, the later one finds nothing to do. Returns how many could be told of.
    """
    rows = Intern.objects.filter(lease_id__isnull=False, picked_at__isnull=True)
    count = 0
    for intern in rows.order_by("operation_since"):
        try:
            publish(_lease_of(intern))
        except UpstreamUnavailable:
            break
        count += 1
    return count


def _lease_of(intern: Intern) -> Lease:
    assert intern.lease_id is not None
    assert intern.operation_id is not None
    return Lease(intern.pk, intern.lease_id, intern.operation_id, intern.lease_kind)


def _asked_again(intern: Intern, now: datetime, *, nobody_works: bool) -> Reaped:
    """A worker that comes asks for all that waits, so until then messages would only pile up."""
    if nobody_works or _waits_its_turn(intern, now):
        return Reaped(waiting=int(leases.extend(intern, now=now)))
    return Reaped(again=int(_again(intern, now, counts=False)))


def _waits_its_turn(intern: Intern, now: datetime) -> bool:
    """Whether it was never begun because workers have their hands full with earlier ones.

    Some of them may be between two jobs this very moment, so half of them do. A later one that was
    begun shows that the message is lost: the queue keeps their order.
    """
    busy = Intern.objects.filter(
        lease_kind__in=_WORKERS, picked_at__isnull=False, lease_expires_at__gt=now
    )
    since = list(busy.values_list("operation_since", flat=True))
    assert intern.operation_since is not None
    if any(each is not None and each > intern.operation_since for each in since):
        return False
    return len(since) >= max(1, settings.INTERN_JOBS // 2)


def _again(intern: Intern, now: datetime, *, counts: bool) -> bool:
    lease = leases.hand_on(intern, now=now, counts=counts)
    if lease is None:
        return False
    try:
        publish(lease)
    except UpstreamUnavailable:
        leases.take_back(lease, now=now, counts=counts)
        return False
    log.warning("Intern %s: %s is done again", intern.pk, lease.kind)
    return True


def _give_up(intern: Intern, driver: Driver, now: datetime) -> bool:
    lease = _lease_of(intern)
    try:
        with transaction.atomic():
            if not leases.expired(intern, now).select_for_update().exists():
                return False
            release(lease, by=REAPER, why=_LOST)
    except LeaseLost:
        return False
    log.error("Intern %s: %s was lost twice", intern.pk, lease.kind)
    if lease.kind == LeaseKind.PROVISION:
        _stop(lease, driver)
    return True


def _stop(lease: Lease, driver: Driver) -> None:
    """What the lost workers may have begun. A later boot has another id."""
    try:
        driver.stop(lease.intern_id, boot_id=lease.operation_id)
    except RuntimeFailed as failure:
        log.error("Intern %s: what was begun does not stop: %s", lease.intern_id, failure)
