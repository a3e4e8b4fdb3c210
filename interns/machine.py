"""The status machine as a table (management reference 6.8). Pure: no rows, no clock.

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


class Rule(StrEnum):
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


@dataclass(frozen=True, slots=True)
class Move:
    """A rule, the statuses it may begin in and those that it may lead to."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]


MOVES: Final[Mapping[Rule, Move]] = {
    Rule.CREATED: Move((NOWHERE,), (NEW,)),
    Rule.CREATED_AND_QUEUED: Move((NOWHERE,), (QUEUED,)),
    Rule.CREATED_TO_WAIT: Move((NOWHERE,), (NEW,)),
    Rule.FIRST_PROVISION: Move((NEW,), (QUEUED,)),
    Rule.SLACK_INSTALLED: Move((NEW,), (QUEUED, NEW)),
    Rule.PROVISION_AFTER_FAILURE: Move((FAILED,), (QUEUED,)),
    Rule.RESUME: Move((STOPPED,), (QUEUED,)),
    Rule.PICKED_UP: Move((QUEUED,), (PROVISIONING,)),
    Rule.STEP_DONE: Move((PROVISIONING,), (PROVISIONING,)),
    Rule.HEALTHY: Move((PROVISIONING,), (RUNNING,)),
    Rule.STEP_FAILED: Move((PROVISIONING,), (FAILED,)),
    Rule.PROVISION_LOST: Move((QUEUED, PROVISIONING), (FAILED,)),
    Rule.SUSPENDED: Move((RUNNING,), (STOPPED,)),
    Rule.RUNTIME_LOST: Move((RUNNING,), (FAILED,)),
    Rule.DELETE: Move((NEW, RUNNING, FAILED, STOPPED), (DESTROYING,)),
    Rule.DELETE_AGAIN: Move((DESTROY_FAILED,), (DESTROYING,)),
    Rule.GONE: Move((DESTROYING,), (NOWHERE,)),
    Rule.ARCHIVE_FAILED: Move((DESTROYING,), (DESTROY_FAILED,)),
    Rule.ARCHIVE_LOSS_ACCEPTED: Move((DESTROYING,), (DESTROYING,)),
    Rule.TEARDOWN_FAILED: Move((DESTROYING,), (DESTROY_FAILED,)),
}
# Which rule an accepted operation is, by where it begins. A suspension moves nothing yet.
ACCEPTED: Final[Mapping[tuple[LeaseKind, str], Rule]] = {
    (LeaseKind.PROVISION, NEW): Rule.FIRST_PROVISION,
    (LeaseKind.PROVISION, FAILED): Rule.PROVISION_AFTER_FAILURE,
    (LeaseKind.PROVISION, STOPPED): Rule.RESUME,
    (LeaseKind.DELETE, NEW): Rule.DELETE,
    (LeaseKind.DELETE, RUNNING): Rule.DELETE,
    (LeaseKind.DELETE, FAILED): Rule.DELETE,
    (LeaseKind.DELETE, STOPPED): Rule.DELETE,
    (LeaseKind.DELETE, DESTROY_FAILED): Rule.DELETE_AGAIN,
}
# What an operation does to the status at once.
LEADS_TO: Final[Mapping[LeaseKind, str]] = {
    LeaseKind.PROVISION: QUEUED,
    LeaseKind.SUSPEND: RUNNING,
    LeaseKind.DELETE: DESTROYING,
}
_WORKED_ON: Final = (QUEUED, PROVISIONING, DESTROYING)


@dataclass(frozen=True, slots=True)
class Standing:
    """What decides about an operation. `held` says that a lease which has not expired holds the
    intern; `archive_missing` that its last teardown failed over the archive and there still is
    none; `slack_missing` that Slack is required and not installed."""

    status: str
    held: bool = False
    slack_missing: bool = False
    archive_missing: bool = False


def refusal(kind: LeaseKind, at: Standing, *, acknowledged: bool = False) -> InternConflict | None:
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


def allowed(source: str, target: str) -> tuple[Rule, ...]:
    """The rules that lead from one status to the other; none is a move that never happens."""
    return tuple(
        rule for rule, move in MOVES.items() if source in move.sources and target in move.targets
    )


def check(rule: Rule, source: str, target: str) -> None:
    """That the move is the rule's: what is not listed is a bug."""
    assert rule in allowed(source, target), f"{rule}: {source or '-'} to {target or '-'}"


def archive_is_why(last_failure_message: str | None) -> bool:
    """Whether a teardown failed over its archive."""
    return "workspace_archive_failed" in (last_failure_message or "")


STEPS: Final = (
    "Preparing credentials",
    "Assigning hostname",
    "Starting runtime",
    "Checking health",
)


WAITS: Final = "Waiting for a worker, none has taken it up"


def progress(step: int | None, *, waits: bool = False) -> dict[str, object] | None:
    """The object that callers see, of a step counted from 1."""
    if step is None:
        return None
    label = WAITS if waits else STEPS[step - 1]
    return {"step_label": label, "step_number": step, "total_steps": len(STEPS)}
