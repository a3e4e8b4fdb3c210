"""How often models answer, counted once each and by day."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from django.db import OperationalError

from accounts.services.keys import create_key
from accounts.services.organization import open_account
from routing.metering import popularity as counting
from routing.metering.popularity import Calls, CallsCounted, DailyCalls, Popularity, count_calls
from tests.support.operations import generation

pytestmark = [pytest.mark.django_db, pytest.mark.both]
NOW = datetime(2026, 3, 20, 12, 30, tzinfo=UTC)
MINUTE, HOUR, DAY = (timedelta(**{unit: 1}) for unit in ("minutes", "hours", "days"))
Answered = Callable[..., None]
_number = count()


@pytest.fixture
def record_answers(db: None) -> Answered:
    """`record_answers("a/one", ago)`: a generation of that model, begun then."""
    account = open_account(name="mine")
    workspace = account.workspaces.get()
    key, _ = create_key(account=account, name="k", workspace=workspace)
    owner = {"account": account, "workspace": workspace, "api_key": key}

    def make(model: str, *agos: timedelta, status: int = 200) -> None:
        for ago in agos:
            made = {"id": f"gen-{next(_number)}", "created_at": NOW - ago}
            generation(model=model, status=status, **made, **owner)

    return make


def rows() -> dict[tuple[str, str], int]:
    return {(row.model, row.day.isoformat()): row.calls for row in DailyCalls.objects.all()}


def test_calls_are_counted_by_model_and_day(record_answers) -> None:
    record_answers("a/one", 3 * DAY, 2 * HOUR, 3 * HOUR)
    record_answers("a/two", 3 * HOUR)
    record_answers("a/two", HOUR, status=502)
    assert count_calls(NOW) == 4
    days = {("a/one", "2026-03-17"): 1, ("a/one", "2026-03-20"): 2, ("a/two", "2026-03-20"): 1}
    assert rows() == days


def test_each_call_is_counted_once_and_not_before_it_can_have_ended(record_answers) -> None:
    record_answers("a/one", 2 * HOUR, MINUTE)
    assert [count_calls(NOW), count_calls(NOW)] == [1, 0]
    # A long call that began before the others were counted, and has ended since.
    record_answers("a/one", 2 * MINUTE)
    assert count_calls(NOW + HOUR) == 2
    assert rows() == {("a/one", "2026-03-20"): 3}


def test_counting_an_hour_asks_the_database_a_few_times(
    record_answers, django_assert_num_queries
) -> None:
    for n in range(20):
        record_answers(f"a/m{n}", HOUR)
    CallsCounted.objects.create(pk=1, until=NOW - HOUR - 10 * MINUTE)
    # Mark, count, begin, move, read, write, commit, clear away.
    with django_assert_num_queries(8):
        assert count_calls(NOW - 40 * MINUTE) == 20


def test_who_loses_the_race_writes_nothing(record_answers, monkeypatch) -> None:
    record_answers("a/one", 2 * HOUR)
    CallsCounted.objects.create(pk=1, until=NOW - 3 * HOUR)
    count_hour = counting._count_answered

    def overtaken(since: datetime, until: datetime) -> dict[str, int]:
        found = count_hour(since, until)
        CallsCounted.objects.update(until=NOW)
        return found

    monkeypatch.setattr(counting, "_count_answered", overtaken)

    assert (count_calls(NOW), rows()) == (0, {})


def test_days_of_long_ago_are_cleared_away_and_not_counted_at_first(record_answers) -> None:
    record_answers("a/old", 40 * DAY)
    record_answers("a/new", 20 * DAY)
    DailyCalls.objects.create(model="a/gone", day=(NOW - 31 * DAY).date(), calls=5)
    assert count_calls(NOW) == 1
    assert rows() == {("a/new", "2026-02-28"): 1}


def test_the_last_days_are_added_up() -> None:
    for days, calls in ((0, 1), (6, 10), (7, 100), (29, 1000), (30, 10_000)):
        DailyCalls.objects.create(model="a/one", day=(NOW - days * DAY).date(), calls=calls)
    DailyCalls.objects.create(model="a/two", day=(NOW - 20 * DAY).date(), calls=3)
    assert counting.read_calls(NOW) == {"a/one": Calls(11, 1111), "a/two": Calls(0, 3)}


def test_a_process_reads_them_once_a_minute_and_outlives_the_database(
    monkeypatch, django_assert_num_queries
) -> None:
    DailyCalls.objects.create(model="a/one", day=datetime.now(UTC).date(), calls=3)
    known = Popularity()

    with django_assert_num_queries(1):
        assert known.calls() == known.calls() == {"a/one": Calls(3, 3)}
    known.forget()

    def fail_read(now: datetime) -> dict[str, Calls]:
        raise OperationalError("gone")

    monkeypatch.setattr(counting, "read_calls", fail_read)
    assert known.calls() == {"a/one": Calls(3, 3)}
