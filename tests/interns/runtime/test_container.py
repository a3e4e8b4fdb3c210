"""The container driver, against Podman: the conformance suite, and what only containers have."""

import gc
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from routing.simulator.testing import SimulatedUpstream
from tests.interns import podman
from tests.interns.runtime import test_conformance as conformance
from tests.interns.runtime.bench import Bench, calls, until

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(podman.why_not()), reason=f"no engine: {podman.why_not()}"),
]

LOOK = """
id -u
touch /usr/x 2>&1
touch /run/gateway/door/x 2>&1
cat /proc/1/environ > /dev/null 2>&1 || echo closed
grep -c : /proc/net/dev
grep CapEff /proc/self/status
ls /run/gateway/inside
"""


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


@pytest.mark.parametrize(
    "holds",
    [
        conformance.test_a_life,
        conformance.test_files_and_sessions_stay,
        conformance.test_questions,
        conformance.test_steering_and_cancelling,
    ],
)
def test_it_conforms(bench: Bench, holds: Any) -> None:
    holds(bench)


def test_what_commands_find_inside(bench: Bench) -> None:
    plan, _ = bench.boot()
    bench.says(calls("run_shell", command=LOOK), {"text": "Done."})
    bench.turn(plan, "Look")
    found = next(bench.results())
    lines = found.splitlines()
    assert lines[0] == "10001"
    assert found.count("Read-only file system") == 2
    # Loopback is the only interface, and there are no capabilities.
    assert "CapEff:\t0000000000000000" in found
    assert "\n1\n" in found
    assert "config.json" not in found


def test_a_container_that_ends_is_gone(bench: Bench) -> None:
    plan, runtime = bench.boot()
    driver: Any = bench.driver
    driver._engine.containers.get(runtime.facts["container"]).kill()
    assert until(lambda: driver.health(plan.intern_id).exited)
    # Its keeper is what is left; whoever stops it finds that too.
    assert [r.intern_id for r in driver.runtimes()] == [plan.intern_id]
    driver.stop(plan.intern_id)
    assert driver.runtimes() == []


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
    from interns.runtime.driver import RuntimeFailed, StartFailed

    known = settings.INTERN_CONTAINER_HOST
    settings.INTERN_CONTAINER_HOST = "unix:///nowhere/engine.sock"
    driver = ContainerDriver()
    with pytest.raises(StartFailed):
        driver.start(bench.plan())
    with pytest.raises(RuntimeFailed):
        driver.runtimes()
    assert not driver.health(uuid4()).ok
    # As of an intern that runs.
    monkeypatch.setattr("interns.runtime.container.find_supervisor", lambda _: object())
    assert driver.health(uuid4()).is_unknown
    assert driver.log_tail(uuid4()) == []
    settings.INTERN_CONTAINER_HOST = known
    gc.collect()
