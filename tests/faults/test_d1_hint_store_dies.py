"""D1: Valkey killed, frozen, slow and flushed under load. Inference does not feel it, the money is
exact, `/readyz` tells, and the Celery worker comes back by itself."""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import Desk
from tests.faults import bench
from tests.faults.conftest import loaded
from tests.support import processes
from tests.support.bed import Bed
from tests.support.gateways import StartGateway, seed_account
from tests.support.ledger import Ledger
from tests.support.manage import PROJECT
from tests.support.promptness import in_time
from tests.support.server import as_json
from tests.support.steady import Asked, Steady, upstream_tags
from tests.support.tcp_proxy import TcpProxy
from tests.support.valkey import ValkeyServer

pytestmark = pytest.mark.thorough

CALLERS = 4
QUIET = 60
DURING = 60
ADDED_S = 0.1
PROBE_S = 1.0
# Celery asks a lost broker again after 2, 4, 6, ... seconds; a frozen one it waits for 5 s.
WORKER_BACK_S = 25.0


@dataclass
class Scene:
    """A gateway with worker and beat whose hint store is behind a proxy."""

    desk: Desk
    valkey: ValkeyServer
    proxy: TcpProxy
    beat: "subprocess.Popen[bytes]"

    def check(self, name: str) -> bool | None:
        begun_at = time.monotonic()
        ready = self.desk.server.get("/readyz")
        in_time(time.monotonic() - begun_at, PROBE_S)
        assert ready.status_code == 200
        checks = as_json(ready)["checks"]
        # Nobody reads the queues of interns here.
        found: bool | None = (
            checks["worker"]["queues"]["celery"] if name == "worker" else checks[name]["ok"]
        )
        return found

    def sent(self) -> int:
        """How many tasks have been sent since the store's start."""
        with redis.Redis.from_url(self.valkey.url) as client:
            return int(client.info("commandstats").get("cmdstat_lpush", {}).get("calls", 0))

    def waiting(self) -> int:
        """How many tasks no worker has taken."""
        with redis.Redis.from_url(self.valkey.url) as client:
            return int(client.llen("celery"))


@pytest.fixture(scope="module")
def scene(
    tmp_path_factory: pytest.TempPathFactory, stores: Bed, simulator: SimulatedUpstream
) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("d1")
    valkey = ValkeyServer(folder / "v")
    valkey.start()
    catalogue = bench.as_yaml(bench.personas(simulator), bench.plain_models())
    with (
        TcpProxy(str(valkey.socket)) as proxy,
        StartGateway(stores, folder) as starter,
    ):
        options: dict[str, Any] = {"worker": True, "HOLD_SWEEP_SECONDS": "1"}
        redis_url = f"redis://127.0.0.1:{proxy.port}/0"
        server = loaded(starter, folder, catalogue, redis_url=redis_url, **options)
        beat = started_beat(folder, server.env)
        account = seed_account(server, credits_usd="1000")
        yield Scene(Desk(server, simulator, account, "plain/first"), valkey, proxy, beat)
        processes.kill(beat)
    valkey.stop()


def started_beat(folder: Path, env: dict[str, str]) -> "subprocess.Popen[bytes]":
    celery = str(Path(sys.executable).parent / "celery")
    command = [celery, "--quiet", "-A", "gateway", "beat"]
    options = ["--schedule", str(folder / "beat-schedule"), "--pidfile=", "--loglevel", "WARNING"]
    return processes.spawn([*command, *options], log=folder / "beat.log", env=env, cwd=PROJECT)


def killed(scene: Scene) -> None:
    scene.valkey.stop()


def started(scene: Scene) -> None:
    scene.valkey.start()


def frozen(scene: Scene) -> None:
    scene.valkey.pause()


def thawed(scene: Scene) -> None:
    scene.valkey.resume()


def slow(scene: Scene) -> None:
    scene.proxy.delay_s = 3.0


def quick(scene: Scene) -> None:
    scene.proxy.delay_s = 0.0


HARMS = {"killed": (killed, started), "frozen": (frozen, thawed), "slow": (slow, quick)}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("harm", HARMS)
def test_inference_does_not_feel_it(scene: Scene, harm: str) -> None:
    under_load(scene, *HARMS[harm], count=DURING)


@pytest.mark.nightly
@pytest.mark.parametrize("harm", HARMS)
def test_inference_does_not_feel_it_for_thirty_seconds(scene: Scene, harm: str) -> None:
    under_load(scene, *HARMS[harm], count=DURING, at_least_s=30)


def under_load(
    scene: Scene,
    begin: Callable[[Scene], None],
    end: Callable[[Scene], None],
    *,
    count: int,
    at_least_s: float = 0,
) -> None:
    scene.desk.upstream.clear()
    wait_whole(scene)
    with Steady(scene.desk, callers=CALLERS, pause_s=0.05) as load:
        load.until(200, QUIET, since=0)
        begun_at = time.monotonic()
        begin(scene)
        try:
            assert scene.check("hints") is False
            scene.desk.server.wait_until(lambda: scene.check("worker") is None)
            load.until(200, count, since=begun_at)
            load.until(200, 1, since=begun_at + at_least_s, within_s=at_least_s + 20)
        finally:
            end(scene)
        load.until(200, QUIET // 4, since=time.monotonic())
        assert_not_felt(load, begun_at)
    wait_whole(scene)
    assert scene.beat.poll() is None
    assert_books(scene.desk, load)


def wait_whole(scene: Scene) -> None:
    """Everything is as before: the hint store answers, the worker shows its life in it, and what
    beat sends, a task a second, the worker takes."""

    def alive() -> bool:
        return bool(scene.check("hints") and scene.check("worker"))

    scene.desk.server.wait_until(alive, within_s=WORKER_BACK_S)
    sent = scene.sent()

    def at_work() -> bool:
        return scene.sent() >= sent + 2 and scene.waiting() == 0

    scene.desk.server.wait_until(at_work, within_s=WORKER_BACK_S)


def assert_not_felt(load: Steady, begun_at: float) -> None:
    assert [one for one in load.asked if one.status != 200] == []
    before = [one for one in load.asked if one.begun_at < begun_at]
    added_s = ninetieth_s(load.since(begun_at)) - ninetieth_s(before)
    in_time(added_s, ADDED_S)


def ninetieth_s(asked: list[Asked]) -> float:
    return statistics.quantiles([one.took_s for one in asked], n=10)[-1]


def assert_books(desk: Desk, load: Steady) -> None:
    ledger = Ledger(desk.server.env["DATABASE_URL"])
    calls = {call.user: call for call in ledger.calls(desk.account.account_id)}
    for one in load.asked:
        assert calls[one.tag].entries == 1
    assert sorted(upstream_tags(desk)) == sorted(one.tag for one in load.asked)
    audit = desk.server.manage("audit_ledger")
    assert (audit["mismatches"], audit["open_holds"]) == ([], 0)


def test_flushed(scene: Scene) -> None:
    """Everything in it is a hint: the worker shows its life again within two heartbeats."""
    scene.desk.upstream.clear()
    wait_whole(scene)
    with Steady(scene.desk, callers=CALLERS) as load:
        load.until(200, 20, since=0)
        scene.valkey.flush()
        load.until(200, 20, since=time.monotonic())
    assert [one for one in load.asked if one.status != 200] == []
    wait_whole(scene)
    assert_books(scene.desk, load)
