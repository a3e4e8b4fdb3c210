"""D1: Valkey killed, frozen and slow under load of two processes that look at it for the
session of every request. Inference does not feel it, the money is exact, `/readyz` tells, sessions
are kept again afterwards, and the Celery worker comes back by itself.
"""

import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import redis

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import Desk
from tests.faults import bench
from tests.faults.conftest import GatewayWith
from tests.faults.steady import Asked, Steady, upstream_tags
from tests.support.gateways import seed_account
from tests.support.ledger import Ledger
from tests.support.procfile import running_line
from tests.support.promptness import in_time
from tests.support.server import as_json
from tests.support.tcp_proxy import TcpProxy
from tests.support.valkey import ValkeyServer

pytestmark = pytest.mark.thorough
CALLERS = 4
QUIET = DURING = 40
ADDED_S = 0.1
PROBE_S = 1.0
# Celery asks a lost broker again after 2, 4, 6, ... seconds; a frozen one it waits for 5 s.
WORKER_BACK_S = 25.0


@dataclass
class Store:
    """A shared cache behind a proxy."""

    valkey: ValkeyServer
    proxy: TcpProxy

    def make_delay(self, seconds: float) -> Callable[[], None]:
        return lambda: setattr(self.proxy, "delay_s", seconds)

    @contextmanager
    def harm(self, how: str) -> Iterator[None]:
        valkey = self.valkey
        begin, end = {
            "killed": (valkey.stop, valkey.start),
            "frozen": (valkey.pause, valkey.resume),
            "slow": (self.make_delay(3.0), self.make_delay(0.0)),
        }[how]
        begin()
        try:
            yield
        finally:
            end()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    valkey = ValkeyServer(tmp_path_factory.mktemp("d1") / "v")
    valkey.start()
    with TcpProxy(str(valkey.socket)) as proxy:
        yield Store(valkey, proxy)
    valkey.stop()


@dataclass
class Scene:
    """A gateway with worker and beat at that store."""

    desk: Desk
    store: Store
    beat: "subprocess.Popen[bytes]"

    def check(self, name: str) -> bool | None:
        begun_at = time.monotonic()
        ready = self.desk.server.get("/readyz")
        in_time(time.monotonic() - begun_at, PROBE_S)
        assert ready.status_code == 200
        checks = as_json(ready)["checks"]
        # Nobody reads the queues of interns here.
        is_worker = name == "worker"
        found: bool | None = (
            checks["worker"]["queues"]["celery"] if is_worker else checks[name]["ok"]
        )
        return found

    def tasks(self) -> tuple[int, int]:
        """How many have been sent since the store's start, and how many no worker has taken."""
        with redis.Redis.from_url(self.store.valkey.url) as client:
            sent = client.info("commandstats").get("cmdstat_lpush", {}).get("calls", 0)
            return int(sent), int(client.llen("celery"))

    def wait_whole(self) -> None:
        """Everything is as before. The shared cache answers, the worker shows its life in it, and
        the worker takes what beat sends, a task a second."""

        def alive() -> bool:
            return bool(self.check("hints") and self.check("worker"))

        self.desk.server.wait_until(alive, within_s=WORKER_BACK_S)
        before, _ = self.tasks()

        def at_work() -> bool:
            sent, waiting = self.tasks()
            return sent >= before + 2 and waiting == 0

        self.desk.server.wait_until(at_work, within_s=WORKER_BACK_S)


class Sessions(Steady):
    """Callers ask as one of a few sessions each time."""

    def body(self, tag: str) -> dict[str, Any]:
        session = f"session-{int(tag.rpartition('-')[2]) % 20}"
        return super().body(tag) | {"session_id": session}


@pytest.fixture(scope="module")
def scene(gateway_with: GatewayWith, store: Store, simulator: SimulatedUpstream) -> Iterator[Scene]:
    options: dict[str, Any] = {"worker": True, "WEB_CONCURRENCY": "2", "HOLD_SWEEP_SECONDS": "1"}
    pair = bench.model("d1/pair", bench.endpoint("first"), bench.endpoint("second"))
    redis_url = f"redis://127.0.0.1:{store.proxy.port}/0"
    server = gateway_with([pair], redis_url=redis_url, **options)
    account = seed_account(server, credits_usd="1000")
    with running_line(server, "beat") as beat:
        yield Scene(Desk(server, simulator, account, "d1/pair"), store, beat)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("at_least_s", [0, pytest.param(30, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("harm", ["killed", "frozen", "slow"])
def test_inference_does_not_feel_it(scene: Scene, harm: str, at_least_s: float) -> None:
    scene.desk.upstream.clear()
    scene.wait_whole()
    with Sessions(scene.desk, callers=CALLERS, pause_s=0.05) as load:
        load.wait_until(200, QUIET, since=0)
        begun_at = time.monotonic()
        with scene.store.harm(harm):
            assert scene.check("hints") is False
            scene.desk.server.wait_until(lambda: scene.check("worker") is None)
            load.wait_until(200, DURING, since=begun_at)
            load.wait_until(200, 1, since=begun_at + at_least_s, within_s=at_least_s + 20)
        load.wait_until(200, QUIET // 4, since=time.monotonic())
    before = [one for one in load.asked if one.begun_at < begun_at]
    in_time(slow_s(load.since(begun_at)) - slow_s(before), ADDED_S)
    scene.wait_whole()
    assert scene.beat.poll() is None
    check_calls(scene.desk, load)
    # What is recorded once it is back holds for all processes.
    sessions = iter(range(100))
    scene.desk.server.wait_until(lambda: has_one_provider(scene.desk, f"{harm}-{next(sessions)}"))


def has_one_provider(desk: Desk, session: str) -> bool:
    return len({desk.ok(session_id=session)["provider"] for _ in range(6)}) == 1


def slow_s(asked: list[Asked]) -> float:
    """What one in ten takes at least."""
    return statistics.quantiles([one.took_s for one in asked], n=10)[-1]


def check_calls(desk: Desk, load: Steady) -> None:
    """All were answered, and each is in the books once."""
    assert [one for one in load.asked if one.status != 200] == []
    ledger = Ledger(desk.server.env["DATABASE_URL"])
    calls = {call.user: call for call in ledger.calls(desk.account.account_id)}
    assert {calls[one.tag].entries for one in load.asked} == {1}
    assert sorted(upstream_tags(desk)) == sorted(one.tag for one in load.asked)
    desk.server.check_books()
