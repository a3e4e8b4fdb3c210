"""Bringing events to channels, and letting both leave after EVENT_DAYS.

The rows are the truth: an event without `channels_found_at` waits for its deliveries, and one of
these is due from its `next_try_at` on. The sender takes its lease first; where a worker dies, the
lease ends and another one sends it. So a receiver may get a message twice, with the same id.

A receiver may answer late or never. So one channel has one message under way at most, and one
account two: nobody's receivers take all who send.
"""

import threading
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q, QuerySet

from accounts.events.kinds import FOR_EVERYBODY
from accounts.events.senders import SendFailed, send
from accounts.models import Channel, Delivery, Event
from accounts.spending import WINDOW_WORDS

LEASE_S: Final = 60
RETRY_S: Final = 86_400
_EVENTS_AT_ONCE: Final = 200
_UNDER_WAY_MAX: Final = 2  # Of an account, and of the operators' channels together.
_DELETED_AT_ONCE: Final = 1_000
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


def has_due(*, now: datetime) -> bool:
    """Whether somebody should send something."""
    return _select_due(now).exists()


def send_due(*, within_s: float) -> int:
    """Send what is due, one after the other, until nothing is left or the time is over; how many
    arrived."""
    arrived, stop_at = 0, time.monotonic() + within_s
    while time.monotonic() < stop_at:
        now = datetime.now(UTC)
        delivery = take_next(now=now)
        if delivery is None:
            break
        arrived += deliver(delivery, now=now)
    return arrived


# Two threads that count what is under way at once would both take an account's last place.
_taking: Final = threading.Lock()


def take_next(*, now: datetime) -> Delivery | None:
    """Take the lease of a delivery that is due: of an account that has least under way, the longest
    due. None where nothing may be sent now."""
    with _taking:
        leased = Delivery.objects.filter(state="pending", lease_until__gt=now)
        busy = dict(leased.values_list("channel_id", "channel__account_id"))
        under_way = Counter(busy.values())
        for most in range(_UNDER_WAY_MAX):
            full = [account_id for account_id, count in under_way.items() if count > most]
            due = _select_due(now).exclude(channel_id__in=busy)
            due = due.exclude(channel__account_id__in=[each for each in full if each])
            if None in full:
                due = due.exclude(channel__account_id__isnull=True)
            # Another process may take it first.
            while (delivery := due.select_related("event", "channel").first()) is not None:
                lease_until = now + timedelta(seconds=LEASE_S)
                taken = _select_due(now).filter(pk=delivery.pk)
                if taken.update(lease_until=lease_until, attempts=F("attempts") + 1):
                    delivery.lease_until = lease_until
                    delivery.attempts += 1
                    return delivery
    return None


def deliver(delivery: Delivery, *, now: datetime) -> bool:
    """Send a delivery whose lease was taken, and note what came of it; whether it arrived."""
    mine = Delivery.objects.filter(pk=delivery.pk, lease_until=delivery.lease_until)
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
        # 10 s after the first try, three times as long after each further one, 4 h at most.
        wait_s = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 3 ** min(delivery.attempts - 1, 10))
        next_try_at = now + timedelta(seconds=wait_s)
        mine.update(
            state="pending" if next_try_at <= delivery.retry_until else "failed",
            next_try_at=next_try_at,
            lease_until=None,
            answer_status=failure.status,
            error=str(failure)[:_ERROR_CHARS],
        )
        return False
    # Where a slow server outlived the lease, the next holder of it need not send the event again.
    Delivery.objects.filter(pk=delivery.pk, state="pending").update(
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


def _select_due(now: datetime) -> QuerySet[Delivery]:
    """What somebody should send, the longest due first."""
    due = Delivery.objects.filter(_is_free(now), state="pending", next_try_at__lte=now)
    return due.order_by("next_try_at")


def _is_free(now: datetime) -> Q:
    return Q(lease_until__isnull=True) | Q(lease_until__lte=now)


def forget_old_events(now: datetime) -> int:
    """Delete events that are past EVENT_DAYS and deliveries of such events. Delete channels that
    were deleted as long ago and have no deliveries left. Returns how many rows.

    What is announced before it ends would be recorded again while it is still to come. So is a
    crossing of a limit that never begins anew: its event stays, without deliveries.
    """
    days = max(settings.EVENT_DAYS, settings.EXPIRY_NOTICE_DAYS + 1)
    before = now - timedelta(days=days)
    old_deliveries = Delivery.objects.filter(event__at__lt=before).exclude(state="pending")
    ends = Q(data__window__isnull=True) | ~Q(data__window=WINDOW_WORDS["total"])
    old_events = Event.objects.filter(ends, at__lt=before, deliveries__isnull=True)
    old_channels = Channel.everything.filter(deleted_at__lt=before, deliveries__isnull=True)
    return sum(_delete(rows) for rows in (old_deliveries, old_events, old_channels))


def _delete(rows: QuerySet[Any]) -> int:
    """Delete in portions, so that locks are short."""
    total = 0
    while pks := list(rows.values_list("pk", flat=True)[:_DELETED_AT_ONCE]):
        total += rows.model._base_manager.filter(pk__in=pks).delete()[0]
    return total
