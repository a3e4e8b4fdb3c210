"""How often each model answers, by day: what `GET /models` sorts by without a look at generations.

Every few minutes the generations that came since are counted, once each. A record is written when
its call has ended and bears the moment it began, so counting stays behind by the longest call.
"""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from types import MappingProxyType
from typing import Final, NamedTuple

from django.conf import settings
from django.db import models, transaction
from django.db.models import Count, Q, Sum

from gateway.database.db import DATABASE_GONE, Lane, run_queries
from routing.metering.models import Generation

log = logging.getLogger("routing.popularity")

WEEK_DAYS: Final = 7
MONTH_DAYS: Final = 30
_FRESH_S: Final = 60.0
_HOUR: Final = timedelta(hours=1)


class DailyCalls(models.Model):
    """How often a model answered on a day (UTC)."""

    model = models.CharField(max_length=200)
    day = models.DateField()
    calls = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="routing_daily_calls_once_per_model_and_day", fields=["day", "model"]
            ),
        ]
        verbose_name_plural = "daily calls"

    def __str__(self) -> str:
        return f"{self.model} {self.day}"


class CallsCounted(models.Model):
    """Up to when generations are in `DailyCalls`: one row."""

    until = models.DateTimeField()

    class Meta:
        verbose_name_plural = "calls counted"

    def __str__(self) -> str:
        return f"until {self.until}"


class Calls(NamedTuple):
    """How often a model answered in the last 7 and in the last 30 days."""

    week: int = 0
    month: int = 0


def count_calls(now: datetime) -> int:
    """Count the generations since the last run that can have ended; returns how many.

    Two runs at once do not count twice: only the one that moves the mark writes.
    """
    ended_by = now - timedelta(
        seconds=max(settings.ROUTER_TOTAL_TIMEOUT, settings.HOLD_LEASE_SECONDS) + 60
    )
    row = CallsCounted.objects.filter(pk=1).first()
    if row is None:
        first = Generation.objects.order_by("created_at").values_list("created_at", flat=True)
        since = max(ended_by - timedelta(days=MONTH_DAYS), first.first() or ended_by)
        row, _ = CallsCounted.objects.get_or_create(pk=1, defaults={"until": since})
    counted, mark = 0, row.until
    while mark < ended_by:
        until = min(mark.replace(minute=0, second=0, microsecond=0) + _HOUR, ended_by)
        answered = _count_answered(mark, until)
        if not _add_counts(mark, until, answered):
            break
        counted, mark = counted + sum(answered.values()), until
    DailyCalls.objects.filter(day__lte=_days_before(now, MONTH_DAYS + 1)).delete()
    return counted


def _count_answered(since: datetime, until: datetime) -> dict[str, int]:
    """Calls by model within an hour, read before anything is locked."""
    rows = Generation.objects.filter(created_at__gte=since, created_at__lt=until, status=200)
    counts = rows.order_by().values("model").annotate(calls=Count("pk"))
    return dict(counts.values_list("model", "calls"))


def _add_counts(since: datetime, until: datetime, answered: Mapping[str, int]) -> bool:
    """Add the counts, unless another run has moved the mark meanwhile."""
    day = since.astimezone(UTC).date()
    with transaction.atomic():
        if not CallsCounted.objects.filter(pk=1, until=since).update(until=until):
            return False
        known = DailyCalls.objects.filter(day=day, model__in=answered)
        before = dict(known.values_list("model", "calls"))
        DailyCalls.objects.bulk_create(
            [
                DailyCalls(model=model, day=day, calls=before.get(model, 0) + calls)
                for model, calls in answered.items()
            ],
            update_conflicts=True,
            unique_fields=["day", "model"],
            update_fields=["calls"],
        )
    return True


def read_calls(now: datetime) -> dict[str, Calls]:
    """Calls of the last days by model. The table has a row for each model and day."""
    rows = DailyCalls.objects.filter(day__gt=_days_before(now, MONTH_DAYS))
    week = Q(day__gt=_days_before(now, WEEK_DAYS))
    sums = (
        rows.order_by()
        .values("model")
        .annotate(month=Sum("calls"), week=Sum("calls", filter=week, default=0))
    )
    return {row["model"]: Calls(row["week"], row["month"]) for row in sums}


def _days_before(now: datetime, days: int) -> date:
    return now.astimezone(UTC).date() - timedelta(days=days)


@dataclass
class Popularity:
    """The process's copy of the counts, at most a minute old."""

    _calls: Mapping[str, Calls] = field(default_factory=lambda: MappingProxyType({}))
    _read_at: float | None = None

    def calls(self) -> Mapping[str, Calls]:
        """Calls by model; the last ones known where the database does not answer."""
        now = time.monotonic()
        if self._read_at is None or now - self._read_at >= _FRESH_S:
            # Noted before the query, so that those who come meanwhile do not ask too.
            self._read_at = now
            try:
                self._calls = run_queries(Lane.OPERATOR, lambda: read_calls(datetime.now(UTC)))
            except DATABASE_GONE as error:
                log.warning("calls not read: %s", error)
        return self._calls

    def forget(self) -> None:
        """Read at the next use."""
        self._read_at = None


popularity = Popularity()
