"""Rows 17 to 19 and 41 of the management reference's section 19."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
import requests

from tests.conformance.desk import CHAT, HELLO, PATIENCE_S, Desk
from tests.conformance.money import book_spending
from tests.conformance.test_management_rows import error_of
from tests.support.callers import new_key
from tests.support.gateways import SeededAccount
from tests.support.processes import eventually
from tests.support.server import GatewayServer, as_json

pytestmark = pytest.mark.both
OrmOf = Callable[[GatewayServer], AbstractContextManager[None]]
USD = 1_000_000_000


def budget(desk: Desk, method: str, rest: str, body: Any = None) -> requests.Response:
    path = f"/api/v1/workspaces/{desk.account.workspace_id}/budgets{rest}"
    options = {} if body is None else {"json": body}
    return desk.server.request(method, path, key=desk.account.management_key, **options)


def test_limits_of_narrower_intervals_are_smaller(desk: Desk) -> None:
    """By the workspace's id here, by its slug in `tests/accounts/test_workspace_budgets.py`."""
    answer = budget(desk, "PUT", "/weekly", {"limit_usd": 600})
    assert answer.status_code == 200, answer.text
    told = as_json(answer)["data"]
    assert (told["limit_usd"], told["reset_interval"]) == (600, "weekly")

    error = error_of(budget(desk, "PUT", "/monthly", {"limit_usd": 500}), 400)

    assert error["message"] == (
        "Budget limits must strictly decrease: monthly ($500) must exceed weekly ($600)"
    )
    assert len(as_json(budget(desk, "GET", ""))["data"]) == 1


def test_a_budget_that_was_never_set_is_deleted(desk: Desk) -> None:
    answer = budget(desk, "DELETE", "/daily")

    assert (answer.status_code, answer.json()) == (200, {"deleted": True})


@pytest.mark.parametrize("stream", [False, True])
def test_a_monthly_budget_that_is_spent(
    desk: Desk, account: Callable[..., SeededAccount], orm_of: OrmOf, stream: bool
) -> None:
    desk.account = account(credits_usd="1000")
    desk.ok()  # The gateway knows the key, and that it has no budget.
    with orm_of(desk.server):
        book_spending(desk.account.api_key, amount_nano=500 * USD)
    assert budget(desk, "PUT", "/monthly", {"limit_usd": 500}).status_code == 200
    desk.spent_nano = desk.total_usage_nano()
    desk.upstream.clear()

    # At once, although the key was read a moment ago.
    error = desk.refused(403, "permission_denied", stream=stream)

    assert error["message"] == (
        "Workspace monthly budget of $500.00 exceeded. Contact your org admin."
    )
    assert budget(desk, "PUT", "/monthly", {"limit_usd": 501}).status_code == 200
    desk.ok()


def test_also_where_no_endpoint_could_serve(
    desk: Desk, account: Callable[..., SeededAccount], orm_of: OrmOf
) -> None:
    desk.account = account(credits_usd="1000")
    with orm_of(desk.server):
        book_spending(desk.account.api_key, amount_nano=500 * USD)
    for interval, limit in (("lifetime", 501), ("monthly", 500), ("daily", 2.5)):
        assert budget(desk, "PUT", f"/{interval}", {"limit_usd": limit}).status_code == 200
    desk.spent_nano = desk.total_usage_nano()

    nowhere = {"only": ["nobody"], "allow_fallbacks": False}

    def told() -> Any:
        return desk.post(provider=nowhere)

    # The budgets are those of the key as it was read, less than a second ago.
    eventually(lambda: told().status_code == 403, within_s=PATIENCE_S, what="the budget", log=None)
    error = desk.check_refused(told(), 403, "permission_denied")
    assert error["message"] == (
        "Workspace monthly budget of $500.00 exceeded. Contact your org admin."
    )


@pytest.mark.parametrize(
    ("reset", "word"),
    [(None, "total"), ("daily", "daily"), ("weekly", "weekly"), ("monthly", "monthly")],
)
def test_a_key_whose_limit_is_used_up(
    desk: Desk, orm_of: OrmOf, reset: str | None, word: str
) -> None:
    mine = {"creator_user_id": desk.account.user_id}
    key = new_key(desk.server, desk.account, limit=1, limit_reset=reset, **mine)
    with orm_of(desk.server):
        book_spending(key, amount_nano=USD)
    desk.spent_nano = desk.total_usage_nano()

    body = {"model": desk.model, "messages": HELLO}
    error = desk.check_refused(desk.server.post(CHAT, key=key, json=body), 402, "payment_required")

    assert error["message"].startswith(
        f'Key limit exceeded ({word} limit). It is the limit of API key "'
    )
    assert error["message"].endswith(
        "A management key of the account can raise it with PATCH /api/v1/keys/{hash}, "
        f"described at {desk.server.root_url}/docs"
    )
    assert desk.server.get("/docs").status_code == 200
    assert error["metadata"]["limit_source"] == "router_key_limit"
    assert error["metadata"]["reason"] == "key_limit_exhausted"
