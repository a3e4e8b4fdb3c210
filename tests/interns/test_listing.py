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


def test_the_newest_comes_first_and_a_cursor_goes_on_where_the_page_ended(
    farm: Farm, django_assert_max_num_queries: Any
) -> None:
    for number in range(5):
        farm.new(f"n-{number}")
    # A page costs the same however long it is.
    with django_assert_max_num_queries(4):
        whole = farm.ok("GET", "/interns?limit=500")
    assert names(whole) == [f"n-{number}" for number in (4, 3, 2, 1, 0)]
    assert (whole["has_more"], "next_cursor" in whole) == (False, False)

    # Those of one moment stand in the order of their ids.
    moment = Intern.objects.earliest("created_at").created_at
    Intern.objects.update(created_at=moment)
    seen, path = [], "/interns?limit=2"
    for _ in range(3):
        answer = farm.ok("GET", path)
        seen += names(answer)
        if answer["has_more"]:
            path = f"/interns?limit=2&starting_after={answer['next_cursor']}"
    assert seen == names(farm.ok("GET", "/interns"))
    assert answer["has_more"] is False


def test_statuses_can_be_chosen(farm: Farm) -> None:
    farm.new("fresh")
    farm.create_running("busy")
    for query, wanted in {
        "status=running": ["busy"],
        "status=running,failed,running": ["busy"],
        "status=awaiting_slack_install,running": ["busy", "fresh"],
        f"workspace_id={farm.workspace.pk}": ["busy", "fresh"],
    }.items():
        assert names(farm.ok("GET", f"/interns?{query}")) == wanted, query


def cursor(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def test_queries_that_are_none(farm: Farm) -> None:
    for query in (
        *("limit=0", "limit=501", "limit=x", "limit=", "limit=1.5", "limit=-1"),
        *("status=", "status=gone", "status=running,", "status=Running"),
        *("workspace_id=x", "workspace_id=00000000-0000-4000-8000-000000000000"),
        *("starting_after=", "starting_after=!!", "starting_after=x", "foo=1", "offset=0"),
        *("limit=1&limit=2", "limit=1&limit=1", "status=running&status=failed"),
        f"starting_after={cursor('2026-01-01|none')}",
        f"starting_after={cursor('2026-01-01T00:00:00|00000000-0000-4000-8000-000000000000')}",
    ):
        refused = farm.expect_refusal(400, "invalid_body", "GET", f"/interns?{query}")
        assert refused["message"] == "Invalid list query", query
        assert refused["metadata"]["retryable"] is False
