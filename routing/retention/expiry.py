"""Records of single requests leave after GENERATION_DAYS: generations with their figures, contents
and feedback, and refusals. Sums of hours and days and the ledger stay.

Nothing leaves before it is summed up. How far it went stands in `UsageRolled.forgotten_before`,
written before the first row goes: hours before it are never summed up again from what is left.
"""

import time
from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.db import transaction

from routing.history.models import (
    GenerationContent,
    GenerationFact,
    GenerationFeedback,
    LateHour,
    UsageRolled,
)
from routing.history.rollup import FACTS_KEPT, delete_older
from routing.history.spans import day_of
from routing.metering.models import Generation
from routing.metering.popularity import CallsCounted
from routing.reports.models import FailedRequest, FailedRequestCount
from routing.retention.partitions import drop_partitions, find_deletion_end

# What is left is for the next run.
_WORK_S: Final = 240.0
_RECORDS: Final[tuple[tuple[Any, str], ...]] = (
    (GenerationContent, "created_at"),
    (GenerationFact, "at"),
    (Generation, "created_at"),
    (FailedRequest, "at"),
    (FailedRequestCount, "minute"),
)


def forget_expired(now: datetime, *, work_s: float = _WORK_S) -> int:
    """Let records leave that are past GENERATION_DAYS: by whole months where a table has
    partitions, else in portions. Returns how many rows were deleted."""
    if not settings.GENERATION_DAYS:
        return 0
    with transaction.atomic():
        # Whoever sums up hours waits for it, and sees the mark.
        rolled = UsageRolled.objects.select_for_update().filter(pk=1).first()
        calls = CallsCounted.objects.filter(pk=1).first()
        if rolled is None or calls is None:
            return 0
        # Full days (UTC) that are summed up.
        done = [now - timedelta(days=settings.GENERATION_DAYS), rolled.until, calls.until]
        late = LateHour.objects.order_by("hour").first()
        if late is not None:
            done.append(late.hour)
        before = day_of(min(done))
        if rolled.forgotten_before is not None and before <= rolled.forgotten_before:
            before = rolled.forgotten_before
        else:
            rolled.forgotten_before = before
            rolled.save(update_fields=["forgotten_before"])
    stop_at = time.monotonic() + work_s
    # Only generations say whose feedback it is, so it leaves before them.
    deleted = delete_older(GenerationFeedback, "generation_at", before, stop_at=stop_at)
    return deleted + sum(_forget(model, column, before, stop_at) for model, column in _RECORDS)


def forget_facts(now: datetime, *, work_s: float = _WORK_S) -> int:
    """Let figures leave that no query reaches any more, in the same way."""
    return _forget(GenerationFact, "at", now - FACTS_KEPT, time.monotonic() + work_s)


def _forget(model: Any, column: str, before: datetime, stop_at: float) -> int:
    """Drop whole months, delete what stands in none; returns how many rows were deleted."""
    table = model._meta.db_table
    drop_partitions(table, before)
    return delete_older(model, column, find_deletion_end(table, before), stop_at=stop_at)
