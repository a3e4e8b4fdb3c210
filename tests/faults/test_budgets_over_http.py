"""Budgets as callers meet them: at once in every process, whole and streamed, for fallbacks too."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from accounts.keystring import hash_of
from tests.conformance.desk import HELLO, Desk
from tests.faults import bench
from tests.faults.conftest import Open
from tests.faults.test_m2_over_http import HELD_NANO, MAX_TOKENS, MODEL, PROCESSES
from tests.support.callers import ask, at_a_time, new_key
from tests.support.ledger import Ledger

pytestmark = [pytest.mark.both, pytest.mark.thorough]
USD = 1_000_000_000
WHOLE = {"prompt_tokens": 27, "completion_tokens": MAX_TOKENS, "total_tokens": 127}
PAIR = bench.model(
    "plain/first", bench.endpoint("first"), bench.endpoint("second", pricing=bench.DEAR)
)


def set_budget(desk: Desk, nano: int, interval: str = "daily", **said: Any) -> None:
    answer = desk.server.request(
        "PUT",
        f"/api/v1/workspaces/{desk.account.workspace_id}/budgets/{interval}",
        key=desk.account.management_key,
        json={"limit_usd": nano / USD, **said},
    )
    assert answer.status_code == 200, answer.text


def usage_nano(desk: Desk) -> int:
    return Ledger(desk.server.env["DATABASE_URL"]).totals(desk.account.account_id)[1]


def test_four_processes_that_know_a_key_keep_its_new_budget_at_once(desk_on: Open) -> None:
    """They have read the key less than a second ago, when it had none."""
    desk = desk_on([MODEL], **PROCESSES)
    desk.upstream.script("first", {"usage": WHOLE}, repeat=True)

    def calls(count: int) -> list[int]:
        heard = at_a_time(
            20,
            count,
            lambda number: ask(
                int(desk.server.env["PORT"]),
                desk.account.api_key,
                tag=str(number),
                model="plain/first",
                messages=HELLO,
                max_tokens=MAX_TOKENS,
                stream=number % 3 == 0,
            ),
        )
        return [each.status for each in heard]

    assert set(calls(60)) == {200}
    spent = usage_nano(desk)
    assert spent == 60 * HELD_NANO
    set_budget(desk, spent + 3 * HELD_NANO)

    statuses = calls(40)

    assert statuses.count(200) == 3
    assert set(statuses) <= {200, 402, 403}
    assert usage_nano(desk) == spent + 3 * HELD_NANO
    set_budget(desk, spent + 5 * HELD_NANO, "weekly")
    set_budget(desk, spent + 4 * HELD_NANO)
    assert calls(10).count(200) == 1
    audit = desk.server.manage("audit_ledger")
    assert (audit["mismatches"], audit["open_holds"]) == ([], 0)


@pytest.mark.parametrize("stream", [False, True])
def test_a_fallback_that_is_too_dear_for_the_budget_is_not_tried(
    desk_of: Open, stream: bool
) -> None:
    desk = desk_of([PAIR | {"id": f"budget/pair-{stream}"}])
    desk.upstream.script(
        "first", {"status": 500, "json": {"error": {"message": "odd"}}}, repeat=True
    )
    set_budget(desk, 2 * HELD_NANO)

    response = desk.post(max_tokens=MAX_TOKENS, stream=stream, messages=HELLO)

    error = desk.told(response, 402, "payment_required")
    assert error["metadata"]["limit_source"] == "router_workspace_budget"
    assert desk.upstream.requests("second") == []
    set_budget(desk, 3000 * HELD_NANO)
    assert desk.post(max_tokens=MAX_TOKENS, stream=stream).status_code == 200
    audit = desk.server.manage("audit_ledger")
    assert (audit["mismatches"], audit["open_holds"]) == ([], 0)


@pytest.mark.parametrize("stream", [False, True])
def test_a_fallback_of_a_key_that_was_deleted_meanwhile_is_a_401(
    desk_on: Open, stream: bool
) -> None:
    """Its hold is to be raised, and whoever looks at the limits of now finds no key any more."""
    desk = desk_on([PAIR])
    key = new_key(desk.server, desk.account)
    desk.upstream.script("first", {"gate": "deleted", "status": 503})
    body = {"max_tokens": MAX_TOKENS, "messages": HELLO, "stream": stream}

    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(desk.server.chat, key=key, model="plain/first", **body)
        desk.upstream.wait_gate("deleted")
        manager = desk.account.management_key
        deleted = desk.server.request("DELETE", f"/api/v1/keys/{hash_of(key)}", key=manager)
        set_budget(desk, USD)
        desk.upstream.open_gate("deleted")
        answer = asked.result()

    assert (deleted.status_code, answer.status_code) == (200, 401), answer.text
    assert answer.json()["error"]["message"] == "Invalid API key"
    assert desk.upstream.requests("second") == []
    assert usage_nano(desk) == 0
    audit = desk.server.manage("audit_ledger")
    assert (audit["mismatches"], audit["open_holds"]) == ([], 0)


def test_a_key_whose_limit_is_changed_over_and_over_is_served_all_the_while(
    desk_on: Open,
) -> None:
    """Each change makes what every process knows of the account's keys older."""
    desk = desk_on([MODEL], WEB_CONCURRENCY="2")
    desk.upstream.script("first", {"usage": WHOLE}, repeat=True)
    other = new_key(desk.server, desk.account, name="other")
    listed = desk.server.get(
        "/api/v1/keys?workspace_id=" + desk.account.workspace_id, key=desk.account.management_key
    ).json()["data"]
    resets = [None, "daily", "weekly", "monthly"]

    def one(number: int) -> int:
        if number % 3:
            key = desk.account.api_key if number % 2 else other
            return ask(
                int(desk.server.env["PORT"]),
                key,
                tag="",
                model="plain/first",
                messages=HELLO,
                max_tokens=MAX_TOKENS,
            ).status
        answer = desk.server.request(
            "PATCH",
            f"/api/v1/keys/{listed[0]['hash']}",
            key=desk.account.management_key,
            json={"limit": 100 + number, "limit_reset": resets[number // 3 % 4]},
        )
        return answer.status_code

    assert set(at_a_time(90, 9, one)) == {200}
    audit = desk.server.manage("audit_ledger")
    assert (audit["mismatches"], audit["open_holds"]) == ([], 0)
