"""The status machine as a table. Pure: no rows, no clock.

Every move of an intern is one of `MOVES`; what an operation meets is one of `REFUSALS`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from interns.errors import (
    ArchiveMissing,
    InternBusy,
    InternConflict,
    InvalidState,
    SlackInstallRequired,
)
from interns.models.intern import LeaseKind, Status

NOWHERE: Final = ""
"""Where an intern comes from, and where a destroyed one goes."""

NEW, QUEUED, PROVISIONING = Status.AWAITING_SLACK_INSTALL, Status.QUEUED, Status.PROVISIONING
RUNNING, FAILED, STOPPED = Status.RUNNING, Status.FAILED, Status.STOPPED
DESTROYING, DESTROY_FAILED = Status.DESTROYING, Status.DESTROY_FAILED


class MoveRule(StrEnum):
    """The rows of the table by their numbers."""

    CREATED = "T1"
    CREATED_AND_QUEUED = "T2"
    CREATED_TO_WAIT = "T3"
    FIRST_PROVISION = "T4"
    SLACK_INSTALLED = "T5"
    PROVISION_AFTER_FAILURE = "T6"
    RESUME = "T7"
    PICKED_UP = "T8"
    STEP_DONE = "T9"
    HEALTHY = "T10"
    STEP_FAILED = "T11"
    PROVISION_LOST = "T12"
    SUSPENDED = "T13"
    RUNTIME_LOST = "T14"
    DELETE = "T15"
    DELETE_AGAIN = "T16"
    GONE = "T17"
    ARCHIVE_FAILED = "T18"
    ARCHIVE_LOSS_ACCEPTED = "T19"
    TEARDOWN_FAILED = "T20"
    HOST_LOST = "T21"


@dataclass(frozen=True, slots=True)
class Move:
    """A rule, the statuses it may begin in and those that it may lead to."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]


MOVES: Final[Mapping[MoveRule, Move]] = {
    MoveRule.CREATED: Move((NOWHERE,), (NEW,)),
    MoveRule.CREATED_AND_QUEUED: Move((NOWHERE,), (QUEUED,)),
    MoveRule.CREATED_TO_WAIT: Move((NOWHERE,), (NEW,)),
    MoveRule.FIRST_PROVISION: Move((NEW,), (QUEUED,)),
    MoveRule.SLACK_INSTALLED: Move((NEW,), (QUEUED, NEW)),
    MoveRule.PROVISION_AFTER_FAILURE: Move((FAILED,), (QUEUED,)),
    MoveRule.RESUME: Move((STOPPED,), (QUEUED,)),
    MoveRule.PICKED_UP: Move((QUEUED,), (PROVISIONING,)),
    MoveRule.STEP_DONE: Move((PROVISIONING,), (PROVISIONING,)),
    MoveRule.HEALTHY: Move((PROVISIONING,), (RUNNING,)),
    MoveRule.STEP_FAILED: Move((PROVISIONING,), (FAILED,)),
    MoveRule.PROVISION_LOST: Move((QUEUED, PROVISIONING), (FAILED,)),
    MoveRule.SUSPENDED: Move((RUNNING,), (STOPPED,)),
    MoveRule.RUNTIME_LOST: Move((RUNNING,), (FAILED,)),
    MoveRule.DELETE: Move((NEW, RUNNING, FAILED, STOPPED), (DESTROYING,)),
    MoveRule.DELETE_AGAIN: Move((DESTROY_FAILED,), (DESTROYING,)),
    MoveRule.GONE: Move((DESTROYING,), (NOWHERE,)),
    MoveRule.ARCHIVE_FAILED: Move((DESTROYING,), (DESTROY_FAILED,)),
    MoveRule.ARCHIVE_LOSS_ACCEPTED: Move((DESTROYING,), (DESTROYING,)),
    MoveRule.TEARDOWN_FAILED: Move((DESTROYING,), (DESTROY_FAILED,)),
    MoveRule.HOST_LOST: Move((QUEUED, PROVISIONING, RUNNING), (STOPPED,)),
}
# Which rule an accepted operation is, by where it begins. A suspension moves nothing yet.
ACCEPTED: Final[Mapping[tuple[LeaseKind, str], MoveRule]] = {
    (LeaseKind.PROVISION, NEW): MoveRule.FIRST_PROVISION,
    (LeaseKind.PROVISION, FAILED): MoveRule.PROVISION_AFTER_FAILURE,
    (LeaseKind.PROVISION, STOPPED): MoveRule.RESUME,
    (LeaseKind.DELETE, NEW): MoveRule.DELETE,
    (LeaseKind.DELETE, RUNNING): MoveRule.DELETE,
    (LeaseKind.DELETE, FAILED): MoveRule.DELETE,
    (LeaseKind.DELETE, STOPPED): MoveRule.DELETE,
    (LeaseKind.DELETE, DESTROY_FAILED): MoveRule.DELETE_AGAIN,
}
# What an operation does to the status at once.
LEADS_TO: Final[Mapping[LeaseKind, str]] = {
    LeaseKind.PROVISION: QUEUED,
    LeaseKind.SUSPEND: RUNNING,
    LeaseKind.DELETE: DESTROYING,
}
_WORKED_ON: Final = (QUEUED, PROVISIONING, DESTROYING)


@dataclass(frozen=True, slots=True)
class OperationState:
    """What decides about an operation. `held` says that a lease which has not expired holds the
    intern. `archive_missing` says that its last teardown failed over the archive and there still is
    none. `slack_missing` says that Slack is required and not installed."""

    status: str
    held: bool = False
    slack_missing: bool = False
    archive_missing: bool = False


def find_refusal(
    kind: LeaseKind, at: OperationState, *, acknowledged: bool = False
) -> InternConflict | None:
    """Why the operation is refused, or None where it may go on."""
    if at.held or at.status in _WORKED_ON:
        return InternBusy()
    if kind == LeaseKind.SUSPEND:
        return None if at.status == RUNNING else InvalidState()
    if (kind, at.status) not in ACCEPTED:
        return InvalidState()
    if kind == LeaseKind.PROVISION and at.status == NEW and at.slack_missing:
        return SlackInstallRequired()
    if kind == LeaseKind.DELETE and at.archive_missing and not acknowledged:
        return ArchiveMissing()
    return None


def find_rules(source: str, target: str) -> tuple[MoveRule, ...]:
    """The rules that lead from one status to the other; none is a move that never happens."""
    return tuple(
        rule for rule, move in MOVES.items() if source in move.sources and target in move.targets
    )


def assert_allowed(rule: MoveRule, source: str, target: str) -> None:
    """That the move is the rule's: what is not listed is a bug."""
    assert rule in find_rules(source, target), f"{rule}: {source or '-'} to {target or '-'}"


def is_archive_failure(last_failure_message: str | None) -> bool:
    """Whether a teardown failed over its archive."""
    return "workspace_archive_failed" in (last_failure_message or "")


STEPS: Final = (
    "Preparing credentials",
    "Assigning hostname",
    "Starting runtime",
    "Checking health",
)


WAITING_TEXT: Final = "Waiting for a worker, none has taken it up"


def build_progress(step: int | None, *, waits: bool = False) -> dict[str, object] | None:
    """The object that callers see, of a step counted from 1."""
    if step is None:
        return None
    label = WAITING_TEXT if waits else STEPS[step - 1]
    return {"step_label": label, "step_number": step, "total_steps": len(STEPS)}
