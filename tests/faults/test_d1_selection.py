"""D1 for selection: four web processes with sessions, which look at the hint store for every
request, while it is killed, frozen, slow and flushed. Nobody fails, nobody waits for it."""

import itertools
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import Desk
from tests.faults import bench
from tests.faults.conftest import loaded
from tests.support import processes
from tests.support.bed import Bed
from tests.support.gateways import StartGateway, seed_account
from tests.support.promptness import in_time
from tests.support.server import as_json
from tests.support.tcp_proxy import TcpProxy
from tests.support.valkey import ValkeyServer

pytestmark = [pytest.mark.timed, pytest.mark.thorough]

CALLERS, PAUSE_S = 4, 0.02
# Each process finds out by a request or two that wait: fewer than one in a hundred of these.
QUIET, DURING = 200, 1000
ADDED_P99_S = 0.1
SESSIONS = 20


@dataclass(frozen=True)
class Answered:
    begun_at: float
    took_s: float
    status: int


@dataclass
class Sessions:
    """`with Sessions(desk) as load:` callers ask as one of a few sessions each time."""

    desk: Desk
    answers: list[Answered] = field(default_factory=list)
    _enough: threading.Event = field(default_factory=threading.Event)
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)
    _threads: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> "Sessions":
        self._threads += [threading.Thread(target=self._ask_on) for _ in range(CALLERS)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        for thread in self._threads:
            thread.join(30)

    def since(self, moment: float) -> list[Answered]:
        return [each for each in list(self.answers) if each.begun_at >= moment]

    def until(self, count: int, *, since: float) -> None:
        log = self.desk.server.folder / "web.log"
        processes.eventually(
            lambda: len(self.since(since)) >= count, within_s=40, what=f"{count} answers", log=log
        )

    def _ask_on(self) -> None:
        while not self._enough.is_set():
            session = f"session-{next(self._numbers) % SESSIONS}"
            begun_at = time.monotonic()
            status = self.desk.post(session_id=session).status_code
            self.answers.append(Answered(begun_at, time.monotonic() - begun_at, status))
            self._enough.wait(PAUSE_S)


@dataclass
class Scene:
    desk: Desk
    valkey: ValkeyServer
    proxy: TcpProxy


@pytest.fixture(scope="module")
def scene(
    tmp_path_factory: pytest.TempPathFactory, stores: Bed, simulator: SimulatedUpstream
) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("d1s")
    valkey = ValkeyServer(folder / "v")
    valkey.start()
    pair = bench.model("d1/pair", bench.endpoint("first"), bench.endpoint("second"))
    catalogue = bench.as_yaml(bench.personas(simulator), [pair])
    with TcpProxy(str(valkey.socket)) as proxy, StartGateway(stores, folder) as starter:
        redis_url = f"redis://127.0.0.1:{proxy.port}/0"
        options: dict[str, Any] = {"WEB_CONCURRENCY": "4", "ROUTER_FIRST_BYTE_TIMEOUT": "10"}
        server = loaded(starter, folder, catalogue, redis_url=redis_url, **options)
        account = seed_account(server, credits_usd="1000")
        yield Scene(Desk(server, simulator, account, "d1/pair"), valkey, proxy)
    valkey.stop()


def slow(scene: Scene) -> None:
    scene.proxy.delay_s = 3.0


def sluggish(scene: Scene) -> None:
    """An answer takes 70 ms, which is within REDIS_TIMEOUT."""
    scene.proxy.delay_s = 0.035


def quick(scene: Scene) -> None:
    scene.proxy.delay_s = 0.0


Harm = tuple[Callable[[Scene], None], Callable[[Scene], None]]
HARMS: dict[str, Harm] = {
    "killed": (lambda scene: scene.valkey.stop(), lambda scene: scene.valkey.start()),
    "frozen": (lambda scene: scene.valkey.pause(), lambda scene: scene.valkey.resume()),
    "slow": (slow, quick),
    "sluggish": (sluggish, quick),
    "flushed": (lambda scene: scene.valkey.flush(), lambda scene: scene.valkey.flush()),
}


def p99_s(answers: list[Answered]) -> float:
    return statistics.quantiles([each.took_s for each in answers], n=100)[-1]


def hints_answer(scene: Scene) -> bool:
    return bool(as_json(scene.desk.server.get("/readyz"))["checks"]["hints"]["ok"])


# Another test freezes the store, and `test_d1_hint_store_dies` has it slow.
NIGHTLY = {"frozen", "slow"}


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "harm", [pytest.param(h, marks=[pytest.mark.nightly] * (h in NIGHTLY)) for h in HARMS]
)
def test_selection_does_not_feel_it(scene: Scene, harm: str) -> None:
    begin, end = HARMS[harm]
    scene.desk.upstream.clear()
    scene.desk.server.wait_until(lambda: hints_answer(scene))
    with Sessions(scene.desk) as load:
        load.until(QUIET, since=0)
        begun_at = time.monotonic()
        begin(scene)
        try:
            load.until(DURING, since=begun_at)
        finally:
            end(scene)
        ended_at = time.monotonic()
        load.until(QUIET, since=ended_at)

    assert [each for each in load.answers if each.status != 200] == []
    before = [each for each in load.answers if each.begun_at < begun_at]
    in_time(p99_s(load.since(begun_at)) - p99_s(before), ADDED_P99_S)
    scene.desk.server.wait_until(lambda: hints_answer(scene))


@pytest.mark.timeout(120)
def test_sessions_are_kept_again_after_it(scene: Scene) -> None:
    """What is recorded once it is back holds for all processes."""
    scene.valkey.pause()
    scene.desk.post(session_id="lost")
    scene.valkey.resume()
    scene.desk.server.wait_until(lambda: hints_answer(scene))
    providers: list[set[str]] = []

    def kept() -> bool:
        """Each process finds the store back within its next round of sharing."""
        session = f"after-{len(providers)}"
        answers = [scene.desk.ok(session_id=session) for _ in range(8)]
        providers.append({answer["provider"] for answer in answers})
        return len(providers) >= 5 and all(len(each) == 1 for each in providers[-5:])

    scene.desk.server.wait_until(kept, within_s=20)


def test_an_outage_is_told_once(scene: Scene) -> None:
    log = scene.desk.server.log()

    gone = log.count("The hint store does not answer")
    back = log.count("The hint store answers again")

    slow = log.count("The hint store is slow")

    # Four processes, five harms of which one is none and one is mostly told as slow (as gone, where
    # a process gave the store less than its time), and the pause of the test before.
    assert 0 < gone <= 4 * 5
    assert slow > 0
    assert back <= gone + slow
