"""Pages of interns: order, filters, cursors, and queries that are none."""

import base64
from typing import Any

import pytest

from interns.models import Intern
from tests.interns.farm import Farm

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture(autouse=True)
def roomy(settings: Any) -> None:
    settings.INTERNS_MAX_PER_MEMBER = 100


def names(answer: Any) -> list[str]:
    return [each["name"] for each in answer["data"]]


def test_the_newest_comes_first(farm: Farm) -> None:
    for name in ("first", "second", "third"):
        farm.new(name)

    answer = farm.ok("GET", "/interns")
    assert names(answer) == ["third", "second", "first"]
    assert (answer["has_more"], "next_cursor" in answer) == (False, False)


def test_a_cursor_goes_on_where_the_page_ended(farm: Farm) -> None:
    for number in range(5):
        farm.new(f"n-{number}")
    # Those of one moment stand in the order of their ids.
    moment = Intern.objects.earliest("created_at").created_at
    Intern.objects.update(created_at=moment)
    whole = names(farm.ok("GET", "/interns"))

    seen, path = [], "/interns?limit=2"
    for _ in range(3):
        answer = farm.ok("GET", path)
        seen += names(answer)
        if answer["has_more"]:
            path = f"/interns?limit=2&starting_after={answer['next_cursor']}"
    assert seen == whole
    assert answer["has_more"] is False


def test_statuses_can_be_chosen(farm: Farm) -> None:
    farm.new("fresh")
    farm.running("busy")

    assert names(farm.ok("GET", "/interns?status=running")) == ["busy"]
    assert names(farm.ok("GET", "/interns?status=running,failed,running")) == ["busy"]
    both = "awaiting_slack_install,running"
    assert names(farm.ok("GET", f"/interns?status={both}")) == ["busy", "fresh"]
    assert names(farm.ok("GET", f"/interns?workspace_id={farm.workspace.pk}")) == ["busy", "fresh"]


def cursor(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "query",
    [
        *("limit=0", "limit=501", "limit=x", "limit=", "limit=1.5", "limit=-1"),
        *("status=", "status=gone", "status=running,", "status=Running"),
        *("workspace_id=x", "workspace_id=00000000-0000-4000-8000-000000000000"),
        *("starting_after=", "starting_after=!!", "starting_after=x", "foo=1", "offset=0"),
        *("limit=1&limit=2", "limit=1&limit=1", "status=running&status=failed"),
        f"starting_after={cursor('2026-01-01|none')}",
        f"starting_after={cursor('2026-01-01T00:00:00|00000000-0000-4000-8000-000000000000')}",
    ],
)
def test_queries_that_are_none(farm: Farm, query: str) -> None:
    refused = farm.refused(400, "invalid_body", "GET", f"/interns?{query}")
    assert refused["message"] == "Invalid list query"
    assert refused["metadata"]["retryable"] is False


def test_a_page_costs_the_same_however_long_it_is(
    farm: Farm, django_assert_max_num_queries: Any
) -> None:
    for number in range(6):
        farm.new(f"n-{number}")

    with django_assert_max_num_queries(4):
        assert len(names(farm.ok("GET", "/interns?limit=500"))) == 6
