"""The rows of turns: who talks to an intern now, and what it waits for.

The rows are the truth. At most one run of an intern is open, which the database sees to. The stream
has its lease, named by `lease_id`; later steps change nothing for a stream that lost it. All of
this is short work inside one transaction each, with nothing waited for.
"""

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from interns.chat.errors import ChatError
from interns.history import record_intern_event
from interns.models import ChatInteraction, ChatRun, ChatSession, Intern, Status
from interns.runtime.driver import EndEvent, QuestionEvent
from interns.runtime.questions import AnswerRejected, check_answer

RunState = ChatRun.State
InteractionState = ChatInteraction.State
OPEN: Final = (RunState.RUNNING, RunState.WAITING)
# Reasons of runs that ended by themselves, or by their caller's hand, and not by the gateway's.
_QUIET: Final = frozenset({"client_closed_request", "timeout"})


@dataclass(frozen=True, slots=True)
class RunLease:
    """A run that this process streams, for as long as it has the lease."""

    intern_id: UUID
    run_id: UUID
    session_id: str
    lease_id: UUID


class StartedRun(NamedTuple):
    """A new run; `left_over` are runs whose process or caller is gone, to be cancelled first."""

    lease: RunLease
    left_over: tuple[UUID, ...]


class SteeredRun(NamedTuple):
    """The session's own turn is running: the text belongs there."""

    run_id: UUID
    session_id: str


class ReopenedRun(NamedTuple):
    """A run that goes on with an answer."""

    lease: RunLease
    interaction_id: int


class ExpiredRun(NamedTuple):
    """A run whose question waited too long, to be cancelled."""

    run_id: UUID


def begin(
    *,
    intern_id: UUID,
    session_id: str | None,
    approval_mode: str,
    by: int | None,
    now: datetime,
    lease_s: float,
) -> StartedRun | SteeredRun:
    """Begin a turn, or find the one of the same session that is running.

    Raises `ChatError`: `not_found`, `intern_not_ready`, `busy`.
    """
    with transaction.atomic():
        _lock_running_intern(intern_id)
        open_run = _load_open_run(intern_id)
        left_over: tuple[UUID, ...] = ()
        if open_run is not None:
            if not _is_abandoned(open_run, now):
                if open_run.session.session_id != session_id:
                    raise ChatError("busy")
                return SteeredRun(open_run.pk, open_run.session.session_id)
            left_over = (open_run.pk,)
            _close_abandoned(open_run, now)
        session, _ = ChatSession.objects.get_or_create(
            intern_id=intern_id,
            session_id=session_id or f"session-{uuid.uuid4()}",
            defaults={"created_at": now},
        )
        run = ChatRun.objects.create(
            intern_id=intern_id,
            session=session,
            by_id=by,
            approval_mode=approval_mode,
            lease_id=uuid.uuid4(),
            lease_expires_at=now + timedelta(seconds=lease_s),
            started_at=now,
        )
    assert run.lease_id is not None
    return StartedRun(RunLease(intern_id, run.pk, session.session_id, run.lease_id), left_over)


def _lock_running_intern(intern_id: UUID) -> Intern:
    """The intern, whose status nobody changes until the transaction ends."""
    intern = Intern.objects.select_for_update(no_key=True).filter(pk=intern_id).first()
    if intern is None or intern.status != Status.RUNNING or intern.lease_id is not None:
        raise ChatError("intern_not_ready")
    return intern


def _load_open_run(intern_id: UUID) -> ChatRun | None:
    runs = ChatRun.objects.select_related("session").select_for_update(of=("self",))
    return runs.filter(intern_id=intern_id, state__in=OPEN).first()


def _is_abandoned(run: ChatRun, now: datetime) -> bool:
    """Whether nobody has it any more: its process died, or its question waited too long."""
    if run.state == RunState.RUNNING:
        return run.lease_expires_at is None or run.lease_expires_at <= now
    pending = run.interactions.filter(state=InteractionState.PENDING, deadline_at__gt=now)
    return not pending.exists()


def _close_abandoned(run: ChatRun, now: datetime) -> None:
    if run.state == RunState.RUNNING:
        _close(run.pk, RunState.FAILED, "stream_severed", now)
    else:
        _expire(run.pk, now)


