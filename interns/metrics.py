"""Metrics of interns, read when somebody scrapes."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from django.db.models import Count, Min, Q

from gateway.database.db import Lane, run_queries
from gateway.metrics.families import ScrapedGauge
from gateway.metrics.scrape import Reading
from interns.models import Intern, Status

INTERNS: Final = ScrapedGauge("gateway_interns", "Interns by status.", "status")
JOBS: Final = ScrapedGauge(
    "gateway_intern_jobs_waiting", "Operations on interns that no worker has picked up."
)
OLDEST_JOB: Final = ScrapedGauge(
    "gateway_intern_jobs_oldest_seconds", "How long the oldest of them has waited; 0 without any."
)


def read_interns() -> list[Reading]:
    """The source of interns' metrics (`gateway.metrics.scrape`)."""
    return run_queries(Lane.OPERATOR, lambda: list(_read_interns()))


def _read_interns() -> Iterator[Reading]:
    statuses = Intern.objects.values_list("status").annotate(Count("pk")).order_by()
    counts = dict.fromkeys(Status.values, 0) | dict(statuses)
    for status, count in counts.items():
        yield Reading(INTERNS, count, (status,))
    waiting = Intern.objects.aggregate(
        n=Count("pk", filter=Q(lease_id__isnull=False, picked_at__isnull=True)),
        since=Min("operation_since", filter=Q(lease_id__isnull=False, picked_at__isnull=True)),
    )
    yield Reading(JOBS, waiting["n"])
    since = waiting["since"]
    age_s = (datetime.now(UTC) - since).total_seconds() if since else 0.0
    yield Reading(OLDEST_JOB, max(0.0, age_s))
