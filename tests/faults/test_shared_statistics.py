"""Web processes know what the others have met, and a new one what there was before it."""

import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis
import requests

from routing.serving.process import PROBE_S
from routing.serving.shared_form import read_entry
from tests.conformance.desk import HELLO, Desk
from tests.faults import bench
from tests.faults.conftest import Open
from tests.support.bed import Bed
from tests.support.raw_desk import worker_pids
from tests.support.server import as_json

pytestmark = pytest.mark.thorough

CALLS = 24
PAIR = bench.model(
    "shared/pair", bench.endpoint("first"), bench.endpoint("second", pricing=bench.DEAR)
)
WINDOW_S = 6.0
# Other gateways tell each other things in the first database of the same store.
STORE_OF_ITS_OWN = "?db=7"
# So many connections that every one of four processes takes some.
MANY = 40


def endpoints(desk: Desk) -> dict[str, Any]:
    """What the catalogue says of each endpoint, by tag."""
    answer = desk.server.get(f"/api/v1/models/{desk.model}/endpoints", key=desk.account.api_key)
    return {each["tag"]: each for each in as_json(answer)["data"]["endpoints"]}


def uptime(desk: Desk) -> float | None:
    found: float | None = endpoints(desk)["first"]["uptime_last_5m"]
    return found


def sent_to(desk: Desk, persona: str) -> int:
    return len(desk.upstream.requests(persona))


def test_a_worker_that_is_killed_gets_its_statistics_back(desk_on: Open, stores: Bed) -> None:
    desk = desk_on([PAIR], WEB_CONCURRENCY="1", REDIS_URL=stores.redis_url + STORE_OF_ITS_OWN)
    for _ in range(CALLS):
        desk.ok()
    desk.server.wait_until(lambda: uptime(desk) == 100, within_s=40)
    (before,) = worker_pids(desk.server)
    # It tells what it has counted every two seconds, and what a busy store did not take is lost.
    desk.server.wait_until(lambda: bool(desk.ok()) and calls_told(desk) >= CALLS, within_s=40)

    os.kill(before, signal.SIGKILL)

    desk.server.wait_until(lambda: worker_pids(desk.server) not in ([before], []), within_s=40)
    desk.server.wait_until(lambda: uptime(desk) == 100, within_s=40)
    assert worker_pids(desk.server) != [before]
    assert endpoints(desk)["first"]["latency_last_30m"] is not None


def calls_told(desk: Desk) -> int:
    """Calls in the stream that processes share."""
    told = 0
    with redis.Redis.from_url(desk.server.env["REDIS_URL"]) as client:
        for key in client.keys("gateway:*:traffic"):
            entries: Any = client.xrange(key)
            tallies = (read_entry(fields[b"d"], at=0).tallies for _, fields in entries)
            told = max(told, sum(tally.calls for entry in tallies for _, tally in entry))
    return told


@pytest.mark.timeout(120)
def test_one_of_all_processes_sends_the_probe(desk_on: Open) -> None:
    """An endpoint failed; when its time has passed one request tries it, and until that has ended
    all others of all processes go elsewhere."""
    window = {"ROUTER_OUTAGE_WINDOW_SECONDS": str(WINDOW_S), "WEB_CONCURRENCY": "4"}
    desk = desk_on([PAIR], ROUTER_FIRST_BYTE_TIMEOUT="30", **window)
    desk.upstream.script("first", {"status": 503}, repeat=True)
    # Every process has met it, or been told by another.
    desk.server.wait_until(lambda: goes_elsewhere(desk))
    desk.upstream.script("first", {"gate": "probe"}, repeat=True)
    before = sent_to(desk, "first")
    with ThreadPoolExecutor(1) as pool:
        prober = pool.submit(ask_until, lambda: sent_to(desk, "first") > before, desk)
        desk.server.wait_until(lambda: sent_to(desk, "first") > before, within_s=20)
        desk.upstream.wait_gate("probe")

        assert goes_elsewhere(desk)

        desk.upstream.open_gate("probe")
        assert prober.result() == "First"
    assert sent_to(desk, "first") == before + 1
    # It has answered: all go there again, in every process.
    desk.server.wait_until(lambda: {desk.ok()["provider"] for _ in range(MANY)} == {"First"})


def goes_elsewhere(desk: Desk) -> bool:
    """Whether of so many calls, each on a new connection, none goes to the first."""
    before = sent_to(desk, "first")
    assert {desk.ok()["provider"] for _ in range(MANY)} == {"Second"}
    return sent_to(desk, "first") == before


def ask_until(done: Callable[[], bool], desk: Desk) -> str:
    """The provider of the call that made it so, which may take its time."""
    while True:
        provider = str(desk.ok()["provider"])
        if done():
            return provider


@pytest.mark.timeout(120)
def test_a_probe_whose_caller_left_keeps_nobody_from_the_next(desk_on: Open) -> None:
    """It came to nothing, so that nobody is told of it; the time of a probe is half a minute."""
    window = {"ROUTER_OUTAGE_WINDOW_SECONDS": str(WINDOW_S), "WEB_CONCURRENCY": "4"}
    desk = desk_on([PAIR], ROUTER_FIRST_BYTE_TIMEOUT="60", **window)
    desk.upstream.script("first", {"status": 503}, repeat=True)
    desk.server.wait_until(lambda: goes_elsewhere(desk))
    desk.upstream.script("first", {"gate": "left"}, repeat=True)
    before = sent_to(desk, "first")

    desk.server.wait_until(
        lambda: left_alone(desk) and sent_to(desk, "first") > before, within_s=40
    )
    desk.upstream.open_gate("left")

    # Well before the time of the probe is over.
    desk.server.wait_until(lambda: desk.ok()["provider"] == "First", within_s=PROBE_S / 2)


def left_alone(desk: Desk) -> bool:
    """Whether a stream had not begun when its caller lost patience and left."""
    path, body = "/api/v1/chat/completions", {"model": desk.model, "messages": HELLO}
    try:
        desk.server.post(path, key=desk.account.api_key, json={**body, "stream": True}, timeout=1)
    except requests.Timeout:
        return True
    return False
