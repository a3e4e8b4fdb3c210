"""Runs that end by another's hand (the intern is suspended or deleted, or nobody has them any more)
and what is erased of conversations.

Called by workers and beat. The row first, so that nobody goes on with the run; then the runtime,
which tells whoever is connected.
"""

from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, InterfaceError, transaction

from gateway.http.responses import log
from interns.chat import runs
from interns.chat.clock import CLOCK
from interns.models import ChatInteraction, ChatSession, Intern
from routing.history.erasure import EndUser

_CANCEL_S = 1.5
_ERASED = "erased-"


class CancelsRuns(Protocol):
    """All that is asked of a driver here."""

    def cancel(self, intern_id: UUID, run_id: UUID, *, wait_s: float = 2.0) -> bool: ...


def end_runs(
    intern_id: UUID, *, because: str = "run_ended", driver: CancelsRuns, now: datetime | None = None
) -> int:
    """End what is open of an intern, before its runtime stops. Takes two seconds at most and never
    raises: what it could not end ends with the runtime. How many there were."""
    try:
        closed = runs.close_all(intern_id, because, now=now or CLOCK.now())
    except (DatabaseError, InterfaceError) as error:
        log.warning("The open runs of intern %s could not be ended: %s", intern_id, error)
        return 0
    for run_id in closed:
        driver.cancel(intern_id, run_id, wait_s=_CANCEL_S)
    return len(closed)


def expire_runs(now: datetime, *, driver: CancelsRuns) -> int:
    """End runs of this machine's interns whose question waited too long, or whose web process is
    gone. How many."""
    left_over = runs.close_abandoned(now=now)
    for intern_id, run_id in left_over:
        driver.cancel(intern_id, run_id, wait_s=_CANCEL_S)
    return len(left_over)


def delete_old_runs(now: datetime) -> int:
    """Delete runs that ended longer ago than they are kept. How many."""
    return runs.delete_ended_before(now - timedelta(days=settings.INTERN_RUN_DAYS))


def erase_sessions(user: EndUser) -> int:
    """Blank what the account's conversations of his name say of him; how many there were. Turns,
    their times and their usage stay."""
    interns = Intern.objects.filter(workspace__account=user.account_id).values("pk")
    with transaction.atomic():
        sessions = ChatSession.objects.filter(user.matches("session_id"), intern__in=interns)
        found = list(sessions.select_for_update())
        for session in found:
            session.session_id = f"{_ERASED}{session.pk}"
        ChatSession.objects.bulk_update(found, ["session_id"])
        asked = ChatInteraction.objects.filter(run__session__in=found)
        asked.update(arguments={})
    return len(found)
