"""Rolling up, forgetting, and what is told when either has not happened or has long ago."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from routing import tasks
from routing.history import rollup
from routing.history.activity import read_activity
from routing.history.analytics import fetch_rows
from routing.history.columns import CUTS, NARROWEST_CUT
from routing.history.metrics import METRICS
from routing.history.models import (
    GenerationFact,
    LateHour,
    UsageBrief,
    UsageDay,
    UsageHour,
    UsageRolled,
    UsageSpread,
)
from routing.history.rollup import forget_old, roll_up
from routing.history.schemas import ActivityQuery
from routing.history.spans import DAY, HOUR, day_of, hour_of
from routing.history.statement import UsageQuery
from routing.retention import forget_facts
from tests.routing.history.records import NOW, Fact, Office, office, save

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture
def mine() -> Office:
    return office()


def tables() -> dict[str, Any]:
    """All that was rolled up; numbers of rows are the database's own."""
    kinds = (GenerationFact, UsageHour, UsageDay, UsageBrief, UsageSpread)
    return {
        kind.__name__: sorted(
            tuple((name, str(value)) for name, value in row.items() if name != "id")
            for row in kind.objects.values()
        )
        for kind in kinds
    }


def ask_usage(mine: Office, start: datetime, end: datetime, **more: Any) -> list[dict[str, Any]]:
    metrics = {name: METRICS[name] for name in ("request_count", "p99_latency")}
    return fetch_rows(UsageQuery(mine.account.pk, start, end, metrics, **more), NOW)


def test_rolling_up_twice_changes_nothing(mine: Office) -> None:
    save(mine, [Fact(f"gen-{n}", NOW - n * 5 * HOUR, key=n % 3, charge=n) for n in range(12)])
    assert roll_up(NOW) == 11  # The newest is of the hour that goes on.
    first = tables()
    LateHour.objects.create(hour=hour_of(NOW - 10 * HOUR))
    assert roll_up(NOW) == 1
    assert roll_up(NOW) == 0
    assert tables() == first
    assert len(first["UsageHour"]) == 11
    assert not LateHour.objects.exists()


def test_days_are_summed_up_once_they_are_over(mine: Office) -> None:
    today = day_of(NOW)
    save(mine, [Fact("gen-1", today - HOUR, key=0), Fact("gen-2", today + HOUR, key=0)])
    roll_up(NOW)
    assert [row.start for row in UsageDay.objects.all()] == [today - DAY]
    save(mine, [Fact("gen-3", today - 2 * HOUR, key=0)])
    LateHour.objects.create(hour=today - 2 * HOUR)
    roll_up(NOW)
    assert [(row.start, row.requests) for row in UsageDay.objects.all()] == [(today - DAY, 2)]


def test_an_hour_is_left_alone_until_its_records_are_there(mine: Office) -> None:
    hour = hour_of(NOW)
    save(mine, [Fact("gen-1", hour - HOUR, key=0), Fact("gen-2", hour, key=0)])
    roll_up(hour + timedelta(minutes=9))
    assert UsageRolled.objects.get().until == hour - HOUR
    roll_up(hour + timedelta(minutes=10))
    assert UsageRolled.objects.get().until == hour
    assert GenerationFact.objects.count() == 1


def test_no_more_is_done_than_there_is_time_for(mine: Office) -> None:
    save(mine, [Fact(f"gen-{n}", NOW - n * DAY, key=0) for n in range(1, 4)])
    assert roll_up(NOW, work_s=0) == 0
    assert not UsageHour.objects.exists()
    assert roll_up(NOW) == 3


def test_nothing_is_rolled_up_where_there_is_nothing() -> None:
    assert roll_up(NOW) == 0
    assert UsageRolled.objects.get().until == hour_of(NOW)


def test_what_is_forgotten_is_told_from_the_records(mine: Office) -> None:
    old, older = NOW - 40 * DAY, NOW - 401 * DAY
    moments = (old, older, NOW - DAY)
    save(mine, [Fact(f"gen-{n}", at, key=0) for n, at in enumerate(moments, 1)])
    roll_up(NOW)
    assert {row.pk for row in GenerationFact.objects.all()} == {"gen-3"}
    assert UsageHour.objects.count() == 3
    assert forget_old(NOW) == 3
    minute = timedelta(minutes=1)
    for start, end, more in [
        *((at - minute, at + HOUR, {"time": "minute"}) for at in (old, older)),
        (old - DAY, old + 2 * DAY, {}),
    ]:
        (row,) = ask_usage(mine, start, end, **more)
        assert (row["request_count"], row["p99_latency"]) == (1, 100)


def test_facts_and_spreads_go_after_their_days(mine: Office) -> None:
    save(mine, [Fact("gen-1", NOW - 2 * DAY, key=0)])
    roll_up(NOW)
    spreads = UsageSpread.objects.count()
    assert spreads >= len(CUTS)
    assert (forget_old(NOW + 30 * DAY), forget_facts(NOW + 30 * DAY)) == (0, 0)
    assert (forget_old(NOW + 32 * DAY), forget_facts(NOW + 32 * DAY)) == (spreads, 1)
    assert not GenerationFact.objects.exists()


