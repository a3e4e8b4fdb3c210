"""M4 where it ends otherwise: streams, processes that die, and management requests."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

import pytest
import requests

from routing.simulator.testing import SimulatedUpstream
from tests.accounts.dump import database_text
from tests.conformance.desk import CHAT, HELLO, Desk
from tests.faults import bench
from tests.faults.conftest import loaded
from tests.support.bed import Bed
from tests.support.callers import at_a_time
from tests.support.gateways import StartGateway, seed_account
from tests.support.server import GatewayServer, as_json
from tests.support.twice import (
    AT_ONCE,
    FORMATS,
    MODEL,
    PATIENT,
    Twice,
    check_not_kept,
    reason,
    same,
)
from tests.support.victims import children

pytest_plugins = ["tests.support.twice_fixtures"]
pytestmark = [pytest.mark.both, pytest.mark.thorough]
OrmOf = Callable[[GatewayServer], AbstractContextManager[None]]


@pytest.mark.parametrize("path", FORMATS)
def test_a_stream_happens_once_and_is_not_told_again(twice: Twice, path: str) -> None:
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

    def told() -> bool:
        # The last byte may be here before the row says so.
        return reason(twice.ask("live", path, stream=True)) == "answer_not_kept"

    twice.desk.server.wait_until(told)
    check_not_kept(twice, first, twice.ask("live", path, stream=True))


def test_a_stream_that_broke_without_a_charge_begins_anew(twice: Twice) -> None:
    twice.desk.upstream.script("first", {"events": [{"text": "Hi"}, {"failure": "gone"}]}, {})

    broken = twice.ask("live", stream=True)
    assert '"error"' in broken.text

    twice.desk.server.wait_until(lambda: twice.ask("live", stream=True).status_code == 200)
    assert [call.charge_nano > 0 for call in twice.calls()].count(True) == 1


def test_a_stream_whose_caller_left_is_not_paid_twice(twice: Twice) -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 9, "total_tokens": 12}
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage}
    events = [{"text": "Hello, this is some text"}, {"gate": "left"}, {"json": end}, "[DONE]"]
    twice.desk.upstream.script("first", {"events": events}, {})
    body = {"model": "plain/first", "messages": HELLO, "stream": True}
    with requests.post(
        twice.desk.server.root_url + CHAT,
        json=body,
        headers={
            "Authorization": f"Bearer {twice.desk.account.api_key}",
            "Idempotency-Key": "left",
        },
        stream=True,
        timeout=30,
    ) as response:
        next(response.iter_lines())
        generation = response.headers["X-Generation-Id"]
    twice.desk.upstream.open_gate("left")
    twice.desk.wait_record(generation)

    data = json.dumps(body).encode()
    headers = {"Idempotency-Key": "left", "Content-Type": "application/json"}
    twice.desk.server.wait_until(
        lambda: reason(twice.desk.raw(data, headers=headers)) == "answer_not_kept"
    )
    assert twice.upstream_calls() == 1


# --- Processes that die ---------------------------------------------------------------------------

LEASE_S, SWEEP_S, TOTAL_S = 3.0, 0.3, 2.5


@pytest.fixture(scope="module")
def mortals(
    tmp_path_factory: pytest.TempPathFactory, stores: Bed, simulator: SimulatedUpstream
) -> Iterator[GatewayServer]:
    """Two processes whose requests are given up soon."""
    folder = tmp_path_factory.mktemp("mortals")
    first = bench.provider("first", f"{simulator.url}/first/v1")
    soon = {
        "HOLD_LEASE_SECONDS": str(LEASE_S),
        "HOLD_SWEEP_SECONDS": str(SWEEP_S),
        "ROUTER_TOTAL_TIMEOUT": str(TOTAL_S),
    }
    with StartGateway(stores, folder) as starter:
        yield loaded(starter, folder, bench.as_yaml([first], [MODEL]), **PATIENT | soon)


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

    def answered() -> bool:
        heard.append(mortal.ask("kill"))
        return heard[-1].status_code == 200

    server.wait_until(answered, within_s=LEASE_S + SWEEP_S + 10)

    assert {reason(each) for each in heard[:-1]} <= {"idempotency_key_in_use"}
    same_again = mortal.ask("kill")
    same(heard[-1], same_again)
    calls = mortal.calls()
    assert sorted(call.charge_nano > 0 for call in calls) == [False, True]
    assert [call.lost for call in calls].count(True) == 1
    assert mortal.upstream_calls() == 2
    audit = server.manage("audit_ledger")
    assert (audit["mismatches"], audit["open_holds"]) == ([], 0)


def _kill_workers(server: GatewayServer) -> None:
    dead = children(server.pid)
    for pid in dead:
        os.kill(pid, signal.SIGKILL)
    server.wait_until(lambda: not set(dead) & set(children(server.pid)), within_s=20)
    server.wait_ready()


def test_who_died_after_the_charge_is_never_carried_out_again(mortal: Twice, orm_of: OrmOf) -> None:
    first = mortal.ask("settled")
    with orm_of(mortal.desk.server):
        from django.db.models import F

        from accounts.models import RepeatableRequest

        # As the row is while the answer is on its way.
        RepeatableRequest.objects.update(
            finished_at=None,
            status=None,
            sealed_answer=None,
            answer_until=None,
            lease_until=F("created_at"),
        )

    for _ in range(3):
        check_not_kept(mortal, first, mortal.ask("settled"))


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


# --- Management -----------------------------------------------------------------------------------


def manage(twice: Twice, path: str, body: Any, key: str) -> requests.Response:
    return twice.desk.server.post(
        f"/api/v1{path}",
        key=twice.desk.account.management_key,
        json=body,
        headers={"Idempotency-Key": key},
    )


def test_fifty_posts_make_one_workspace(twice: Twice) -> None:
    team = {"name": "Team", "slug": "team"}

    answers = at_a_time(AT_ONCE, AT_ONCE, lambda _: manage(twice, "/workspaces", team, "w"))

    good = [each for each in answers if each.status_code == 201]
    assert len({each.content for each in good}) == 1
    assert {reason(each) for each in answers if each not in good} <= {"idempotency_key_in_use"}
    again = manage(twice, "/workspaces", team, "w")
    assert (again.status_code, again.content) == (201, good[0].content)
    found = twice.desk.server.get("/api/v1/workspaces", key=twice.desk.account.management_key)
    assert [row["slug"] for row in as_json(found)["data"]].count("team") == 1


def test_fifty_posts_make_one_key_and_show_it_once(twice: Twice, orm_of: OrmOf) -> None:
    body = {"name": "one of a kind"}

    answers = at_a_time(AT_ONCE, AT_ONCE, lambda _: manage(twice, "/keys", body, "made"))

    (made,) = [as_json(each) for each in answers if each.status_code == 201]
    refused = manage(twice, "/keys", body, "made")
    assert reason(refused) == "answer_not_kept"
    assert as_json(refused)["error"]["metadata"]["made"] == made["data"]["hash"]
    with orm_of(twice.desk.server):
        kept = database_text()
    assert made["key"] not in kept
    assert kept.count("one of a kind") >= 1
    assert made["key"] not in twice.desk.server.log()


def test_the_header_is_nothing_where_nothing_can_happen_twice(twice: Twice) -> None:
    count = {"model": "plain/first", "messages": HELLO}
    for _ in range(2):
        answer = twice.desk.server.post(
            "/api/v1/messages/count_tokens",
            key=twice.desk.account.api_key,
            json=count,
            headers={"Idempotency-Key": "c"},
        )
        assert answer.status_code == 200
        assert "Idempotent-Replayed" not in answer.headers
