"""Leases: the right of one operation to write to an intern, and how it is taken and freed.

Each write names the fencing token `lease_id`; a write that moves no row came too late. The token
changes when a worker picks the operation up and when the reaper reissues it. So a second delivery
of a message, or a worker that lost its lease, moves nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q, QuerySet

from gateway.http.jsonio import JsonObject
from interns import history
from interns.machine import ACCEPTED, LEADS_TO, MoveRule
from interns.models import Intern, LeaseKind, Status

NO_LEASE: Final[JsonObject] = {
    "lease_id": None,
    "lease_kind": "",
    "lease_expires_at": None,
    "lease_attempt": 0,
    "operation_id": None,
    "operation_since": None,
    "picked_at": None,
}
_BEGINS: Final[JsonObject] = {"last_failure_message": None, "status_reason": ""}


class LeaseLost(Exception):
    """Another worker holds the intern, or nobody does; nothing was written."""


@dataclass(frozen=True, slots=True)
class InternLease:
    """The right to write for an operation, which the machine `host` carries out. `operation_id`
    outlives hand-overs."""

    intern_id: UUID
    lease_id: UUID
    operation_id: UUID
    kind: str
    host: str

    def rows(self) -> QuerySet[Intern]:
        """The intern, while this is its lease."""
        return Intern.objects.filter(pk=self.intern_id, lease_id=self.lease_id)


def current_lease(intern: Intern) -> InternLease:
    """The lease of the row, which is held or has expired."""
    assert intern.lease_id is not None
    assert intern.operation_id is not None
    return InternLease(
        intern.pk, intern.lease_id, intern.operation_id, intern.lease_kind, intern.host
    )


def lease_term() -> timedelta:
    return timedelta(seconds=settings.INTERN_LEASE_SECONDS)


def free(now: datetime) -> Q:
    """Interns that nothing holds."""
    return Q(lease_id__isnull=True) | Q(lease_expires_at__lte=now)


def is_held(intern: Intern, now: datetime) -> bool:
    return intern.lease_expires_at is not None and intern.lease_expires_at > now


def is_pickup_overdue(intern: Intern, now: datetime) -> bool:
    """Whether an operation was asked for a whole term ago and no worker has it."""
    if intern.operation_since is None or intern.picked_at is not None:
        return False
    return now >= intern.operation_since + lease_term()


def take(
    intern: Intern,
    kind: LeaseKind,
    *,
    by: str,
    now: datetime,
    why: str = "",
    rule: MoveRule | None = None,
    host: str | None = None,
    **columns: object,
) -> InternLease | None:
    """Begin an operation on an intern that is as it was read; None where it is so no more.

    One conditional update, and the history row of what it does to the status. `host` names the
    machine that is to carry it out where that is another one than before.
    """
    lease = InternLease(intern.pk, uuid4(), uuid4(), kind, host or intern.host)
    target = LEADS_TO[kind]
    fields = {**begin_columns(lease, now), **columns}
    if target != intern.status:
        fields |= {**_BEGINS, "status": target, "status_since": now}
    if kind == LeaseKind.PROVISION:
        fields |= {"progress_step": 1, "provision_requested": False}
    as_read = Intern.objects.filter(free(now), pk=intern.pk, status=intern.status)
    with transaction.atomic():
        if not as_read.filter(updated_at=intern.updated_at).update(**fields, updated_at=now):
            return None
        details: JsonObject = {"by": by, "at": now, "operation_id": lease.operation_id}
        if target == intern.status:
            history.record_note(intern, why or f"{kind.label} asked for", **details)
        else:
            rule = rule or ACCEPTED[kind, intern.status]
            history.record_move(intern, rule, intern.status, target, why=why, **details)
    return lease


def begin_columns(lease: InternLease, now: datetime) -> JsonObject:
    """The columns of a lease that has just been taken."""
    return {
        "lease_id": lease.lease_id,
        "lease_kind": lease.kind,
        "host": lease.host,
        "lease_expires_at": now + lease_term(),
        "lease_attempt": 0,
        "operation_id": lease.operation_id,
        "operation_since": now,
        "picked_at": None,
    }


def undo_take(lease: InternLease, before: Intern, *, by: str, why: str) -> bool:
    """Undo an operation whose message was not published: the row is as in `before` again.

    False where a worker picked it up all the same; then it goes on.
    """
    restored = (
        *("status", "status_since", "status_reason", "last_failure_message", "progress_step"),
        "host",
    )
    with transaction.atomic():
        intern = _lock_intern(lease)
        if intern is None:
            return False
        fields = {name: getattr(before, name) for name in (*restored, "provision_requested")}
        untouched = lease.rows().filter(picked_at__isnull=True)
        if not untouched.update(**fields, **NO_LEASE, acknowledge_workspace_loss=False):
            return False
        history.record_undo(intern, intern.status, before.status, by=by, why=why)
    return True


def pick_up(lease: InternLease, *, by: str, now: datetime) -> tuple[Intern, InternLease] | None:
    """Take an operation over from its message. None for everyone but the first, and on every
    machine but the one that is to carry it out."""
    mine = InternLease(
        lease.intern_id, uuid4(), lease.operation_id, lease.kind, settings.INTERN_HOST
    )
    with transaction.atomic():
        intern = _lock_intern(lease)
        if intern is None or intern.host != mine.host:
            return None
        fields: JsonObject = {"lease_id": mine.lease_id, "lease_expires_at": now + lease_term()}
        fields["picked_at"] = now
        if intern.status == Status.QUEUED:
            fields |= {"status": Status.PROVISIONING, "status_since": now}
        if lease.kind == LeaseKind.PROVISION:
            fields["progress_step"] = 1
        if not lease.rows().update(**fields, updated_at=now):
            return None
        if intern.status == Status.QUEUED:
            details = (MoveRule.PICKED_UP, Status.QUEUED, Status.PROVISIONING)
            history.record_move(intern, *details, by=by, at=now)
    for name, value in fields.items():
        setattr(intern, name, value)
    return intern, mine


def _lock_intern(lease: InternLease) -> Intern | None:
    rows = lease.rows().select_related("workspace", "creator")
    return rows.select_for_update(of=("self",)).first()


def renew(lease: InternLease, *, now: datetime) -> bool:
    """Whether it is ours still, for another term."""
    return bool(lease.rows().update(lease_expires_at=now + lease_term()))


def hand_back(lease: InternLease) -> None:
    """Leave a begun operation to whoever takes it up next. No attempt counts as lost. Raises
    `LeaseLost`."""
    write(lease, picked_at=None)


def write(lease: InternLease, **columns: object) -> None:
    """Set columns of the intern. Raises `LeaseLost`."""
    if not lease.rows().update(**columns, updated_at=datetime.now(UTC)):
        raise LeaseLost


def settle(
    lease: InternLease,
    rule: MoveRule,
    target: str,
    *,
    by: str,
    why: str = "",
    failure: str | None = None,
    **columns: object,
) -> None:
    """End the operation with a move: the lease goes in the same transaction. Raises `LeaseLost`."""
    now = datetime.now(UTC)
    with transaction.atomic():
        intern = _lock_intern(lease)
        if intern is None:
            raise LeaseLost
        fields: Mapping[str, Any] = {
            **NO_LEASE,
            "status": target,
            "status_since": now,
            "progress_step": None,
            "last_failure_message": failure[:1000] if failure else None,
            "status_reason": why[:500],
            "updated_at": now,
            **columns,
        }
        if not lease.rows().update(**fields):
            raise LeaseLost
        history.record_move(intern, rule, intern.status, target, by=by, why=failure or why, at=now)


def release(lease: InternLease, *, by: str, why: str) -> bool:
    """Free an intern whose status stays. Whether it was held by this lease."""
    with transaction.atomic():
        intern = _lock_intern(lease)
        if intern is None or not lease.rows().update(**NO_LEASE, updated_at=datetime.now(UTC)):
            return False
        history.record_note(intern, why, by=by)
    return True


def begin_step(lease: InternLease, number: int, *, by: str, **columns: object) -> None:
    """The next step of a provisioning begins (T9). Raises `LeaseLost`."""
    with transaction.atomic():
        intern = _lock_intern(lease)
        if intern is None:
            raise LeaseLost
        write(lease, progress_step=number, **columns)
        details = (MoveRule.STEP_DONE, Status.PROVISIONING, Status.PROVISIONING)
        history.record_move(intern, *details, by=by, why=f"step {number}")


def reissue(intern: Intern, *, now: datetime, counts: bool) -> InternLease | None:
    """An expired operation anew; `counts` says that an attempt was lost. None where it moved
    meanwhile."""
    assert intern.operation_id is not None
    lease = InternLease(intern.pk, uuid4(), intern.operation_id, intern.lease_kind, intern.host)
    moved = expired_rows(intern, now).update(
        lease_id=lease.lease_id,
        lease_expires_at=now + lease_term(),
        lease_attempt=F("lease_attempt") + int(counts),
        picked_at=None,
    )
    return lease if moved else None


def undo_reissue(lease: InternLease, *, now: datetime, counts: bool) -> None:
    """The message was not published: the attempt does not count and the next round tries again."""
    lease.rows().filter(picked_at__isnull=True).update(
        lease_expires_at=now, lease_attempt=F("lease_attempt") - int(counts)
    )


def extend(intern: Intern, *, now: datetime) -> bool:
    """An operation that waits its turn keeps its place."""
    return bool(expired_rows(intern, now).update(lease_expires_at=now + lease_term()))


def expired_rows(intern: Intern, now: datetime) -> QuerySet[Intern]:
    return Intern.objects.filter(pk=intern.pk, lease_id=intern.lease_id, lease_expires_at__lte=now)
