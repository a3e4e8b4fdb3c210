"""Events and their deliveries leave after EVENT_DAYS."""

from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.db.models import Q, QuerySet

from accounts.models import Channel, Delivery, Event
from accounts.spending import WINDOW_WORDS

_AT_ONCE: Final = 1_000


def forget_old_events(now: datetime) -> int:
    """Delete events that are past EVENT_DAYS, deliveries of such events, and channels that were
    deleted as long ago and have no deliveries left; returns how many rows.

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
    while pks := list(rows.values_list("pk", flat=True)[:_AT_ONCE]):
        total += rows.model._base_manager.filter(pk__in=pks).delete()[0]
    return total
