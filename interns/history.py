"""History rows, written in the transaction of the move that they tell of."""

from datetime import UTC, datetime
from uuid import UUID

from django.db import transaction

from accounts.caller import Caller
from accounts.events.outbox import record_event
from interns.machine import MoveRule, assert_allowed
from interns.models import Intern, InternTransition, Status

WHY_CHARS_MAX = 1_000
REAPER = "reaper"
PROBER = "prober"


def describe_caller(caller: Caller) -> str:
    """A user and the number of the key they called with."""
    return f"{caller.creator_id or 'system key'} with key {caller.key_id}"


def record_move(
    intern: Intern,
    rule: MoveRule,
    source: str,
    target: str,
    *,
    by: str,
    why: str = "",
    at: datetime | None = None,
    operation_id: UUID | None = None,
) -> None:
    """Write down a move, which must be one of the table."""
    assert_allowed(rule, source, target)
    written = _write(intern, rule, source, target, by, why, at, operation_id)
    if target in (Status.FAILED, Status.DESTROY_FAILED):
        _record_failure(intern, written)


def record_note(
    intern: Intern,
    why: str,
    *,
    by: str,
    at: datetime | None = None,
    operation_id: UUID | None = None,
) -> None:
    """Write down what moved nothing."""
    _write(intern, "", intern.status, intern.status, by, why, at, operation_id)


def record_undo(intern: Intern, source: str, target: str, *, by: str, why: str) -> None:
    """Write down that an operation which could not begin was undone."""
    _write(intern, "", source, target, by, why, None, intern.operation_id)


def has_ever_run(intern_id: UUID) -> bool:
    """Whether it ever was `running`: only then could anybody have given it work."""
    return InternTransition.objects.filter(intern_id=intern_id, rule=MoveRule.HEALTHY).exists()


def _write(
    intern: Intern,
    rule: str,
    source: str,
    target: str,
    by: str,
    why: str,
    at: datetime | None,
    operation_id: UUID | None,
) -> InternTransition:
    assert transaction.get_connection().in_atomic_block, "history belongs to its move"
    return InternTransition.objects.create(
        intern_id=intern.pk,
        intern_name=intern.name,
        account_id=intern.workspace.account_id,
        at=at or datetime.now(UTC),
        rule=rule,
        from_status=source,
        to_status=target,
        why=why[:WHY_CHARS_MAX],
        by=by[:200],
        operation_id=operation_id or intern.operation_id,
    )


def _record_failure(intern: Intern, move: InternTransition) -> None:
    """For whoever wants to hear of it, in the transaction of the move."""
    what = "could not be deleted" if move.to_status == Status.DESTROY_FAILED else "failed"
    again = "delete" if move.to_status == Status.DESTROY_FAILED else "provision"
    record_event(
        "intern.failed",
        key=f"intern.failed:{intern.pk}:{move.pk}",
        title=f"Intern {intern.name} {what}",
        text=f"Intern {intern.name} {what}: {move.why or 'nothing more is known'}. Its owner or an "
        f"admin can {again} it again.",
        account_id=move.account_id,
        workspace_id=intern.workspace_id,
        data={"intern_id": str(intern.pk), "intern_name": intern.name, "status": move.to_status},
        at=move.at,
    )
