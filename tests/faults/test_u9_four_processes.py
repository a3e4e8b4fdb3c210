"""U9 with four web processes: storms and hangs at one of three endpoints, then at all, then none.

Each process has a retry budget of its own; of outages and probes they tell each other.
"""

import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import Desk
from tests.faults import bench
from tests.faults.conftest import loaded
from tests.faults.test_u9_storms import (
    FLOOR,
    PERSONAS,
    RECOVERY_S,
    SHARE,
    check_all,
    check_one,
    crowd,
    served,
)
from tests.support.bed import Bed
from tests.support.gateways import StartGateway, seed_account
from tests.support.promptness import in_time
from tests.support.raw_desk import worker_pids

pytestmark = pytest.mark.timed

PROCESSES = 4
MODEL = "storm/four"
OUTAGE_S, FIRST_BYTE_S, HINT_S, PROBE_TAKES_S = 1.0, 0.4, 2, 0.4
STORMS: dict[str, dict[str, Any]] = {
    "503": {"status": 503},
    "hang": {"fault": "hang"},
    "429 with a hint": {"status": 429, "headers": {"Retry-After": str(HINT_S)}},
    "429": {"status": 429},
    "500": {"status": 500},
    "reset": {"fault": "reset"},
}
SHORT = ("503", "429 with a hint")
CALLS, LONG_S = 240, 30.0
# Hints are told every two seconds; twice that, and every process has heard of the outage.
TOLD_S = 4.0
PROBING_S = 10.0


@pytest.fixture(scope="module")
def gateway_of_four(
    tmp_path_factory: pytest.TempPathFactory, stores: Bed, simulator: SimulatedUpstream
) -> Iterator[StartGateway]:
    with StartGateway(stores, tmp_path_factory.mktemp("u9")) as starter:
        yield starter


@pytest.fixture
def desk(
    gateway_of_four: StartGateway, simulator: SimulatedUpstream, tmp_path: Path
) -> Iterator[Desk]:
    """A server of the test's own: no health of an earlier storm is left in it."""
    simulator.clear()
    ends = [bench.endpoint(persona) for persona in PERSONAS]
    server = loaded(
        gateway_of_four,
        tmp_path,
        bench.as_yaml(bench.personas(simulator), [bench.model(MODEL, *ends)]),
        WEB_CONCURRENCY=str(PROCESSES),
        ROUTER_RETRY_BUDGET=str(SHARE),
        ROUTER_RETRY_FLOOR=str(FLOOR),
        ROUTER_OUTAGE_WINDOW_SECONDS=str(OUTAGE_S),
        ROUTER_FIRST_BYTE_TIMEOUT=str(FIRST_BYTE_S),
    )
    server.wait_until(lambda: len(worker_pids(server)) == PROCESSES)
    yield Desk(server, simulator, seed_account(server, credits_usd="1000"), MODEL)
    server.kill()


def storm(desk: Desk, step: dict[str, Any], *personas: str) -> None:
    desk.upstream.clear()
    for persona in personas:
        desk.upstream.script(persona, step, repeat=True)


def check_recovery(desk: Desk) -> None:
    """Every call is answered from the first on, and every endpoint has its share again."""
    began = time.monotonic()
    desk.upstream.clear()
    while {entry["persona"] for entry in desk.upstream.requests()} != set(PERSONAS):
        in_time(time.monotonic() - began, RECOVERY_S)
        load = crowd(desk, calls=24)
        assert load.statuses == {200: load.calls}


KINDS = [
    pytest.param(kind, marks=[] if kind in SHORT else [pytest.mark.nightly]) for kind in STORMS
]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", KINDS)
def test_one_of_three_then_all_then_none(desk: Desk, kind: str) -> None:
    storm(desk, STORMS[kind], "first")
    check_one(one := crowd(desk, calls=CALLS))
    # A third of the calls would go there if nobody had noticed.
    assert 0 < len(desk.upstream.requests("first")) < CALLS / 6

    since = served(desk)
    storm(desk, STORMS[kind], *PERSONAS)
    # Waiting for an answer that never comes, a caller makes fewer calls.
    load = crowd(desk, calls=80 if kind == "hang" else CALLS)
    check_all(desk, load, before=one, since=since, kind=kind, processes=PROCESSES)

    check_recovery(desk)


@pytest.mark.nightly
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["503", "429 with a hint", "hang"])
def test_long_storms(desk: Desk, kind: str) -> None:
    storm(desk, STORMS[kind], "first")
    check_one(one := crowd(desk, seconds=LONG_S))
    assert len(desk.upstream.requests("first")) < one.calls / 6

    since = served(desk)
    storm(desk, STORMS[kind], *PERSONAS)
    load = crowd(desk, seconds=LONG_S)
    check_all(desk, load, before=one, since=since, kind=kind, processes=PROCESSES)

    check_recovery(desk)


@pytest.mark.timeout(120)
def test_one_probe_at_a_time_of_all_processes(desk: Desk) -> None:
    """A half-open endpoint whose answers take their time is asked by one request of them all."""
    storm(desk, {"status": 503, "delay_s": PROBE_TAKES_S}, "first")
    check_one(load := crowd(desk, seconds=PROBING_S))

    visits = sorted(desk.upstream.requests("first"), key=lambda entry: entry["received_at"])
    begun_at = visits[0]["received_at"]
    probes = [entry for entry in visits if entry["received_at"] > begun_at + TOLD_S]
    assert probes, "nobody looked whether it is back"
    for earlier, later in pairwise(probes):
        assert later["received_at"] >= earlier["ended_at"], probes
    # Each failed probe doubles the window.
    assert len(probes) <= PROBING_S / OUTAGE_S / 2, (len(probes), load.calls)
