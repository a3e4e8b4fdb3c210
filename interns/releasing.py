"""Ending an operation that its worker does not end (T12, T20): the reaper's, and an operator's."""

from uuid import UUID

from gateway.database.db import Lane, run_queries
from interns import leases
from interns.errors import InvalidState
from interns.leases import InternLease, LeaseLost
from interns.machine import MoveRule
from interns.models import LeaseKind, Status
from interns.operations import load_intern


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
    return run_queries(Lane.OPERATOR, lambda: _released(intern_id, by))


def _released(intern_id: UUID, by: str) -> str:
    intern = load_intern(intern_id)
    if intern.lease_id is None or intern.operation_id is None:
        raise InvalidState("Nothing holds this intern")
    lease = InternLease(intern.pk, intern.lease_id, intern.operation_id, intern.lease_kind)
    try:
        end_lost_operation(lease, by=by, why="operation_lost: an operator released the intern")
    except LeaseLost:
        raise InvalidState("It was taken up this very moment, try again") from None
    return intern.lease_kind
