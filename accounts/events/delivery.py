"""Bringing events to channels.

The rows are the truth: an event without `channels_found_at` waits for its deliveries, and one of
these is due from its `next_try_at` on. Whoever sends it takes its lease first; where a worker dies,
the lease ends and another one sends it. So a receiver may get a message twice, with the same id.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q

from accounts.events.kinds import FOR_EVERYBODY
from accounts.events.senders import SendFailed, send
from accounts.models import Channel, Delivery, Event

LEASE_S: Final = 60
RETRY_S: Final = 86_400
_EVENTS_AT_ONCE: Final = 200
_DUE_AT_ONCE: Final = 500
_FIRST_WAIT_S: Final = 10
_LONGEST_WAIT_S: Final = 14_400
_ERROR_CHARS: Final = 300


def make_deliveries(*, now: datetime) -> int:
    """Make the deliveries of new events; how many. Two workers make each once."""
    with transaction.atomic():
        fresh = Event.objects.filter(channels_found_at__isnull=True).order_by("at")
        events = list(fresh.select_for_update(skip_locked=True)[:_EVENTS_AT_ONCE])
        if not events:
            return 0
        channels = list(Channel.objects.filter(disabled=False))
        made = [
            build_delivery(event, channel, now)
            for event in events
            for channel in channels
            if _wants(channel, event)
        ]
        Delivery.objects.bulk_create(made, ignore_conflicts=True)
        found = Event.objects.filter(pk__in=[event.pk for event in events])
        found.update(channels_found_at=now)
    return len(made)


def build_delivery(event: Event, channel: Channel, now: datetime) -> Delivery:
    return Delivery(
        event=event,
        channel=channel,
        next_try_at=now,
        retry_until=now + timedelta(seconds=RETRY_S),
        created_at=now,
    )


def list_due(*, now: datetime) -> Iterable[UUID]:
    """The deliveries that somebody should send, the longest due first."""
    due = Delivery.objects.filter(_is_free(now), state="pending", next_try_at__lte=now)
    return due.order_by("next_try_at").values_list("pk", flat=True)[:_DUE_AT_ONCE]


def deliver(delivery_id: UUID, *, now: datetime) -> bool:
    """Send one delivery that is due and note what came of it; whether it arrived. One that is not
    due, or somebody else's, is left alone."""
    lease = now + timedelta(seconds=LEASE_S)
    due = Delivery.objects.filter(
        _is_free(now), pk=delivery_id, state="pending", next_try_at__lte=now
    )
    if not due.update(lease_until=lease, attempts=F("attempts") + 1):
        return False
    delivery = Delivery.objects.select_related("event", "channel").get(pk=delivery_id)
    mine = Delivery.objects.filter(pk=delivery_id, lease_until=lease)
    if delivery.channel.disabled or delivery.channel.deleted_at:
        mine.update(state="failed", lease_until=None, error="The channel was switched off")
        return False
    if delivery.attempts > 1 and now > delivery.retry_until:
        # Its tries end without a word, as where a worker dies of it: nothing else moves it on.
        error = delivery.error or "No try came to an end within a day"
        mine.update(state="failed", lease_until=None, error=error)
        return False
    try:
        status = send(delivery, now=now)
    except SendFailed as failure:
        next_try_at = now + timedelta(seconds=_wait_s(delivery.attempts))
        mine.update(
            state="pending" if next_try_at <= delivery.retry_until else "failed",
            next_try_at=next_try_at,
            lease_until=None,
            answer_status=failure.status,
            error=str(failure)[:_ERROR_CHARS],
        )
        return False
    mine.update(
        state="delivered", delivered_at=now, lease_until=None, answer_status=status, error=""
    )
    return True


def resend(delivery: Delivery, *, now: datetime) -> None:
    """Let a delivery be tried at once, and for a day from now on."""
    Delivery.objects.filter(_is_free(now), pk=delivery.pk).update(
        state="pending",
        next_try_at=now,
        retry_until=now + timedelta(seconds=RETRY_S),
        attempts=0,
        lease_until=None,
    )
    delivery.refresh_from_db()


def _wants(channel: Channel, event: Event) -> bool:
    if event.at < channel.created_at:
        return False
    if channel.kinds is not None and event.kind not in channel.kinds:
        return False
    if channel.account_id is None:
        return True
    if event.account_id is None:
        return event.kind in FOR_EVERYBODY
    if channel.account_id != event.account_id:
        return False
    return channel.workspace_id in (None, event.workspace_id)


def _is_free(now: datetime) -> Q:
    return Q(lease_until__isnull=True) | Q(lease_until__lte=now)


def _wait_s(attempts: int) -> int:
    """10 s after the first try, three times as long after each further one, 4 h at most."""
    wait_s: int = _FIRST_WAIT_S * 3 ** min(attempts - 1, 10)
    return min(_LONGEST_WAIT_S, wait_s)
