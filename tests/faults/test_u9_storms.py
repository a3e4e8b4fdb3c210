"""U9 with four web processes: storms and hangs at one of three endpoints, then at all, then none.
The others serve meanwhile, retries stay within their budgets, answers come at once, and the end of
the storm is noticed.

Each process has a retry budget of its own; of outages and probes they tell each other.
"""

import itertools
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from routing.serving.request.process import WINDOW_S
from tests.conformance.desk import Desk
from tests.faults import bench
from tests.faults.conftest import Open
from tests.faults.raw_desk import worker_pids
from tests.support.promptness import in_time

pytestmark = pytest.mark.timed
PROCESSES, THREADS = 4, 8
MODEL, PERSONAS = "storm/four", ("first", "second", "third")
SHARE, FLOOR = 0.2, 10
ANSWER_S, RECOVERY_S = 2.0, 30.0
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


@dataclass
class Load:
    """What a crowd of callers met."""

    statuses: Counter[int] = field(default_factory=Counter)
    slowest_s: float = 0.0
    took_s: float = 0.0

    @property
    def calls(self) -> int:
        return self.statuses.total()


def crowd(desk: Desk, *, calls: int = 0, seconds: float = 0.0) -> Load:
    """So many calls, or where it is said calls for so long, by THREADS callers at once."""
    load, lock, numbers = Load(), threading.Lock(), itertools.count()
    started = time.monotonic()
    end_at = started + seconds

    def caller() -> None:
        while time.monotonic() < end_at if seconds else next(numbers) < calls:
            began = time.monotonic()
            status = desk.post().status_code
            with lock:
                load.statuses[status] += 1
                load.slowest_s = max(load.slowest_s, time.monotonic() - began)

    threads = [threading.Thread(target=caller) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    load.took_s = time.monotonic() - started
    return load


@pytest.fixture
def desk(desk_on: Open) -> Desk:
    """A server of the test's own: no health of an earlier storm is left in it."""
    mine = desk_on(
        [bench.model(MODEL, *(bench.endpoint(persona) for persona in PERSONAS))],
        WEB_CONCURRENCY=str(PROCESSES),
        ROUTER_RETRY_BUDGET=str(SHARE),
        ROUTER_RETRY_FLOOR=str(FLOOR),
        ROUTER_OUTAGE_WINDOW_SECONDS=str(OUTAGE_S),
        ROUTER_FIRST_BYTE_TIMEOUT=str(FIRST_BYTE_S),
    )
    mine.server.wait_until(lambda: len(worker_pids(mine.server)) == PROCESSES)
    return mine


def check_one(load: Load) -> None:
    assert load.statuses[200] >= 0.999 * load.calls, load.statuses
    in_time(load.slowest_s, ANSWER_S)


def last_call_number(desk: Desk) -> int:
    """The number of the last call that came upstream; only the newest ones are kept themselves."""
    return max((int(entry["n"]) for entry in desk.upstream.requests()), default=0)


def sent_again(kind: str) -> int:
    """Calls that may be carried out a second time and are no retries. A connection that was kept
    for reuse and is reset by the first use is opened anew."""
    return THREADS * len(PERSONAS) if kind == "reset" else 0


def check_all(desk: Desk, load: Load, *, before: Load, since: int, kind: str) -> None:
    """Nothing can be answered: each call tries somebody, and retries stay within the budgets, of
    which each process has one of its own."""
    assert load.statuses[200] == 0
    in_time(load.slowest_s, ANSWER_S)
    # The calls of the last ten seconds before count for the first window.
    recent = before.calls * min(1.0, WINDOW_S / before.took_s)
    windows = 1 + load.took_s // WINDOW_S
    retries = last_call_number(desk) - since - load.calls
    bound = SHARE * (load.calls + recent) + PROCESSES * FLOOR * windows
    assert 0 < retries <= bound + PROCESSES * sent_again(kind)


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


AT_NIGHT = [pytest.param(kind, 0.0, marks=pytest.mark.nightly) for kind in STORMS]
LONG = [
    pytest.param(kind, LONG_S, marks=pytest.mark.nightly)
    for kind in ("503", "429 with a hint", "hang")
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("kind", "seconds"), [*((k, 0.0) for k in SHORT), *AT_NIGHT[1:], *LONG])
def test_one_of_three_then_all_then_none(desk: Desk, kind: str, seconds: float) -> None:
    storm(desk, STORMS[kind], "first")
    check_one(one := crowd(desk, calls=CALLS, seconds=seconds))
    # A third of the calls would go there if nobody had noticed.
    assert 0 < len(desk.upstream.requests("first")) < one.calls / 6

    since = last_call_number(desk)
    storm(desk, STORMS[kind], *PERSONAS)
    # Waiting for an answer that never comes, a caller makes fewer calls.
    load = crowd(desk, calls=80 if kind == "hang" else CALLS, seconds=seconds)
    check_all(desk, load, before=one, since=since, kind=kind)

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
