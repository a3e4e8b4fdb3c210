"""M2: over HTTP, four processes and two keys spend one account's balance once, and no more."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import HELLO, Desk
from tests.faults import bench
from tests.faults.conftest import Open, loaded
from tests.support.bed import Bed
from tests.support.callers import Heard, ask, at_a_time, new_key
from tests.support.gateways import StartGateway, seed_account
from tests.support.ledger import Ledger
from tests.support.server import GatewayServer

pytestmark = [pytest.mark.both, pytest.mark.thorough]
AT_ONCE = 64
MAX_TOKENS = 100
# 11 bytes of text and 16 tokens for the message's frame, at the prices of the bench.
HELD_NANO = (11 + 16) * bench.CHEAP_NANO[0] + MAX_TOKENS * bench.CHEAP_NANO[1]
CREDITS_USD, CREDITS_NANO = "0.005", 5_000_000
AFFORDABLE_AT_ONCE = CREDITS_NANO // HELD_NANO
# What the upstream says it produced: three times what it was asked for.
DEAR = {"prompt_tokens": 27, "completion_tokens": 3 * MAX_TOKENS, "total_tokens": 327}
DEAR_NANO = 27 * bench.CHEAP_NANO[0] + 3 * MAX_TOKENS * bench.CHEAP_NANO[1]
MODEL = bench.model("plain/first", bench.endpoint("first"))
PROCESSES = {
    "WEB_CONCURRENCY": "4",
    "ROUTER_FIRST_BYTE_TIMEOUT": "30",
    "ROUTER_IDLE_TIMEOUT": "30",
}


@dataclass
class Shop:
    """A desk whose account has two keys, served by four processes."""

    desk: Desk
    keys: list[str]

    def ask(self, number: int) -> Heard:
        """Every other one by the other key, every third as a stream."""
        return ask(
            int(self.desk.server.env["PORT"]),
            self.keys[number % 2],
            tag=f"call-{number}",
            model="plain/first",
            messages=HELLO,
            max_tokens=MAX_TOKENS,
            stream=number % 3 == 0,
        )

    def totals(self) -> tuple[int, int, int]:
        return Ledger(self.desk.server.env["DATABASE_URL"]).totals(self.desk.account.account_id)

    def spend_the_rest(self) -> list[Heard]:
        """One by one, until not even a lonely request is affordable."""
        heard = [self.ask(0)]
        while heard[-1].status == 200:
            heard.append(self.ask(len(heard)))
        return heard


@pytest.fixture(scope="module")
def four_processes(
    tmp_path_factory: pytest.TempPathFactory, stores: Bed, simulator: SimulatedUpstream
) -> Iterator[GatewayServer]:
    folder = tmp_path_factory.mktemp("m2")
    catalogue = bench.as_yaml(bench.personas(simulator), [MODEL])
    with StartGateway(stores, folder) as starter:
        yield loaded(starter, folder, catalogue, **PROCESSES)


@pytest.fixture
def shop_with(
    four_processes: GatewayServer, simulator: SimulatedUpstream, desk_on: Open
) -> Callable[..., Shop]:
    """`shop_with("0.005")`: an account of that credit; further arguments are settings, of a
    gateway of the shop's own."""

    def open_(credits_usd: str, **env: str) -> Shop:
        simulator.clear()
        server = desk_on([MODEL], **PROCESSES | env).server if env else four_processes
        account = seed_account(server, credits_usd=credits_usd)
        desk = Desk(server, simulator, account, "plain/first")
        return Shop(desk, [desk.account.api_key, new_key(desk.server, desk.account)])

    return open_


def check_charges(shop: Shop, heard: list[Heard]) -> None:
    """Every answer was whole and charged what it said; everything else was a 402."""
    assert {each.status for each in heard} <= {200, 402}, {str(each) for each in heard}
    assert not [each for each in heard if each.broke]
    told_nano = sum(each.cost_nano or 0 for each in heard if each.status == 200)
    assert shop.totals()[1] == told_nano
    audit = shop.desk.server.manage("audit_ledger")
    assert (audit["mismatches"], audit["open_holds"]) == ([], 0)


def served(heard: list[Heard]) -> int:
    return sum(each.status == 200 for each in heard)


def test_four_processes_spend_a_nearly_empty_balance_once(
    shop_with: Callable[..., Shop],
) -> None:
    spend_once(shop_with(CREDITS_USD), requests=300)


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_four_processes_spend_a_balance_once_in_thousands_of_requests(
    shop_with: Callable[..., Shop],
) -> None:
    spend_once(shop_with("0.05"), requests=8_000)


def spend_once(shop: Shop, *, requests: int) -> None:
    heard = at_a_time(AT_ONCE, requests, shop.ask)
    assert 0 < served(heard) < requests

    heard += shop.spend_the_rest()

    credits_nano, usage_nano, held_nano = shop.totals()
    assert held_nano == 0
    assert 0 <= credits_nano - usage_nano < HELD_NANO
    check_charges(shop, heard)


def test_without_enforcement_such_requests_overspend(shop_with: Callable[..., Shop]) -> None:
    """The twin: nothing but the balance's guard stood between these callers and the overdraft."""
    shop = shop_with("0.001", BILLING_ENFORCED="false")

    heard = at_a_time(AT_ONCE, 200, shop.ask)

    assert served(heard) == 200
    credits_nano, usage_nano, _ = shop.totals()
    assert usage_nano > credits_nano
    check_charges(shop, heard)


@pytest.mark.parametrize("callers", [AT_ONCE, pytest.param(256, marks=pytest.mark.nightly)])
def test_costs_above_the_estimates_overdraw_by_the_calls_in_flight_and_no_more(
    shop_with: Callable[..., Shop], callers: int
) -> None:
    shop = shop_with(CREDITS_USD)
    shop.desk.upstream.script("first", {"gate": "all", "usage": DEAR}, repeat=True)

    heard = at_a_time(callers + 1, callers + 1, lambda n: shop.ask(n) if n else open_up(shop))[1:]

    # While the gate was shut nothing was settled, so the holds alone bounded what was let in.
    in_flight = [each for each in heard if each and each.status == 200]
    assert len(in_flight) == AFFORDABLE_AT_ONCE
    assert {each.cost_nano for each in in_flight} == {DEAR_NANO}
    credits_nano, usage_nano, held_nano = shop.totals()
    overdraft_nano = usage_nano - credits_nano
    assert held_nano == 0
    assert 0 < overdraft_nano <= AFFORDABLE_AT_ONCE * (DEAR_NANO - HELD_NANO)
    calls = Ledger(shop.desk.server.env["DATABASE_URL"]).calls(shop.desk.account.account_id)
    assert {(call.hold_nano, call.overrun) for call in calls} == {(HELD_NANO, True)}
    check_charges(shop, [each for each in heard if each])
    assert [shop.ask(number).status for number in range(8)] == [402] * 8


def open_up(shop: Shop) -> None:
    """Open the gate once every affordable call stands before it."""
    desk = shop.desk
    desk.server.wait_until(
        lambda: desk.upstream.control("GET", "/_gate/all")["waiting"] >= AFFORDABLE_AT_ONCE
    )
    desk.upstream.open_gate("all")
