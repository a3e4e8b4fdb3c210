"""Rows 17 to 19, 41, 76 and 81 of the management reference's section 19. They are about budgets of
workspaces and guardrails, limits of keys, and free calls a day."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
import requests

from gateway.limits.limits import DAY_S, find_window_start
from tests.conformance.desk import CHAT, HELLO, Desk
from tests.conformance.guarded import make_guardrail, manage, read_ok
from tests.conformance.money import book_spending
from tests.conformance.test_management_rows import error_of
from tests.support.callers import new_key
from tests.support.gateways import SeededAccount, seed_account
from tests.support.server import GatewayServer, as_json
from tests.support.windows import within_one

pytestmark = pytest.mark.both
OrmOf = Callable[[GatewayServer], AbstractContextManager[None]]
USD = 1_000_000_000
SPENT_BUDGET = "Workspace monthly budget of $500.00 exceeded. Contact your org admin."
# Spent by any answer, however short.
SPENT: dict[str, Any] = {"limit_usd": 0.000001, "reset_interval": "monthly"}
FREE = "acme/small:free"


@pytest.fixture
def desk(own_desk: Desk) -> Desk:
    return own_desk


def budget(desk: Desk, method: str, rest: str, body: Any = None) -> requests.Response:
    return desk.manage(method, f"/workspaces/{desk.account.workspace_id}/budgets{rest}", body)


def spend_500(desk: Desk, account: Callable[..., SeededAccount], orm_of: OrmOf) -> None:
    """The desk has another account, which spent 500 USD with a key that the gateway knows."""
    desk.account, desk.spent_nano = account(credits_usd="1000"), 0
    desk.ok()
    with orm_of(desk.server):
        book_spending(desk.account.api_key, amount_nano=500 * USD)
    desk.spent_nano = desk.total_usage_nano()
    desk.upstream.clear()


def test_a_monthly_budget_that_is_spent(
    desk: Desk, account: Callable[..., SeededAccount], orm_of: OrmOf
) -> None:
    spend_500(desk, account, orm_of)
    for interval, limit in (("lifetime", 502), ("monthly", 500), ("daily", 2.5)):
        assert budget(desk, "PUT", f"/{interval}", {"limit_usd": limit}).status_code == 200

    nowhere = {"only": ["nobody"], "allow_fallbacks": False}
    # At once, although the key was read a moment ago; also where no endpoint could serve.
    for asked in ({"stream": False}, {"stream": True}, {"provider": nowhere}):
        assert desk.expect_refusal(403, "permission_denied", **asked)["message"] == SPENT_BUDGET
    budget(desk, "DELETE", "/daily")
    assert budget(desk, "PUT", "/monthly", {"limit_usd": 501}).status_code == 200
    desk.ok()


def test_each_end_user_is_held_to_a_budget_of_his_own(own_wide_desk: Desk) -> None:
    """The spent one at once, the others not; of the same key."""
    desk = own_wide_desk
    path = f"/workspaces/{desk.account.workspace_id}"
    wanted: dict[str, Any] = {
        "reset_interval": "daily",
        "limit_usd": 10,
        "overrides": [{"user": "vip", "limit_usd": None}],
    }
    assert desk.manage("PATCH", path, {"end_user_budget": wanted}).status_code == 200
    desk.ok(user="alice")
    own = [{"user": "alice", "limit_usd": 0.000000001}, *wanted["overrides"]]
    changed = desk.manage("PATCH", path, {"end_user_budget": wanted | {"overrides": own}})

    assert changed.status_code == 200, changed.text
    told = as_json(changed)["data"]["end_user_budget"]
    assert (told["reset_interval"], told["limit_usd"]) == ("daily", 10)
    assert [each["limit_usd"] for each in told["overrides"]] == [0.000000001, None]
    assert "alice" not in changed.text
    desk.spent_nano = desk.total_usage_nano()
    desk.upstream.clear()
    error = desk.expect_refusal(403, "permission_denied", user="alice")
    assert error["message"] == (
        "End user daily budget of $0.000000001 exceeded. Contact your org admin."
    )
    for user in ("vip", "bob", None):
        desk.ok(**({"user": user} if user else {}))
    twice = {"reset_interval": "daily", "overrides": [{"limit_usd": 1}]}
    text = error_of(desk.manage("PATCH", path, {"end_user_budget": twice}), 400)["message"]
    assert text == "end_user_budget.overrides.0: Invalid input: expected user or user_hash"
    assert desk.manage("PATCH", path, {"end_user_budget": None}).status_code == 200
    desk.ok(user="alice")


def test_each_value_of_a_tag_is_held_to_a_budget_of_its_own(own_wide_desk: Desk) -> None:
    desk = own_wide_desk
    path = f"/workspaces/{desk.account.workspace_id}"
    each = {"tag": "team=*", "reset_interval": "daily", "limit_usd": 10}
    spent = {"tag": "team=blue", "reset_interval": "daily", "limit_usd": 0.000000001}
    assert desk.manage("PATCH", path, {"tag_budgets": [each]}).status_code == 200
    desk.ok(metadata={"team": "blue"})
    changed = desk.manage("PATCH", path, {"tag_budgets": [each, spent]})

    assert changed.status_code == 200, changed.text
    assert as_json(changed)["data"]["tag_budgets"] == [each, spent]
    desk.spent_nano = desk.total_usage_nano()
    desk.upstream.clear()
    error = desk.expect_refusal(403, "permission_denied", metadata={"team": "blue"})
    assert error["message"] == (
        'Tag "team=blue" daily budget of $0.000000001 exceeded. Contact your org admin.'
    )
    desk.ok(metadata={"team": "red"})
    desk.ok()
    text = error_of(desk.manage("PATCH", path, {"tag_budgets": [each | {"tag": "team"}]}), 400)
    assert text["message"].startswith("tag_budgets.0.tag: ")
    assert desk.manage("PATCH", path, {"tag_budgets": []}).status_code == 200
    desk.ok(metadata={"team": "blue"})


# The other windows are told by `test_refusals`.
def test_a_key_whose_limit_is_used_up(desk: Desk, orm_of: OrmOf) -> None:
    mine = {"creator_user_id": desk.account.user_id}
    key = new_key(desk.server, desk.account, limit=1, limit_reset="weekly", **mine)
    with orm_of(desk.server):
        book_spending(key, amount_nano=USD)
    desk.spent_nano = desk.total_usage_nano()

    body = {"model": desk.model, "messages": HELLO}
    error = desk.check_refused(desk.server.post(CHAT, key=key, json=body), 402, "payment_required")

    assert error["message"].startswith(
        'Key limit exceeded (weekly limit). It is the limit of API key "'
    )
    assert error["message"].endswith(
        "A management key of the account can raise it with PATCH /api/v1/keys/{hash}, "
        f"described at {desk.server.root_url}/docs"
    )
    assert desk.server.get("/docs").status_code == 200
    assert error["metadata"]["limit_source"] == "router_key_limit"
    assert error["metadata"]["reason"] == "key_limit_exhausted"


# --- Guardrails -----------------------------------------------------------------------------------


def check_spent(desk: Desk, interval: str = "monthly") -> None:
    desk.upstream.clear()
    said = desk.expect_refusal(403, "permission_denied")["message"]
    assert said == f"Guardrail {interval} budget of $0.000001 exceeded. Contact your org admin."


@pytest.mark.parametrize("kind", ["keys", "members"])
def test_the_key_or_the_member_of_a_spent_guardrail(own_wide_desk: Desk, kind: str) -> None:
    desk = own_wide_desk
    desk.paid_nano(desk.ok())
    named = {"keys": "key_hashes", "members": "member_user_ids"}[kind]
    body = {named: [desk.account.api_key_hash if kind == "keys" else desk.account.user_id]}
    assignments = f"/{make_guardrail(desk, **SPENT)}/assignments/{kind}"

    assert read_ok(manage(desk, "POST", assignments, body)) == {"assigned_count": 1}
    check_spent(desk)
    removed = read_ok(manage(desk, "POST", f"{assignments}/remove", body))
    assert removed == {"unassigned_count": 1}
    desk.paid_nano(desk.ok())

    read_ok(manage(desk, "POST", assignments, body))
    check_spent(desk)
    read_ok(manage(desk, "POST", f"/{make_guardrail(desk)}/assignments/{kind}", body))
    desk.paid_nano(desk.ok())


def test_a_budget_goes_with_its_guardrail_and_workspace(own_wide_desk: Desk) -> None:
    desk, key = own_wide_desk, own_wide_desk.account.management_key
    desk.paid_nano(desk.ok())
    other = {"name": "Other", "slug": "other"}
    place = read_ok(desk.server.post("/api/v1/workspaces", key=key, json=other), 201)["data"]["id"]
    body = {"key_hashes": [desk.account.api_key_hash]}

    def make_spent(**more: Any) -> str:
        its_id = make_guardrail(desk, **SPENT, **more)
        read_ok(manage(desk, "POST", f"/{its_id}/assignments/keys", body))
        check_spent(desk)
        return its_id

    read_ok(manage(desk, "DELETE", f"/{make_spent()}"))
    desk.paid_nano(desk.ok())
    none = {"limit_usd": None, "reset_interval": None}
    read_ok(manage(desk, "PATCH", f"/{make_spent()}", none))
    desk.paid_nano(desk.ok())
    make_spent(workspace_id=place)
    read_ok(desk.server.request("DELETE", f"/api/v1/workspaces/{place}", key=key))
    desk.paid_nano(desk.ok())
    assert desk.server.manage("audit_ledger")["mismatches"] == []


# --- Free calls -----------------------------------------------------------------------------------


def test_the_free_calls_of_a_day(own_wide_desk: Desk) -> None:
    server, upstream = own_wide_desk.server, own_wide_desk.upstream

    def day_of(desk: Desk) -> Any:
        told = as_json(server.get("/api/v1/key", key=desk.account.api_key))["data"]
        return told["free_model_daily_requests"]

    def work() -> int:
        desk = Desk(server, upstream, seed_account(server))
        for _ in range(20):
            desk.ok(model=FREE)
        assert day_of(desk) == {"limit": 20, "used": 20, "remaining": 0}
        desk.upstream.clear()
        answer = desk.post(model=FREE)
        error = desk.check_refused(answer, 429, "rate_limit_exceeded")
        assert error["message"] == (
            "Rate limit exceeded: free-models-per-day. "
            "Add 10 credits to unlock 1000 free model requests per day"
        )
        assert error["metadata"]["limit_source"] == "router_free_tier_daily"
        shown = {name: answer.headers[name] for name in error["metadata"]["headers"]}
        assert shown == error["metadata"]["headers"]
        assert (shown["X-RateLimit-Limit"], shown["X-RateLimit-Remaining"]) == ("20", "0")
        assert 1 <= int(answer.headers["Retry-After"]) <= DAY_S
        # What is not free is not limited.
        desk.ok()
        # With ten credits there are more of them.
        desk.account = seed_account(server, credits_usd="10")
        desk.ok(model=FREE)
        assert day_of(desk) == {"limit": 1000, "used": 1, "remaining": 999}
        return int(shown["X-RateLimit-Reset"])

    reset_ms = within_one(DAY_S, work)
    assert reset_ms % (DAY_S * 1000) == 0
    assert find_window_start(reset_ms / 1000 - 1, DAY_S) == reset_ms // 1000 - DAY_S
