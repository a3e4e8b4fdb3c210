"""Recording events.

A deed records its event in its own transaction, so that there is either both or none. A schedule
looks at states, and the key of an event decides that it is recorded once. Deliveries are made later
(`accounts.events.delivery`): who records an event waits for nobody.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import F

from accounts.events.kinds import EventKind
from accounts.models import Alarm, Event

_TITLE_CHARS: Final = 200
_AT_ONCE: Final = 500


class NewEvent(NamedTuple):
    """An event to record. `key` names the crossing: what happened, to whom, in which window.

    `title` is one line, `text` says what happened and who can do something about it. Neither these
    nor `data` hold secrets. Without an account it is of the gateway as a whole.
    """

    kind: EventKind
    key: str
    title: str
    text: str
    account_id: UUID | None = None
    workspace_id: UUID | None = None
    data: Mapping[str, Any] = {}


def record_event(
    kind: EventKind,
    *,
    key: str,
    title: str,
    text: str,
    account_id: UUID | None = None,
    workspace_id: UUID | None = None,
    data: Mapping[str, Any] | None = None,
    at: datetime | None = None,
) -> None:
    """Record an event in the caller's transaction, unless one of its key is there; the fields are
    those of `NewEvent`."""
    event = NewEvent(kind, key, title, text, account_id, workspace_id, data or {})
    _insert([event], at or datetime.now(UTC))


def record_new_events(events: Sequence[NewEvent], *, at: datetime) -> int:
    """Record those whose keys are not there yet; how many these are, as far as one reader sees."""
    count = 0
    for begin in range(0, len(events), _AT_ONCE):
        fresh = find_new_events(events[begin : begin + _AT_ONCE])
        if fresh:
            _insert(fresh, at)
        count += len(fresh)
    return count


def find_new_events(events: Sequence[NewEvent]) -> list[NewEvent]:
    """Those whose keys are not there yet."""
    known: set[str] = set()
    for begin in range(0, len(events), _AT_ONCE):
        keys = [each.key for each in events[begin : begin + _AT_ONCE]]
        known.update(Event.objects.filter(key__in=keys).values_list("key", flat=True))
    return [each for each in events if each.key not in known]


def raise_alarm(subject: str, *, at: datetime) -> int | None:
    """Mark a state as wrong: which time this is, or None where it was marked already.

    Call it in the transaction that records the event.
    """
    assert transaction.get_connection().in_atomic_block, "an alarm belongs to its event"
    Alarm.objects.bulk_create([Alarm(subject=subject, changed_at=at)], ignore_conflicts=True)
    calm = Alarm.objects.filter(subject=subject, is_raised=False)
    if not calm.update(is_raised=True, count=F("count") + 1, changed_at=at):
        return None
    return Alarm.objects.get(subject=subject).count


def clear_alarm(subject: str, *, at: datetime) -> int | None:
    """Mark a state as right again: which time it had been wrong, or None where it was not."""
    raised = Alarm.objects.filter(subject=subject, is_raised=True)
    if not raised.update(is_raised=False, changed_at=at):
        return None
    return Alarm.objects.get(subject=subject).count


def _insert(events: list[NewEvent], at: datetime) -> None:
    rows = [
        Event(
            kind=each.kind,
            key=each.key,
            account_id=each.account_id,
            workspace_id=each.workspace_id,
            title=each.title[:_TITLE_CHARS],
            text=each.text,
            data=dict(each.data),
            at=at,
        )
        for each in events
    ]
    Event.objects.bulk_create(rows, ignore_conflicts=True)
