"""M2: over HTTP, four processes and two keys spend one account's balance once, and no more. Limits
and budgets are as callers meet them, at once in every process, for streams and fallbacks too."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from accounts.keystring import hash_key
from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import HELLO, Desk
from tests.faults import bench
from tests.faults.conftest import GatewayWith
from tests.support.callers import Heard, ask, at_a_time, new_key
from tests.support.gateways import seed_account
from tests.support.ledger import Ledger
from tests.support.server import GatewayServer

pytestmark = [pytest.mark.both, pytest.mark.thorough]
USD = 1_000_000_000
AT_ONCE = 40
MAX_TOKENS = 100
# 11 bytes of text and 16 tokens for the message's frame, at the prices of the bench.
HELD_NANO = (11 + 16) * bench.CHEAP_NANO[0] + MAX_TOKENS * bench.CHEAP_NANO[1]
CREDITS_USD, CREDITS_NANO = "0.005", 5_000_000
AFFORDABLE_AT_ONCE = CREDITS_NANO // HELD_NANO
# What the upstream says it produced: all that was asked for, and three times that.
WHOLE = {"prompt_tokens": 27, "completion_tokens": MAX_TOKENS}
DEAR = {"prompt_tokens": 27, "completion_tokens": 3 * MAX_TOKENS}
DEAR_NANO = 27 * bench.CHEAP_NANO[0] + 3 * MAX_TOKENS * bench.CHEAP_NANO[1]
MODEL = bench.model("plain/first", bench.endpoint("first"))
PAIR = bench.model(
    "plain/pair", bench.endpoint("first"), bench.endpoint("second", pricing=bench.DEAR)
)
PROCESSES = {"WEB_CONCURRENCY": "4", "ROUTER_FIRST_BYTE_TIMEOUT": "30", "ROUTER_IDLE_TIMEOUT": "30"}
Shops = Callable[..., "Shop"]


@dataclass
class Shop:
    """A desk whose account has two keys, served by four processes."""

    desk: Desk
    keys: list[str]

    def ask(self, number: int) -> Heard:
        """Every other one by the other key, every third as a stream."""
        key = self.keys[number % 2]
        body = {"model": "plain/first", "messages": HELLO, "max_tokens": MAX_TOKENS}
        port = int(self.desk.server.env["PORT"])
        return ask(port, key, tag=f"call-{number}", stream=number % 3 == 0, **body)

    def crowd(self, count: int) -> list[Heard]:
        return at_a_time(min(AT_ONCE, count), count, self.ask)

    def totals(self) -> tuple[int, int, int]:
        return Ledger(self.desk.server.env["DATABASE_URL"]).totals(self.desk.account.account_id)

    def spend_the_rest(self) -> list[Heard]:
        """One by one, until not even a lonely request is affordable."""
        heard = [self.ask(0)]
        while heard[-1].status == 200:
            heard.append(self.ask(len(heard)))
        return heard


@pytest.fixture(scope="module")
def four_processes(gateway_with: GatewayWith) -> GatewayServer:
    return gateway_with([MODEL, PAIR], **PROCESSES)


@pytest.fixture
def shop_with(four_processes: GatewayServer, simulator: SimulatedUpstream) -> Shops:
    """`shop_with("0.005")`: an account of that credit."""

    def open_(credits_usd: str) -> Shop:
        simulator.clear()
        account = seed_account(four_processes, credits_usd=credits_usd)
        desk = Desk(four_processes, simulator, account, "plain/first")
        other = new_key(four_processes, account, workspace_id=account.workspace_id)
        return Shop(desk, [account.api_key, other])

    return open_


def check_charges(shop: Shop, heard: list[Heard]) -> None:
    """Every answer was whole and charged what it said; everything else was a refusal, also for want
    of time on a busy machine."""
    assert {each.status for each in heard} <= {200, 402, 403, 503}, {str(each) for each in heard}
    assert not [each for each in heard if each.broke]
    told_nano = sum(each.cost_nano or 0 for each in heard if each.status == 200)
    assert shop.totals()[1] == told_nano
    shop.desk.server.check_books()


def count_served(heard: list[Heard]) -> int:
    return sum(each.status == 200 for each in heard)


@pytest.mark.parametrize(
    ("credits_usd", "requests"),
    [
        (CREDITS_USD, 100),
        pytest.param("0.05", 8_000, marks=[pytest.mark.nightly, pytest.mark.timeout(600)]),
    ],
)
def test_four_processes_spend_a_nearly_empty_balance_once(
    shop_with: Shops, credits_usd: str, requests: int
) -> None:
    """Each call costs what was held for it, so a crowd that hardly overlaps is refused as well."""
    shop = shop_with(credits_usd)
    shop.desk.upstream.script("first", {"usage": WHOLE}, repeat=True)
    heard = shop.crowd(requests)
    assert 0 < count_served(heard) < requests

    heard += shop.spend_the_rest()

    credits_nano, usage_nano, held_nano = shop.totals()
    assert held_nano == 0
    assert 0 <= credits_nano - usage_nano < HELD_NANO
    check_charges(shop, heard)


@pytest.mark.parametrize("callers", [AT_ONCE, pytest.param(256, marks=pytest.mark.nightly)])
def test_costs_above_the_estimates_overdraw_by_the_calls_in_flight_and_no_more(
    shop_with: Shops, callers: int
) -> None:
    shop = shop_with(CREDITS_USD)
    shop.desk.upstream.script("first", {"gate": "all", "usage": DEAR}, repeat=True)

    heard = at_a_time(callers + 1, callers + 1, lambda n: shop.ask(n) if n else open_up(shop))[1:]

    # While the gate was shut nothing was settled, so the holds alone bounded what was let in.
    in_flight = [each for each in heard if each and each.status == 200]
    assert len(in_flight) == AFFORDABLE_AT_ONCE
    assert {each.cost_nano for each in in_flight} == {DEAR_NANO}
    credits_nano, usage_nano, held_nano = shop.totals()
    assert held_nano == 0
    assert 0 < usage_nano - credits_nano <= AFFORDABLE_AT_ONCE * (DEAR_NANO - HELD_NANO)
    calls = Ledger(shop.desk.server.env["DATABASE_URL"]).calls(shop.desk.account.account_id)
    assert {(call.hold_nano, call.overrun) for call in calls} == {(HELD_NANO, True)}
    check_charges(shop, [each for each in heard if each])
    assert [shop.ask(number).status for number in range(4)] == [402] * 4


def open_up(shop: Shop) -> None:
    """Open the gate once every affordable call stands before it."""
    desk = shop.desk
    desk.server.wait_until(
        lambda: desk.upstream.control("GET", "/_gate/all")["waiting"] >= AFFORDABLE_AT_ONCE
    )
    desk.upstream.open_gate("all")


# --- Limits and budgets ---------------------------------------------------------------------------


def set_budget(desk: Desk, nano: int, interval: str = "daily") -> None:
    path = f"/workspaces/{desk.account.workspace_id}/budgets/{interval}"
    answer = desk.manage("PUT", path, {"limit_usd": nano / USD})
    assert answer.status_code == 200, answer.text


def test_four_processes_that_know_a_key_keep_its_new_budget_at_once(shop_with: Shops) -> None:
    """They have read the key less than a second ago, when it had none."""
    shop = shop_with("1")
    shop.desk.upstream.script("first", {"usage": WHOLE}, repeat=True)
    heard = shop.crowd(40)
    assert count_served(heard) == 40
    spent = 40 * HELD_NANO
    set_budget(shop.desk, spent + 3 * HELD_NANO)

    heard += (again := shop.crowd(30))

    assert count_served(again) == 3
    set_budget(shop.desk, spent + 5 * HELD_NANO, "weekly")
    set_budget(shop.desk, spent + 4 * HELD_NANO)
    heard += (again := shop.crowd(10))
    assert count_served(again) == 1
    check_charges(shop, heard)


def test_a_fallback_that_is_too_dear_for_the_budget_is_not_tried(shop_with: Shops) -> None:
    desk = shop_with("1000").desk
    failing = {"status": 400, "json": {"error": {"message": "Unsupported parameter"}}}
    desk.upstream.script("first", failing, repeat=True)
    set_budget(desk, 2 * HELD_NANO)
    body: dict[str, Any] = {"model": "plain/pair", "max_tokens": MAX_TOKENS, "stream": True}

    error = desk.check_error(desk.post(**body), 402, "payment_required")

    assert error["metadata"]["limit_source"] == "router_workspace_budget"
    assert desk.upstream.requests("second") == []
    set_budget(desk, 3000 * HELD_NANO)
    assert desk.post(**body).status_code == 200
    desk.server.check_books()


def test_a_fallback_of_a_key_that_was_deleted_meanwhile_is_a_401(shop_with: Shops) -> None:
    """Its hold is to be raised, and whoever looks at the limits of now finds no key any more."""
    shop = shop_with("1000")
    desk, key = shop.desk, shop.keys[1]
    failing = {"status": 400, "json": {"error": {"message": "Unsupported parameter"}}}
    desk.upstream.script("first", {"gate": "deleted", **failing})
    body = {"model": "plain/pair", "messages": HELLO, "max_tokens": MAX_TOKENS}

    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(desk.server.chat, key=key, **body)
        desk.upstream.wait_gate("deleted")
        path, manager = f"/api/v1/keys/{hash_key(key)}", desk.account.management_key
        assert desk.server.request("DELETE", path, key=manager).status_code == 200
        set_budget(desk, USD)
        desk.upstream.open_gate("deleted")
        answer = asked.result()

    assert (answer.status_code, answer.json()["error"]["message"]) == (401, "Invalid API key")
    assert desk.upstream.requests("second") == []
    assert shop.totals()[1] == 0
    desk.server.check_books()
