"""Four web processes, one session: its calls stay on one endpoint, move when that fails, and stay
on the next. Without a hint store they begin alike all the same."""

import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import HELLO, Desk
from tests.faults import bench
from tests.faults.conftest import Open, loaded
from tests.support.bed import Bed
from tests.support.gateways import StartGateway, seed_account
from tests.support.raw_desk import worker_pids
from tests.support.server import as_json

pytestmark = pytest.mark.thorough

PROCESSES = 4
SESSIONS, CALLS, CALLERS = 40, 8, 8
# Prices so close that every endpoint is drawn by many sessions.
PRICES = {"first": "0.000010", "second": "0.000011", "third": "0.000012"}
MODEL = bench.model(
    "sticky/one",
    *(
        bench.endpoint(persona, pricing={"prompt": price, "completion": price})
        for persona, price in PRICES.items()
    ),
)


@pytest.fixture(scope="module")
def four(
    tmp_path_factory: pytest.TempPathFactory, stores: Bed, simulator: SimulatedUpstream
) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("four")
    catalogue = bench.as_yaml(bench.personas(simulator), [MODEL])
    with StartGateway(stores, folder) as starter:
        server = loaded(starter, folder, catalogue, WEB_CONCURRENCY=str(PROCESSES))
        account = seed_account(server, credits_usd="1000")
        yield Desk(server, simulator, account, "sticky/one")


@pytest.fixture
def desk(four: Desk) -> Desk:
    four.upstream.clear()
    return four


def providers(desk: Desk, session: str, calls: int, **options: Any) -> list[str]:
    """Who answers so many calls of a session, one after the other, each on a new connection."""
    answers = [desk.post(session_id=session, **options) for _ in range(calls)]
    assert [answer.status_code for answer in answers] == [200] * calls
    return [as_json(answer)["provider"] for answer in answers]


def together(work: Callable[[str], list[str]], sessions: list[str]) -> dict[str, list[str]]:
    with ThreadPoolExecutor(CALLERS) as pool:
        return dict(zip(sessions, pool.map(work, sessions), strict=True))


def named(kind: str, count: int = SESSIONS) -> list[str]:
    return [f"{kind}-{number}" for number in range(count)]


def test_all_of_a_sessions_calls_stay_on_one_endpoint(desk: Desk) -> None:
    assert len(worker_pids(desk.server)) == PROCESSES
    found = together(lambda session: providers(desk, session, CALLS), named("calm"))

    assert {session: set(served) for session, served in found.items() if len(set(served)) > 1} == {}
    # Sessions are spread all the same.
    assert {served[0] for served in found.values()} == {"First", "Second", "Third"}


def test_streams_are_kept_too(desk: Desk) -> None:
    def streamed(session: str) -> list[str]:
        streams = [desk.stream(session_id=session) for _ in range(CALLS // 2)]
        return [str(stream.chunks[0]["provider"]) for stream in streams]

    found = together(streamed, named("flowing", SESSIONS // 2))

    assert all(len(set(served)) == 1 for served in found.values())


def test_a_session_moves_when_its_endpoint_fails_and_stays_there(desk: Desk) -> None:
    """Each session is served by one endpoint until that fails for as long as anybody asks."""
    sessions = named("moving", 12)
    before = together(lambda session: providers(desk, session, 2), sessions)
    desk.upstream.script("first", {"status": 503}, repeat=True)
    during = together(lambda session: providers(desk, session, 3), sessions)
    desk.upstream.clear()
    after = together(lambda session: providers(desk, session, CALLS), sessions)

    moved = [session for session in sessions if before[session][0] == "First"]
    assert moved
    for session in sessions:
        (kept,) = set(during[session])
        assert kept != "First"
        assert session in moved or kept == before[session][0]
        assert set(after[session]) == {kept}


def test_calls_of_one_session_at_once_leave_one_record(desk: Desk) -> None:
    """Whichever of them is last says where it goes on."""
    barrier, numbers = threading.Barrier(CALLERS), itertools.count()

    def call(_: str) -> list[str]:
        barrier.wait()
        return providers(desk, "crowd", 1 + next(numbers) % 2)

    together(call, named("caller", CALLERS))

    assert len(set(providers(desk, "crowd", CALLS))) == 1


def test_without_a_hint_store_processes_begin_alike(desk_on: Open) -> None:
    desk = desk_on([MODEL], WEB_CONCURRENCY=str(PROCESSES), REDIS_URL="")
    assert not as_json(desk.server.get("/readyz"))["checks"]["hints"]["configured"]

    found = together(lambda session: providers(desk, session, CALLS), named("alone"))

    assert all(len(set(served)) == 1 for served in found.values())
    assert {served[0] for served in found.values()} == {"First", "Second", "Third"}


def test_a_conversation_without_a_name_follows_the_cache(
    start_gateway: StartGateway, simulator: SimulatedUpstream, tmp_path: Path
) -> None:
    """Only where the provider's cache was used and cached input is cheaper."""
    simulator.clear()
    cheap = {"prompt": "0.00001", "completion": "0.00001", "input_cache_read": "0.000001"}
    dear = {**cheap, "prompt": "0.00003", "completion": "0.00003"}
    caching = bench.model(
        "sticky/cached",
        bench.endpoint("first", pricing=cheap),
        bench.endpoint("second", pricing=dear),
    )
    catalogue = bench.as_yaml(bench.personas(simulator), [caching])
    server = loaded(start_gateway, tmp_path, catalogue, WEB_CONCURRENCY="2")
    desk = Desk(server, simulator, seed_account(server, credits_usd="100"), "sticky/cached")
    usage = {
        "prompt_tokens": 20,
        "completion_tokens": 5,
        "total_tokens": 25,
        "prompt_tokens_details": {"cached_tokens": 10},
    }
    simulator.script("second", {"usage": usage}, repeat=True)

    def asked(text: str, **options: Any) -> str:
        messages = [*HELLO, {"role": "user", "content": text}]
        return str(desk.ok(messages=messages, **options)["provider"])

    assert asked("the beginning", provider={"only": ["second"]}) == "Second"

    assert [asked(f"and so on {number}") for number in range(12)] == ["Second"] * 12
    others = [[{"role": "user", "content": f"something else {number}"}] for number in range(12)]
    assert {str(desk.ok(messages=other)["provider"]) for other in others} != {"Second"}
