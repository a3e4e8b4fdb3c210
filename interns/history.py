"""History rows, written in the transaction of the move that they describe."""

from datetime import UTC, datetime
from uuid import UUID

from django.db import transaction

from accounts.caller import Caller
from accounts.events.kinds import EventKind
from accounts.events.outbox import record_event
from gateway.http.jsonio import JsonObject
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
    move = _write(intern, rule, source, target, by, why, at, operation_id)
    if target in (Status.FAILED, Status.DESTROY_FAILED):
        what, again = "failed", "provision"
        if target == Status.DESTROY_FAILED:
            what, again = "could not be deleted", "delete"
        record_intern_event(
            "intern.failed",
            intern,
            key=f"{intern.pk}:{move.pk}",
            what=what,
            text=f"Intern {intern.name} {what}: {move.why or 'nothing more is known'}. Its owner "
            f"or an admin can {again} it again.",
            data={"status": target},
            at=move.at,
        )


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


def record_intern_event(
    kind: EventKind,
    intern: Intern,
    *,
    key: str,
    what: str,
    text: str,
    data: JsonObject,
    at: datetime,
) -> None:
    """Tell whoever wants to hear of it, in the transaction of what happened: once for each key.
    `what` is what its title says behind the intern's name."""
    record_event(
        kind,
        key=f"{kind}:{key}",
        title=f"Intern {intern.name} {what}",
        text=text,
        account_id=intern.workspace.account_id,
        workspace_id=intern.workspace_id,
        data={"intern_id": str(intern.pk), "intern_name": intern.name, **data},
        at=at,
    )
