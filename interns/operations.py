"""Operations on an intern: update, provision, suspend, delete, release its lease.

An operation takes the lease, commits, and publishes its message; if the queue cannot be reached,
the row is put back. No connection is held while the queue is waited for.
"""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, transaction

from gateway.database.db import Lane, run_queries
from gateway.http.jsonio import JsonObject
from interns import history, leases
from interns.archives.service import has_archive
from interns.errors import (
    InternBusy,
    InternNotFound,
    InvalidState,
    NameTaken,
    OperationTimedOut,
    UpstreamUnavailable,
)
from interns.hosts import place
from interns.job_queue import publish_operation
from interns.keys import check_model
from interns.leases import InternLease, LeaseLost
from interns.machine import MoveRule, OperationState, find_refusal, is_archive_failure
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


def begin_suspend(intern_id: UUID, *, by: str, why: str = "", resumes: bool = False) -> None:
    """Have the runtime stopped, without waiting for it. Raises as `provision` does.

    One that `resumes` is provisioned again as soon as a machine takes it. One that is stopped and
    waits for that stays stopped.
    """
    _begin_suspend(intern_id, by=by, why=why, resumes=resumes)


def _begin_suspend(
    intern_id: UUID, *, by: str, why: str, resumes: bool = False
) -> tuple[InternLease, Intern] | None:
    """As `_begin_operation`; None where it is stopped, and shall not be resumed any more."""
    try:
        return _begin_operation(intern_id, LeaseKind.SUSPEND, by=by, why=why, resumes=resumes)
    except InvalidState:
        if resumes or not run_queries(Lane.OPERATOR, lambda: _cancel_resume(intern_id, by)):
            raise
    return None


def _cancel_resume(intern_id: UUID, by: str) -> bool:
    """Whether it was stopped to be resumed elsewhere, which is now not wanted."""
    waits = Intern.objects.filter(pk=intern_id, status=Status.STOPPED, provision_requested=True)
    with transaction.atomic():
        intern = waits.select_for_update().first()
        if intern is None:
            return False
        waits.update(provision_requested=False, updated_at=datetime.now(UTC))
        history.record_note(intern, "it stays stopped", by=by)
    return True


def suspend(intern_id: UUID, *, by: str, why: str = "", until: float | None = None) -> None:
    """Have the runtime stopped and wait for it, until that moment of `time.monotonic`.

    Raises as `provision` does, and `OperationTimedOut`, which undoes nothing.
    """
    until = (until or time.monotonic() + settings.INTERN_OPERATION_SECONDS) - _TO_ANSWER_S
    begun = _begin_suspend(intern_id, by=by, why=why)
    if begun is None:
        return
    lease, before = begun
    columns = ("status", "operation_id", "boot_id")
    rows = Intern.objects.filter(pk=intern_id).values_list(*columns, named=True)
    while True:
        # A connection is held for each look only.
        row = run_queries(Lane.READ, rows.first)
        if row is None or row.operation_id != lease.operation_id:
            break
        if time.monotonic() >= until:
            raise OperationTimedOut
        time.sleep(min(_LOOK_S, max(0.0, until - time.monotonic())))
    if row is None or row.boot_id != before.boot_id:
        # It was stopped, and more was done to it since.
        return
    if row.status in (Status.RUNNING, Status.FAILED):
        raise UpstreamUnavailable


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
    intern_id: UUID,
    kind: LeaseKind,
    *,
    by: str,
    why: str = "",
    acknowledged: bool = False,
    resumes: bool = False,
) -> tuple[InternLease, Intern]:
    """The lease, and the intern as it was before."""
    columns: JsonObject = {}
    if kind == LeaseKind.SUSPEND:
        columns |= {"status_reason": why[:500], "provision_requested": resumes}
    elif kind == LeaseKind.DELETE:
        columns["acknowledge_workspace_loss"] = acknowledged

    def begin() -> tuple[InternLease, Intern]:
        for _ in range(_TRIES):
            intern, now = load_intern(intern_id), datetime.now(UTC)
            if error := find_refusal(kind, read_state(intern, now), acknowledged=acknowledged):
                raise error
            account_id = intern.workspace.account_id
            host = place(intern, kind, account_id=account_id, acknowledged=acknowledged)
            lease = leases.take(intern, kind, by=by, now=now, why=why, host=host, **columns)
            if lease is not None:
                return lease, intern
        raise InternBusy

    lease, before = run_queries(Lane.OPERATOR, begin)
    publish_or_undo(lease, before, by)
    return lease, before


def load_intern(intern_id: UUID) -> Intern:
    rows = Intern.objects.select_related("workspace", "creator", "vault")
    intern = rows.filter(pk=intern_id).first()
    if intern is None:
        raise InternNotFound
    return intern


def publish_or_undo(lease: InternLease, before: Intern, by: str) -> None:
    """Publish, or take the operation back: all is then as in `before`, and `UpstreamUnavailable` is
    raised. Where a worker has it already, it counts as published."""
    try:
        publish_operation(lease)
    except UpstreamUnavailable:
        why = "the queue could not be reached"
        if run_queries(Lane.OPERATOR, lambda: leases.undo_take(lease, before, by=by, why=why)):
            raise


def update_intern(intern_id: UUID, changes: Mapping[str, Any]) -> Intern:
    """The intern with these columns set; a job that holds it goes on.

    Raises `InternNotFound`, `InternBusy` while it is being torn down, `NameTaken`, and
    `ModelRefused` for a model that its key may not ask for.
    """
    rows = Intern.objects.filter(pk=intern_id)
    if changes:
        try:
            with transaction.atomic():
                rows.exclude(status=Status.DESTROYING).update(
                    **changes, updated_at=datetime.now(UTC)
                )
                if "model" in changes:
                    check_model(load_intern(intern_id))
        except IntegrityError:
            raise NameTaken from None
    intern = rows.select_related("vault", "workspace").first()
    if intern is None:
        raise InternNotFound
    if intern.status == Status.DESTROYING:
        raise InternBusy
    return intern


def end_lost_operation(lease: InternLease, *, by: str, why: str) -> None:
    """Free the intern, in the true status. `why` is `operation_lost: ...`. Raises `LeaseLost`."""
    if lease.kind == LeaseKind.SUSPEND:
        # Whether it still runs is for the next probe to say.
        if not leases.release(lease, by=by, why=f"Suspending it: {why}"):
            raise LeaseLost
    elif lease.kind == LeaseKind.DELETE:
        leases.settle(lease, MoveRule.TEARDOWN_FAILED, Status.DESTROY_FAILED, by=by, failure=why)
    else:
        leases.settle(lease, MoveRule.PROVISION_LOST, Status.FAILED, by=by, failure=why)


def release_intern(intern_id: UUID, *, by: str) -> str:
    """Take the lease from whoever has it; a worker that lives stops at its next step. Returns the
    kind of the operation. Raises `InternNotFound`, and `InvalidState` where nothing holds it."""

    def end() -> str:
        intern = load_intern(intern_id)
        if intern.lease_id is None or intern.operation_id is None:
            raise InvalidState("Nothing holds this intern")
        lease = leases.current_lease(intern)
        try:
            end_lost_operation(lease, by=by, why="operation_lost: an operator released the intern")
        except LeaseLost:
            raise InvalidState("It was taken up this very moment, try again") from None
        return intern.lease_kind

    return run_queries(Lane.OPERATOR, end)