def reopen(
    *,
    intern_id: UUID,
    session_id: str,
    tool_call_id: str,
    answer: str,
    now: datetime,
    lease_s: float,
) -> ReopenedRun | ExpiredRun:
    """Take the answer to an open question, and the run with it.

    Raises `ChatError`: `intern_not_ready`, `busy` (a turn is running), `interaction_unknown`,
    `interaction_not_pending`, `run_ended`, and `bad_request`. The last is for an answer that it
    does not take. Then it stays open, and its deadline where it was.
    """
    with transaction.atomic():
        _lock_running_intern(intern_id)
        open_run = _load_open_run(intern_id)
        if open_run and open_run.state == RunState.RUNNING and not _is_abandoned(open_run, now):
            raise ChatError("busy")
        interaction = _load_interaction(intern_id, session_id, tool_call_id)
        run = interaction.run
        if run.state != RunState.WAITING or interaction.state != InteractionState.PENDING:
            # It was answered or expired, or its run was ended over it.
            is_cancelled = interaction.state == InteractionState.CANCELLED
            is_ended = is_cancelled and run.ended_because not in _QUIET
            raise ChatError("run_ended" if is_ended else "interaction_not_pending")
        if interaction.deadline_at > now:
            try:
                check_answer(interaction.arguments, answer)
            except AnswerRejected as error:
                raise ChatError("bad_request", str(error)) from error
            return _accept_answer(interaction, session_id, answer, now=now, lease_s=lease_s)
        _expire(run.pk, now)
        return ExpiredRun(run.pk)


def _load_interaction(intern_id: UUID, session_id: str, tool_call_id: str) -> ChatInteraction:
    found = (
        ChatInteraction.objects.select_related("run")
        .filter(
            run__intern_id=intern_id,
            run__session__session_id=session_id,
            tool_call_id=tool_call_id,
        )
        .order_by("-pk")
        .first()
    )
    if found is None:
        raise ChatError("interaction_unknown")
    return found


def _accept_answer(
    interaction: ChatInteraction, session_id: str, answer: str, *, now: datetime, lease_s: float
) -> ReopenedRun:
    lease_id = uuid.uuid4()
    # A permission's option is no secret; of what was filled in only that it was.
    is_permission = interaction.kind == ChatInteraction.Kind.PERMISSION
    ChatInteraction.objects.filter(pk=interaction.pk).update(
        state=InteractionState.ANSWERED,
        answered_at=now,
        answered_with=answer if is_permission else "given",
    )
    ChatRun.objects.filter(pk=interaction.run_id).update(
        state=RunState.RUNNING, lease_id=lease_id, lease_expires_at=now + timedelta(seconds=lease_s)
    )
    lease = RunLease(interaction.run.intern_id, interaction.run_id, session_id, lease_id)
    return ReopenedRun(lease, interaction.pk)


def undo_reopen(lease: RunLease, interaction_id: int) -> bool:
    """The answer never reached the runtime: the question is open again, as long as it was."""
    with transaction.atomic():
        if not _filter_held(lease).update(
            state=RunState.WAITING, lease_id=None, lease_expires_at=None
        ):
            return False
        ChatInteraction.objects.filter(pk=interaction_id).update(
            state=InteractionState.PENDING, answered_at=None, answered_with=""
        )
    return True


def pause(lease: RunLease, question: QuestionEvent, *, now: datetime, question_s: float) -> bool:
    """The run waits with this question. False where the lease was lost."""
    deadline_at = now + timedelta(seconds=question_s)
    with transaction.atomic():
        if not _filter_held(lease).update(
            state=RunState.WAITING, lease_id=None, lease_expires_at=None
        ):
            return False
        ChatInteraction.objects.create(
            run_id=lease.run_id,
            tool_call_id=question.tool_call_id,
            kind=question.kind,
            arguments=question.arguments,
            asked_at=now,
            deadline_at=deadline_at,
        )
        intern = Intern.objects.select_related("workspace").get(pk=lease.intern_id)
        # Without the question, which is its caller's alone.
        record_intern_event(
            "intern.waiting",
            intern,
            key=f"{lease.run_id}:{question.tool_call_id}",
            what="waits for an answer",
            text=f"Intern {intern.name} asked a question ({question.kind}) in its chat and waits "
            f"until {deadline_at:%Y-%m-%d %H:%M} (UTC). Who chats with it can answer, or the turn "
            "is cancelled.",
            data={"kind": question.kind},
            at=now,
        )
    return True


