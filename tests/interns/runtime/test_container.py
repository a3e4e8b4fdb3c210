"""The container driver, against Podman: the conformance suite, and what only containers have."""

import gc
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from routing.simulator.testing import SimulatedUpstream
from tests.interns import podman
from tests.interns.runtime import test_conformance as conformance
from tests.interns.runtime.bench import Bench, wait_until

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(podman.why_not()), reason=f"no engine: {podman.why_not()}"),
]


@pytest.fixture(scope="module")
def engine() -> Iterator[podman.Podman]:
    engine = podman.Podman(Path(tempfile.mkdtemp(prefix="p")))
    try:
        engine.start()
        engine.load_base()
        yield engine
    finally:
        engine.stop()


@pytest.fixture
def bench(
    engine: podman.Podman, settings: Any, runtime_home: Path, simulator: SimulatedUpstream
) -> Iterator[Bench]:
    from interns.runtime.container import ContainerDriver

    settings.INTERN_CONTAINER_HOST = engine.url
    settings.INTERN_CONTAINER_BASE = podman.BASE
    driver = ContainerDriver()
    bench = Bench(driver, simulator, f"intern-{uuid4().hex}")
    yield bench
    bench.clear()
    driver._engine.close()
    if watched := driver.__dict__.get("_watched_engine"):
        watched.close()


@conformance.ANY_DRIVER
def test_it_conforms(bench: Bench, holds: Any) -> None:
    holds(bench)


def test_what_commands_find_inside(bench: Bench) -> None:
    # Loopback is the only interface.
    found = bench.look_inside("id -u", "grep -c : /proc/net/dev")
    assert found.startswith("10001\n1\n")


def test_a_container_that_ends_is_gone(bench: Bench) -> None:
    plan, runtime = bench.boot()
    driver: Any = bench.driver
    driver._engine.containers.get(runtime.facts["container"]).kill()
    assert wait_until(lambda: driver.health(plan.intern_id).exited)
    # Its keeper is what is left; whoever stops it finds that too.
    assert [r.intern_id for r in driver.runtimes()] == [plan.intern_id]
    driver.stop(plan.intern_id)
    assert driver.runtimes() == []


def test_an_engine_that_hangs_keeps_nobody_who_looks(
    bench: Bench, engine: podman.Podman, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, runtime = bench.boot()
    driver: Any = bench.driver
    # Whoever waited so long would meet the test's own end.
    monkeypatch.setattr("interns.runtime.container.ENGINE_S", 3600)
    monkeypatch.setattr("interns.runtime.container._LOOK_S", 1)
    driver.__dict__.pop("_watched_engine", driver._engine).close()
    pid = driver._engine.containers.get(runtime.facts["container"]).attrs["State"]["Pid"]
    with engine.frozen():
        assert driver.health(plan.intern_id).ok
        os.kill(pid, signal.SIGKILL)
        # Only the engine could tell how it ended.
        assert wait_until(lambda: driver.health(plan.intern_id).is_unknown)
        assert driver.log_tail(plan.intern_id) == []
    assert wait_until(lambda: driver.health(plan.intern_id).exited, within_s=60)


def test_an_image_that_cannot_be_had(bench: Bench, settings: Any) -> None:
    from interns.runtime.driver import ImageUnavailable

    settings.INTERN_CONTAINER_IMAGE = "localhost/there-is-none:1"
    with pytest.raises(ImageUnavailable):
        bench.driver.start(bench.plan())
    settings.INTERN_CONTAINER_IMAGE = ""


# The library leaves its sockets to the garbage collector where it cannot connect.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_engine_that_is_not_there(
    bench: Bench, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from interns.runtime.container import ContainerDriver
    from interns.runtime.driver import RuntimeFailed, RuntimeHealth, StartFailed

    known = settings.INTERN_CONTAINER_HOST
    settings.INTERN_CONTAINER_HOST = "unix:///nowhere/engine.sock"
    driver = ContainerDriver()
    with pytest.raises(StartFailed):
        driver.start(bench.plan())
    with pytest.raises(RuntimeFailed):
        driver.runtimes()
    assert not driver.health(uuid4()).ok
    # As of an intern that runs.
    supervisor = SimpleNamespace(access=lambda: None, boot_id=uuid4())
    monkeypatch.setattr("interns.runtime.container.find_supervisor", lambda _: supervisor)
    silent = RuntimeHealth(ok=False, detail="the agent does not answer")
    monkeypatch.setattr("interns.runtime.container.ask_health", lambda *_, **__: silent)
    assert driver.health(uuid4()).is_unknown
    assert driver.log_tail(uuid4()) == []
    settings.INTERN_CONTAINER_HOST = known
    gc.collect()