@pytest.mark.parametrize(
    "groups",
    [
        (),
        ("provider_name",),
        ("permaslug", "workspace_id"),
        ("user",),
        ("app",),
        ("finish_reason",),
    ],
)
def test_percentiles_of_whole_days_look_at_no_fact(mine: Office, groups: tuple[str, ...]) -> None:
    start = day_of(NOW) - 2 * DAY
    save(mine, [Fact(f"gen-{n}", start + n * HOUR / 5, key=0, latency=n**2) for n in range(201)])
    roll_up(NOW)
    with CaptureQueriesContext(connection) as captured:
        (row,) = ask_usage(mine, start, start + 2 * DAY, groups=groups)
    # Of the rows and of what had been rolled up.
    assert len(captured) == 2
    assert row["p99_latency"] == 198**2
    sql = captured.captured_queries[-1]["sql"]
    assert "routing_usagespread" in sql
    assert "routing_generation" not in sql


def test_the_first_page_of_activity_reads_days_in_brief_however_many_generations(
    mine: Office,
) -> None:
    start = day_of(NOW) - 30 * DAY
    save(mine, [Fact(f"gen-{n}", start + n * 8 * HOUR, key=n % 2) for n in range(90)])
    roll_up(NOW)
    with CaptureQueriesContext(connection) as captured:
        rows = read_activity(mine.account.pk, ActivityQuery(), NOW)

    assert len(rows) == 30
    read = re.findall(r"routing_\w+", " ".join(each["sql"] for each in captured))
    rolled_up = {"routing_usagerolled", "routing_latehour"}
    assert set(read) - rolled_up == {"routing_usagebrief", "routing_usageline"}


@pytest.mark.parametrize("more", [{"time": "hour"}, {"groups": ("provider_name", "api_key_id")}])
def test_percentiles_of_less_than_whole_days_or_of_more_columns(
    mine: Office, more: dict[str, Any]
) -> None:
    start = day_of(NOW) - DAY
    save(mine, [Fact("gen-1", start, key=0, latency=70), Fact("gen-2", start, key=0, latency=90)])
    roll_up(NOW)
    with CaptureQueriesContext(connection) as captured:
        (row,) = ask_usage(mine, start, start + DAY, **more)
    assert row["p99_latency"] == 90
    assert "routing_usagespread" not in captured.captured_queries[-1]["sql"]


def test_days_that_an_older_version_rolled_up_get_their_briefs(mine: Office) -> None:
    start = day_of(NOW) - 3 * DAY
    save(mine, [Fact(f"gen-{n}", start + n * HOUR, key=0, latency=n) for n in range(60)])
    roll_up(NOW - DAY)
    mark = UsageRolled.objects.get()
    UsageBrief.objects.all().delete()
    UsageSpread.objects.filter(cut=NARROWEST_CUT).delete()
    # What it knows nothing of is null, and the days it rolls up later are in no brief either.
    mark.brief_days_from = mark.brief_days_until = None
    mark.save()

    def ask() -> tuple[int, float, bool]:
        with CaptureQueriesContext(connection) as captured:
            (row,) = ask_usage(mine, start, start + 3 * DAY, groups=("provider_name",))
        is_brief = "routing_usagebrief" in captured.captured_queries[-1]["sql"]
        return row["request_count"], row["p99_latency"], is_brief

    assert ask() == (60, 59, False)
    roll_up(NOW)
    assert ask() == (60, 59, True)
    assert UsageBrief.objects.count() == UsageDay.objects.values("start").distinct().count()


def test_a_former_version_beside_makes_no_day_anew_and_its_own_day_is_made_anew(
    mine: Office,
) -> None:
    start = day_of(NOW) - 2 * DAY
    save(mine, [Fact(f"gen-{n}", start + n * HOUR, key=0, latency=n) for n in range(60)])
    roll_up(NOW - DAY)
    before = UsageRolled.objects.get()
    roll_up(NOW)
    mark = UsageRolled.objects.get()
    assert mark.briefs_until == mark.brief_days_until == day_of(NOW)
    # The former one moves what it knows of, and cuts its days another way.
    mark.brief_days_until = before.brief_days_until
    mark.save()
    UsageSpread.objects.filter(cut=NARROWEST_CUT, start=day_of(NOW) - DAY).delete()

    def read_latency() -> float:
        (row,) = ask_usage(mine, start, start + 2 * DAY, groups=("provider_name",))
        return float(row["p99_latency"])

    assert read_latency() == 47
    roll_up(NOW + HOUR)
    assert UsageRolled.objects.get().brief_days_from == datetime(1970, 1, 1, tzinfo=UTC)
    assert UsageSpread.objects.filter(cut=NARROWEST_CUT, start=day_of(NOW) - DAY).exists()
    assert read_latency() == 47


def test_the_schedule_does_both(mine: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    # As 400 days take long to sum up.
    monkeypatch.setattr(rollup, "_SUMS_KEPT", 40 * DAY)
    save(mine, [Fact("gen-1", datetime.now(UTC) - 42 * DAY, key=0)])
    assert tasks.roll_up_usage() == 1
    assert tasks.forget_old_history() == 3


def test_an_operator_sums_up_what_came_past_the_gateway(
    mine: Office, capsys: pytest.CaptureFixture[str]
) -> None:
    now = datetime.now(UTC)
    roll_up(now)
    save(mine, [Fact("gen-1", now - 3 * HOUR, key=0)])
    assert roll_up(now) == 0
    call_command("roll_up_usage", since=str((now - DAY).date()))
    assert "hours: " in capsys.readouterr().out
    assert UsageHour.objects.get().requests == 1
