"""How endpoints do now, as this process knows it, and how they did over a period."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from django.conf import settings

from routing.admin.charts import Stretch, load_stretches
from routing.catalogue.listing import LearnedStats
from routing.history.spans import DAY
from routing.statistics import observation
from routing.statistics.models import EndpointSample

_STEP_OF_DAY: Final = timedelta(minutes=30)
_STEP: Final = timedelta(hours=6)


def read_learned() -> LearnedStats:
    """Figures and health of endpoints."""
    return LearnedStats(observation.endpoint_stats(), observation.health_snapshot())


class HealthHistory(NamedTuple):
    """From `start` on: the period's, or as far back as samples are kept. `samples` are five minutes
    each in which there were calls; `stretches` are `step` each, without gaps. Both are empty where
    there were none."""

    start: datetime
    days: int
    step: timedelta
    samples: Sequence[Stretch]
    stretches: Sequence[Stretch]

    @property
    def label(self) -> str:
        """As periods are called."""
        return f"{self.days} days" if self.days > 1 else "24 hours"

    @property
    def moments(self) -> list[datetime]:
        return [each.started_at for each in self.stretches]


def load_health_history(endpoints: Any, now: datetime, length: timedelta) -> HealthHistory:
    """Of these endpoints together: their keys, or a query for them. All accounts' calls count."""
    length = min(length, settings.ROUTER_HISTORY_DAYS * DAY)
    step = _STEP_OF_DAY if length <= DAY else _STEP
    start = now - length
    rows = EndpointSample.objects.filter(endpoint__in=endpoints, started_at__gte=start)
    samples = load_stretches(rows)
    parts: dict[datetime, list[Stretch]] = {}
    for each in samples:
        parts.setdefault(_floor(each.started_at, step), []).append(each)
    at, stretches = _floor(start, step), []
    while samples and at <= now:
        stretches.append(_add_up(at, parts.get(at, ())))
        at += step
    return HealthHistory(start, length // DAY, step, samples, stretches)


def _floor(at: datetime, step: timedelta) -> datetime:
    """The beginning of the step; steps are counted from midnight in UTC."""
    step_s = int(step.total_seconds())
    return datetime.fromtimestamp(int(at.timestamp()) // step_s * step_s, UTC)


def _add_up(start: datetime, parts: Sequence[Stretch]) -> Stretch:
    """The samples of a step as one stretch; a step without any has no calls."""
    return Stretch(
        start,
        sum(each.calls for each in parts),
        sum(each.errors for each in parts),
        sum(each.rate_limited for each in parts),
        _average([(each.p50_ms, each.calls) for each in parts]),
        _average([(each.p90_ms, each.calls) for each in parts]),
    )


def _average(values: Sequence[tuple[float | None, int]]) -> float | None:
    timed = [(value, calls) for value, calls in values if value is not None]
    calls = sum(each for _, each in timed)
    return sum(value * each for value, each in timed) / calls if calls else None
