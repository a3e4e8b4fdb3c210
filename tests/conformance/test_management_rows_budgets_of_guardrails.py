"""Row 76 of the management reference's section 19: budgets of guardrails."""

from typing import Any

import pytest

from tests.conformance.desk import Desk
from tests.conformance.guarded import default_id, desk, desks, made, manage, told

pytestmark = pytest.mark.both
__all__ = ["desk", "desks"]
# Spent by any answer, however short.
SPENT: dict[str, Any] = {"limit_usd": 0.000001, "reset_interval": "monthly"}
EXCEEDED = "Guardrail monthly budget of $0.000001 exceeded. Contact your org admin."


def refused(desk: Desk) -> None:
    desk.upstream.clear()
    assert desk.refused(403, "permission_denied")["message"] == EXCEEDED


def test_the_key_of_a_spent_guardrail(desk: Desk) -> None:
    desk.paid_nano(desk.ok())
    its_id = made(desk, **SPENT)
    body = {"key_hashes": [desk.account.api_key_hash]}

    answer = told(manage(desk, "POST", f"/{its_id}/assignments/keys", body))

    assert answer == {"assigned_count": 1}
    refused(desk)
    removal = manage(desk, "POST", f"/{its_id}/assignments/keys/remove", body)
    assert told(removal) == {"unassigned_count": 1}
    desk.paid_nano(desk.ok())


def test_the_budget_of_a_member(desk: Desk) -> None:
    desk.paid_nano(desk.ok())
    its_id = made(desk, **SPENT)
    body = {"member_user_ids": [desk.account.user_id]}

    told(manage(desk, "POST", f"/{its_id}/assignments/members", body))

    refused(desk)
    assert told(manage(desk, "DELETE", f"/{its_id}")) == {"deleted": True}
    desk.paid_nano(desk.ok())


def test_the_budget_of_a_default_guardrail(desk: Desk) -> None:
    desk.paid_nano(desk.ok())
    path = f"/{default_id(desk)}"

    told(manage(desk, "PATCH", path, SPENT))

    refused(desk)
    told(manage(desk, "PATCH", path, {"limit_usd": 5}))
    desk.paid_nano(desk.ok())
    told(manage(desk, "PATCH", path, {"limit_usd": 0.000001, "reset_interval": "daily"}))
    desk.upstream.clear()
    assert "Guardrail daily budget" in desk.refused(403, "permission_denied")["message"]
    told(manage(desk, "PATCH", path, {"limit_usd": None, "reset_interval": None}))
    desk.paid_nano(desk.ok())


def test_a_request_that_does_not_fit_is_402(desk: Desk) -> None:
    its_id = made(desk, limit_usd=0.0001, reset_interval="daily")
    body = {"key_hashes": [desk.account.api_key_hash]}
    told(manage(desk, "POST", f"/{its_id}/assignments/keys", body))

    assert told(desk.post(max_tokens=16_000), 402)
    desk.paid_nano(desk.ok(max_tokens=5))


@pytest.mark.parametrize("kind", ["keys", "members"])
@pytest.mark.parametrize(
    "end", ["removed", "replaced", "guardrail deleted", "workspace deleted", "budget taken away"]
)
def test_the_books_agree_once_somebody_is_held_to_a_budget_no_more(
    desk: Desk, kind: str, end: str
) -> None:
    key = desk.account.management_key
    other = {"name": "Other", "slug": f"other-{kind}-{len(end)}"}
    place = told(desk.server.post("/api/v1/workspaces", key=key, json=other), 201)["data"]["id"]
    its_id = made(desk, limit_usd=5, reset_interval="monthly", workspace_id=place)
    whom = [desk.account.api_key_hash] if kind == "keys" else [desk.account.user_id]
    body = {"key_hashes" if kind == "keys" else "member_user_ids": whom}
    assignments = f"/{its_id}/assignments/{kind}"
    told(manage(desk, "POST", assignments, body))
    desk.paid_nano(desk.ok())

    if end == "removed":
        told(manage(desk, "POST", f"{assignments}/remove", body))
    elif end == "replaced":
        told(manage(desk, "POST", f"/{made(desk)}/assignments/{kind}", body))
    elif end == "workspace deleted":
        told(desk.server.request("DELETE", f"/api/v1/workspaces/{place}", key=key))
    elif end == "guardrail deleted":
        told(manage(desk, "DELETE", f"/{its_id}"))
    else:
        told(manage(desk, "PATCH", f"/{its_id}", {"limit_usd": None, "reset_interval": None}))

    desk.paid_nano(desk.ok())
    assert desk.server.manage("audit_ledger")["mismatches"] == []
