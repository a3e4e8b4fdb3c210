"""Sums of a page: what is rolled up is remembered, what came since is added."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from django.urls import reverse

from console.queries.sums import SumQuery, Sums, fetch_sums, rolled_sums
from console.queries.usage import list_top_tags, sum_by_day, sum_by_key
from console.scope import find_scope_of_account
from routing.history.metrics import METRICS
from routing.history.rollup import read_rollup_state, roll_up
from routing.history.spans import DAY, day_of
from tests.console.people import Team, ask, make_team

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture(autouse=True)
def forget_sums() -> Iterator[None]:
    rolled_sums.forget()
    yield
    rolled_sums.forget()


def build_query(team: Team) -> SumQuery:
    start = day_of(datetime.now(UTC)) - 9 * DAY
    metrics = (METRICS["request_count"], METRICS["credits_usage"])
    return SumQuery(team.account.pk, start, metrics, groups=("model",), time="day")


def add_up(sums: Sums) -> tuple[int, ...]:
    return tuple(map(sum, zip(*sums.values(), strict=True)))


def test_what_is_rolled_up_and_what_came_since_are_added_up(team: Team) -> None:
    for hours in (2, 3, 30, 50, 200):
        ask(team.keys["own"], f"gen-{hours}", ago=timedelta(hours=hours), charge_nano=hours)
    query, now = build_query(team), datetime.now(UTC)
    before = query.fetch(query.start, now + DAY, read_rollup_state(now))

    while roll_up(now):
        pass

    assert fetch_sums(query, now) == before
    # The second time from memory, with a request that came meanwhile.
    ask(team.keys["led"], "gen-new", charge_nano=7)
    found = fetch_sums(query, datetime.now(UTC) + timedelta(seconds=1))
    assert add_up(found) == (add_up(before)[0] + 1, add_up(before)[1] + 7)


def test_each_view_and_account_has_sums_of_its_own(team: Team) -> None:
    strangers = make_team("theirs")
    for each in (team, strangers):
        ask(each.keys["own"], f"gen-{each.account.name}", ago=timedelta(hours=5), charge_nano=10)
    now = datetime.now(UTC)
    while roll_up(now):
        pass

    admin = find_scope_of_account(team.people["admin"], team.account.pk)
    member = find_scope_of_account(team.people["member"], team.account.pk)
    assert sum(each.used.requests for each in sum_by_day(admin, now, days=3)) == 4
    assert sum(each.used.requests for each in sum_by_day(member, now, days=3)) == 2
    used = sum_by_key(admin, now - DAY, now)
    assert sum(row.used.requests for row in used.list_top_workspaces()) == 4
    names = {each.pk: each.name for each in team.account.workspaces.all()}
    assert {row.name for row in used.list_top_workspaces()} == set(names.values())


def test_tags_that_cost_most_come_first(team: Team) -> None:
    tags = {"team": "blue", "feature": "search"}
    ask(team.keys["own"], "gen-two", charge_nano=9, detail={"tags": tags})
    ask(team.keys["far"], "gen-one", charge_nano=30, detail={"tags": {"team": "red"}})
    old = {"tags": {"team": "old"}}
    ask(team.keys["far"], "gen-old", ago=timedelta(days=2), charge_nano=90, detail=old)
    scope = find_scope_of_account(team.people["admin"], team.account.pk)

    rows = list_top_tags(scope, datetime.now(UTC))

    found = [(row.value, row.used.spend_nano) for row in rows]
    assert found == [("team=red", 30), ("feature=search", 9), ("team=blue", 9)]
    text = team.client("member").get(reverse("console:top_models")).text
    assert ("tag=team%3Dblue" in text, "team=red" in text) == (True, False)
