"""M4 where it ends otherwise: streams, processes that die, and interns."""

import json
import os
import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.asking import MESSAGES
from tests.conformance.desk import CHAT, HELLO, Desk
from tests.faults.conftest import GatewayWith
from tests.faults.desks import stream_end
from tests.faults.twice import (
    AT_ONCE,
    MODEL,
    PATIENT,
    Twice,
    check_not_kept,
    reason,
    same,
)
from tests.support.callers import at_a_time
from tests.support.gateways import SeededAccount, seed_account
from tests.support.processes import children
from tests.support.server import GatewayServer

pytest_plugins = ["tests.faults.twice_fixtures"]
pytestmark = [pytest.mark.both, pytest.mark.thorough]


def test_a_stream_happens_once_and_is_not_told_again(twice: Twice) -> None:
    path = MESSAGES
    twice.desk.upstream.script(
        "first", {"events": [{"text": "Hi"}, {"gate": "mid"}, {"finish": "stop"}]}
    )
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(twice.ask, "live", path, stream=True)
        twice.desk.upstream.wait_gate("mid")
        assert reason(twice.ask("live", path, stream=True)) == "idempotency_key_in_use"
        twice.desk.upstream.open_gate("mid")
        first = running.result()
    assert first.status_code == 200
    assert "Hi" in first.text

    def is_recorded() -> bool:
        # The last byte may be here before the row says so.
        return reason(twice.ask("live", path, stream=True)) == "answer_not_kept"

    twice.desk.server.wait_until(is_recorded)
    check_not_kept(twice, first, twice.ask("live", path, stream=True))


def test_a_stream_whose_caller_left_is_not_paid_twice(twice: Twice) -> None:
    events = [{"text": "Hello, this is some text"}, {"gate": "left"}, *stream_end(3, 9)]
    twice.desk.upstream.script("first", {"events": events}, {})
    body = {"model": "plain/first", "messages": HELLO, "stream": True}
    headers = {"Idempotency-Key": "left", "Content-Type": "application/json"}
    key, data = twice.desk.account.api_key, json.dumps(body).encode()
    post = twice.desk.server.post
    with post(CHAT, key=key, data=data, headers=headers, stream=True) as response:
        next(response.iter_lines())
        generation = response.headers["X-Generation-Id"]
    twice.desk.upstream.open_gate("left")
    twice.desk.wait_record(generation)

    twice.desk.server.wait_until(
        lambda: reason(twice.desk.raw(data, headers=headers)) == "answer_not_kept"
    )
    assert twice.upstream_calls() == 1


# --- Processes that die ---------------------------------------------------------------------------

LEASE_S, SWEEP_S = 2.0, 0.3
SOON = {
    "HOLD_LEASE_SECONDS": str(LEASE_S),
    "HOLD_SWEEP_SECONDS": str(SWEEP_S),
    "ROUTER_TOTAL_TIMEOUT": "1.5",
}


@pytest.fixture(scope="module")
def mortals(gateway_with: GatewayWith) -> GatewayServer:
    """Two processes whose requests are given up soon."""
    return gateway_with([MODEL], **PATIENT | SOON)


@pytest.fixture
def mortal(mortals: GatewayServer, simulator: SimulatedUpstream) -> Twice:
    simulator.clear()
    account = seed_account(mortals, credits_usd="1000")
    return Twice(Desk(mortals, simulator, account, "plain/first"))


@pytest.mark.parametrize("what", ["server", "worker"])
def test_who_died_before_the_charge_blocks_nobody_for_long(mortal: Twice, what: str) -> None:
    server = mortal.desk.server
    mortal.desk.upstream.script("first", {"gate": "dead"}, {})
    with ThreadPoolExecutor(1) as pool:
        lost = pool.submit(pytest.raises, requests.RequestException, mortal.ask, "kill")
        mortal.desk.upstream.wait_gate("dead")
        if what == "server":
            server.kill()
        else:
            _kill_workers(server)
        lost.result()
    mortal.desk.upstream.open_gate("dead")
    if what == "server":
        server.start()
    heard: list[requests.Response] = []

    def is_answered() -> bool:
        heard.append(mortal.ask("kill"))
        return heard[-1].status_code == 200

    server.wait_until(is_answered, within_s=LEASE_S + SWEEP_S + 10)

    assert {reason(each) for each in heard[:-1]} <= {"idempotency_key_in_use"}
    same_again = mortal.ask("kill")
    same(heard[-1], same_again)
    calls = mortal.calls()
    assert sorted(call.charge_nano > 0 for call in calls) == [False, True]
    assert [call.lost for call in calls].count(True) == 1
    assert mortal.upstream_calls() == 2
    server.check_books()


def _kill_workers(server: GatewayServer) -> None:
    dead = children(server.pid)
    for pid in dead:
        os.kill(pid, signal.SIGKILL)
    server.wait_until(lambda: not set(dead) & set(children(server.pid)), within_s=20)
    server.wait_ready()


def test_a_stop_lets_the_next_one_begin_anew(twice: Twice) -> None:
    """The worker that stops forgets what it did not finish, whole answer or stream."""
    server = twice.desk.server
    twice.desk.upstream.script("first", {"gate": "one"}, {"gate": "two"}, {})
    with ThreadPoolExecutor(2) as pool:
        ended = [pool.submit(twice.ask, f"stop-{way}", stream=way) for way in (False, True)]
        for gate in ("one", "two"):
            twice.desk.upstream.wait_gate(gate)
        for pid in children(server.pid):
            os.kill(pid, signal.SIGTERM)
        assert {each.result().status_code for each in ended} == {503}
    for gate in ("one", "two"):
        twice.desk.upstream.open_gate(gate)

    for way in (False, True):
        assert twice.ask(f"stop-{way}", stream=way).status_code == 200
    server.wait_until(lambda: [call.charge_nano > 0 for call in twice.calls()].count(True) == 2)


# --- Interns --------------------------------------------------------------------------------------

INTERNS = "/api/v1/interns"


@pytest.fixture
def account(twice_gateway: GatewayServer) -> SeededAccount:
    return seed_account(twice_gateway)


def create(server: GatewayServer, account: SeededAccount, key: str, name: str) -> Any:
    headers = {"Idempotency-Key": key} if key else {}
    return server.post(INTERNS, key=account.api_key, json={"name": name}, headers=headers)


def test_one_creation_fifty_times_at_once_is_one_intern(
    twice_gateway: GatewayServer, account: SeededAccount
) -> None:
    answers = at_a_time(16, AT_ONCE, lambda n: create(twice_gateway, account, "", "research"))

    assert Counter(each.status_code for each in answers) == {201: 1, 200: AT_ONCE - 1}
    assert len({each.json()["id"] for each in answers}) == 1
    listed = twice_gateway.get(INTERNS, key=account.api_key).json()["data"]
    assert [each["name"] for each in listed] == ["research"]


def test_a_member_s_limit_of_interns_holds_from_the_first_request_on(
    gateway_with: GatewayWith,
) -> None:
    server = gateway_with([MODEL], INTERNS_MAX_PER_MEMBER="3", WEB_CONCURRENCY="2")
    account = seed_account(server)

    answers = at_a_time(20, 20, lambda n: create(server, account, "", f"intern-{n}"))

    assert Counter(each.status_code for each in answers) == {201: 3, 409: 17}
    assert {reason(each) for each in answers if not each.ok} == {"intern_limit_reached"}
    assert len(server.get(INTERNS, key=account.api_key).json()["data"]) == 3