def renew(lease: RunLease, *, now: datetime, lease_s: float) -> bool:
    """Go on having the run. False where it was ended, or taken by another."""
    return bool(_filter_held(lease).update(lease_expires_at=now + timedelta(seconds=lease_s)))


def finish(lease: RunLease, ended: EndEvent, *, now: datetime) -> bool:
    """The run is over as the runtime says. False where somebody ended it before."""
    state = RunState.CANCELLED if ended.reason in {"run_ended", *_QUIET} else RunState.FAILED
    state = state if ended.reason else RunState.COMPLETED
    return bool(
        _filter_held(lease).update(
            state=state,
            lease_id=None,
            lease_expires_at=None,
            ended_at=now,
            ended_because=ended.reason,
            usage=ended.usage,
        )
    )


def cancel(lease: RunLease, because: str, *, now: datetime) -> bool:
    """End a run that this process began, also one whose question its caller never got to see.
    False where it is over, or somebody else's by now."""
    with transaction.atomic():
        run = ChatRun.objects.select_for_update().filter(pk=lease.run_id).first()
        if run is None or run.state not in OPEN or run.lease_id not in (None, lease.lease_id):
            return False
        _close(run.pk, RunState.CANCELLED, because, now)
    return True


def read_end_reason(lease: RunLease) -> str | None:
    """Why somebody else ended the run; None while it is open, or gone with its intern."""
    row = ChatRun.objects.filter(pk=lease.run_id).values_list("state", "ended_because").first()
    if row is None:
        return "run_ended"
    return None if row[0] in OPEN else row[1]


def close_waiting(run_id: UUID, because: str, *, now: datetime) -> None:
    """End a run that waits, whose runtime knows nothing of it any more."""
    with transaction.atomic():
        found = ChatRun.objects.select_for_update().filter(pk=run_id, state=RunState.WAITING)
        if found.first() is not None:
            _close(run_id, RunState.CANCELLED, because, now)


def close_all(intern_id: UUID, because: str, *, now: datetime) -> list[UUID]:
    """End whatever is open of an intern; the runs that were."""
    with transaction.atomic():
        found = ChatRun.objects.select_for_update().filter(intern_id=intern_id, state__in=OPEN)
        runs = [run.pk for run in found]
        for run_id in runs:
            _close(run_id, RunState.CANCELLED, because, now)
    return runs


def close_abandoned(*, now: datetime) -> list[tuple[UUID, UUID]]:
    """End runs that nobody has any more, of this machine's interns: pairs of intern and run."""
    late = Q(state=RunState.RUNNING, lease_expires_at__lte=now) | Q(
        state=RunState.WAITING,
        interactions__state=InteractionState.PENDING,
        interactions__deadline_at__lte=now,
    )
    closed = []
    here = ChatRun.objects.filter(late, intern__host=settings.INTERN_HOST)
    for run_id in here.values_list("pk", flat=True).distinct():
        with transaction.atomic():
            run = ChatRun.objects.select_for_update().filter(pk=run_id, state__in=OPEN).first()
            if run is not None and _is_abandoned(run, now):
                _close_abandoned(run, now)
                closed.append((run.intern_id, run.pk))
    return closed


def delete_ended_before(moment: datetime) -> int:
    """Delete runs that ended before, and sessions without any; how many runs."""
    _, counts = ChatRun.objects.filter(ended_at__lt=moment).delete()
    ChatSession.objects.filter(runs__isnull=True, created_at__lt=moment).delete()
    return counts.get("interns.ChatRun", 0)


def _filter_held(lease: RunLease) -> Any:
    return ChatRun.objects.filter(pk=lease.run_id, state=RunState.RUNNING, lease_id=lease.lease_id)


def _expire(run_id: UUID, now: datetime) -> None:
    ChatInteraction.objects.filter(run_id=run_id, state=InteractionState.PENDING).update(
        state=InteractionState.EXPIRED
    )
    _close(run_id, RunState.CANCELLED, "timeout", now)


def _close(run_id: UUID, state: str, because: str, now: datetime) -> None:
    ChatRun.objects.filter(pk=run_id).update(
        state=state,
        lease_id=None,
        lease_expires_at=None,
        ended_at=now,
        ended_because=because,
    )
    ChatInteraction.objects.filter(run_id=run_id, state=InteractionState.PENDING).update(
        state=InteractionState.CANCELLED
    )
