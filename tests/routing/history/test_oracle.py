"""Analytics against the same sums by plain Python, whatever is rolled up at the moment."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from routing.history import models
from routing.history.analytics import fetch_rows
from routing.history.dialect import dialect
from routing.history.metrics import DIMENSIONS, METRICS
from routing.history.rollup import roll_up
from routing.history.spans import hour_of
from routing.history.statement import UsageQuery
from routing.metering.models import Generation
from tests.routing.history.records import (
    APPS,
    MODELS,
    NOW,
    USERS,
    Fact,
    Office,
    group_facts,
    metric,
    office,
    save,
)

pytestmark = [pytest.mark.django_db, pytest.mark.both]
TRIES = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
counts = st.integers(0, 200_000)
moments = st.one_of(
    st.integers(0, 4 * 86_400),
    st.integers(0, 3 * 3_600),
    # The edges of hours and days.
    st.integers(0, 96).map(lambda hours: hours * 3_600 + 2_096),
).map(lambda seconds: NOW - timedelta(seconds=seconds, microseconds=seconds % 7))


FACTS = st.lists(
    st.builds(
        Fact,
        id=st.just(""),
        at=moments,
        key=st.integers(0, 2),
        model=st.sampled_from(MODELS),
        provider=st.sampled_from(("First", "Second", None)),
        app=st.sampled_from(APPS),
        user=st.sampled_from(USERS),
        finish=st.sampled_from(("stop", "length", None)),
        prompt=counts,
        completion=st.integers(0, 3000),
        cached=st.integers(0, 50),
        charge=counts,
        cost=counts,
        byok=st.booleans(),
        own=st.none() | st.tuples(counts, counts),
        guarded=st.booleans(),
        status=st.sampled_from((200, 200, 502)),
        latency=st.none() | st.integers(0, 50) | st.integers(0, 3000),
        took=st.none() | st.integers(0, 5000),
        lost=st.sampled_from((False, False, False, True)),
    ),
    max_size=25,
).map(lambda made: [replace(fact, id=f"gen-{number}") for number, fact in enumerate(made)])


@st.composite
def spans(draw: st.DrawFn) -> tuple[datetime, datetime]:
    start, end = draw(moments), draw(moments)
    return min(start, end), max(start, end) + timedelta(seconds=draw(st.integers(1, 9000)))


@pytest.fixture
def mine() -> Office:
    return office()


@TRIES
@given(
    all_facts=FACTS,
    late=st.integers(0, 25),
    rolled_at=moments,
    span=spans(),
    granularity=st.sampled_from((None, "minute", "hour", "day", "week", "month")),
    dimensions=st.lists(st.sampled_from(sorted(DIMENSIONS)), max_size=2, unique=True),
    metrics=st.lists(st.sampled_from(sorted(METRICS)), min_size=1, max_size=6, unique=True),
)
def test_every_figure_is_the_sum_of_its_generations(
    mine: Office,
    all_facts: list[Fact],
    late: int,
    rolled_at: datetime,
    span: tuple[datetime, datetime],
    granularity: Any,
    dimensions: list[str],
    metrics: list[str],
) -> None:
    start_over()
    save(mine, all_facts[late:])
    roll_up(rolled_at)
    # They come after the hour was rolled up, and whoever writes them says so.
    save(mine, all_facts[:late])
    for fact in all_facts[:late]:
        models.LateHour.objects.create(hour=hour_of(fact.at))

    start, end = span
    inside = [fact for fact in all_facts if start <= fact.at < end]
    wanted = group_facts(mine, inside, granularity, dimensions)
    for _ in range(2):
        check(mine, span, granularity, dimensions, metrics, wanted)
        # Rolled up anew, nothing changes.
        roll_up(rolled_at)


def start_over() -> None:
    rolled = (models.UsageRolled, models.LateHour, models.GenerationFact)
    summed = (models.UsageHour, models.UsageDay, models.UsageBrief, models.UsageLine)
    for model in (Generation, *rolled, *summed, models.UsageSpread):
        model.objects.all().delete()


def check(
    mine: Office,
    span: tuple[datetime, datetime],
    granularity: Any,
    dimensions: list[str],
    metrics: list[str],
    wanted: dict[tuple[Any, ...], list[Fact]],
) -> None:
    asked = UsageQuery(
        account_id=mine.account.pk,
        start=span[0],
        end=span[1],
        metrics={name: METRICS[name] for name in metrics},
        groups=tuple(DIMENSIONS[name].column for name in dimensions),
        time=granularity,
        order=((metrics[0], True),),
        limit=1000,
        singles=any(DIMENSIONS[name].is_single for name in dimensions),
    )
    rows = fetch_rows(asked, NOW)
    told = {key_of(row, granularity, dimensions): row for row in rows}
    assert set(told) == set(wanted)
    for key, of_key in wanted.items():
        for name in metrics:
            value, truth = told[key][name], metric(name, of_key)
            assert (value is None) == (truth is None), name
            if truth is not None:
                assert float(value) == pytest.approx(float(truth)), name
    first = [float(row[metrics[0]]) for row in rows if row[metrics[0]] is not None]
    assert first == sorted(first, reverse=True)


def key_of(row: dict[str, Any], granularity: str | None, dimensions: list[str]) -> tuple[Any, ...]:
    period = [dialect().parse_moment(row["period"])] if granularity else []
    values = [row[f"by_{number}"] for number in range(len(dimensions))]
    named = zip(dimensions, values, strict=True)
    return (*period, *(str(UUID(str(v))) if name == "workspace" else v for name, v in named))
