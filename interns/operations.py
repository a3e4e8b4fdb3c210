"""Provision, suspend and delete, as callers, operators and the gateway itself ask for them.

Each takes the lease, commits, and tells the workers; where nobody can be told all is as before. No
connection is held while the queue is waited for.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.conf import settings

from gateway.database.db import Lane, run_queries
from interns import leases
from interns.archives.service import has_archive
from interns.errors import (
    InternBusy,
    InternNotFound,
    OperationTimedOut,
    UpstreamUnavailable,
)
from interns.job_queue import publish_operation
from interns.leases import InternLease
from interns.machine import OperationState, find_refusal, is_archive_failure
from interns.models import Intern, LeaseKind, Status

# Others may move an intern between a look and the update; none does so again and again.
_TRIES: Final = 5
_LOOK_S: Final = 0.1
# What is left of the ten seconds for the answer.
_TO_ANSWER_S: Final = 0.5


def provision(intern_id: UUID, *, by: str) -> None:
    """Raises what the table refuses, `InternNotFound` and `UpstreamUnavailable`."""
    _begin_operation(intern_id, LeaseKind.PROVISION, by=by)


def delete(intern_id: UUID, *, by: str, acknowledged: bool = False) -> None:
    """Raises what the table refuses, `InternNotFound` and `UpstreamUnavailable`."""
    _begin_operation(intern_id, LeaseKind.DELETE, by=by, acknowledged=acknowledged)


def begin_suspend(intern_id: UUID, *, by: str, why: str = "") -> InternLease:
    """Have the runtime stopped, without waiting for it. Raises as `provision` does."""
    return _begin_operation(intern_id, LeaseKind.SUSPEND, by=by, why=why)[0]


def suspend(intern_id: UUID, *, by: str, why: str = "", until: float | None = None) -> None:
    """Have the runtime stopped and wait for it, until that moment of `time.monotonic`.

    Raises as `provision` does, and `OperationTimedOut`, which undoes nothing.
    """
    until = until or time.monotonic() + settings.INTERN_OPERATION_SECONDS
    lease, before = _begin_operation(intern_id, LeaseKind.SUSPEND, by=by, why=why)
    _await_stop(lease, before, until - _TO_ANSWER_S)


def read_state(intern: Intern, now: datetime) -> OperationState:
    """What decides about an operation on it."""
    slack = settings.INTERN_REQUIRE_SLACK_INSTALL and intern.slack_installed_at is None
    missing = intern.status == Status.DESTROY_FAILED and is_archive_failure(
        intern.last_failure_message
    )
    return OperationState(
        intern.status,
        held=leases.is_held(intern, now),
        slack_missing=slack,
        archive_missing=missing and not has_archive(intern),
    )


def _begin_operation(
    intern_id: UUID, kind: LeaseKind, *, by: str, why: str = "", acknowledged: bool = False
) -> tuple[InternLease, Intern]:
    """The lease, and the intern as it was before."""
    columns: dict[str, Any] = {}
    if kind == LeaseKind.SUSPEND:
        columns["status_reason"] = why[:500]
    elif kind == LeaseKind.DELETE:
        columns["acknowledge_workspace_loss"] = acknowledged

    def attempt() -> tuple[InternLease | None, Intern]:
        intern, now = load_intern(intern_id), datetime.now(UTC)
        if error := find_refusal(kind, read_state(intern, now), acknowledged=acknowledged):
            raise error
        return leases.take(intern, kind, by=by, now=now, why=why, **columns), intern

    lease, before = run_queries(Lane.OPERATOR, lambda: _retry(attempt))
    publish_or_undo(lease, before, by)
    return lease, before


def _retry(attempt: Callable[[], tuple[InternLease | None, Intern]]) -> tuple[InternLease, Intern]:
    for _ in range(_TRIES):
        lease, before = attempt()
        if lease is not None:
            return lease, before
    raise InternBusy


def load_intern(intern_id: UUID) -> Intern:
    rows = Intern.objects.select_related("workspace", "creator", "vault")
    intern = rows.filter(pk=intern_id).first()
    if intern is None:
        raise InternNotFound
    return intern


def publish_or_undo(lease: InternLease, before: Intern, by: str) -> None:
    """Publish, or take the operation back: all is then as in `before`, and `UpstreamUnavailable` is
    raised. Where a worker has it already, it was told."""
    try:
        publish_operation(lease)
    except UpstreamUnavailable:
        why = "the queue could not be reached"
        if run_queries(Lane.OPERATOR, lambda: leases.undo_take(lease, before, by=by, why=why)):
            raise


def _await_stop(lease: InternLease, before: Intern, until: float) -> None:
    """Look at the row until the operation is over; a connection is held for each look only."""
    while True:
        found = run_queries(Lane.READ, lambda: _read_row_state(lease.intern_id))
        if found is None or found.operation_id != lease.operation_id:
            break
        if time.monotonic() >= until:
            raise OperationTimedOut
        time.sleep(min(_LOOK_S, max(0.0, until - time.monotonic())))
    if found is None or found.boot_id != before.boot_id:
        # It was stopped, and more was done to it since.
        return
    if found.status in (Status.RUNNING, Status.FAILED):
        raise UpstreamUnavailable


class _RowState(NamedTuple):
    status: str
    operation_id: UUID | None
    boot_id: UUID | None


def _read_row_state(intern_id: UUID) -> _RowState | None:
    rows = Intern.objects.filter(pk=intern_id).values_list("status", "operation_id", "boot_id")
    found = rows.first()
    return None if found is None else _RowState(*found)
