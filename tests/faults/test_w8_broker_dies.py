"""W8: the broker dies, and loses all it had, while interns are worked on: the workers stay, and
what waited goes on with the broker."""

import time
from collections.abc import Iterator

import pytest

from tests.support.bed import Bed
from tests.support.promptness import in_time
from tests.support.ranch import WORKERS, Ranch, running_ranch

pytestmark = [pytest.mark.timeout(240), pytest.mark.thorough]
# Celery asks a lost broker again after 2, 4, 6, ... seconds. The usual lease is far above that, so
# nothing here is the reaper's work.
BACK_S = 15.0
OUTAGE_COSTS_S = 30.0


@pytest.fixture(scope="module")
def one_ranch(stores: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranch]:
    with running_ranch(stores, tmp_path_factory.mktemp("w8")) as ranch:
        yield ranch


@pytest.fixture
def ranch(one_ranch: Ranch) -> Iterator[Ranch]:
    yield one_ranch
    one_ranch.clear()


def outage(ranch: Ranch, *, lasts_s: float, works_s: float, interns: int) -> float:
    """The broker goes while interns boot and others wait. How long it took from then until all
    run."""
    pids = {name: ranch.pid(name) for name in WORKERS}
    ranch.script.fail("start", {"delay_s": works_s}, always=True)
    made = [ranch.new(f"w8-{number}", provision=True) for number in range(interns)]
    ranch.server.wait_until(lambda: "provisioning" in map(ranch.status, made), within_s=30)
    gone_at = time.monotonic()
    ranch.hints.stop()
    time.sleep(lasts_s)
    ranch.hints.start()
    for intern_id in made:
        assert ranch.eventually(intern_id, "running", "failed", within_s=200) == "running"
    took_s = time.monotonic() - gone_at
    assert {name: ranch.pid(name) for name in WORKERS} == pids
    return took_s


# With fewer than the worker has hands for, it waits for the next message as the broker goes.
@pytest.mark.parametrize("interns", [1, 5])
def test_a_broker_that_is_gone_for_a_moment(ranch: Ranch, interns: int) -> None:
    in_time(outage(ranch, lasts_s=0.5, works_s=1.0, interns=interns), BACK_S)


@pytest.mark.nightly
@pytest.mark.parametrize("works_s", [1.0, 6.0, 12.0])
@pytest.mark.parametrize("interns", [1, 5])
def test_ten_seconds_without_a_broker(ranch: Ranch, interns: int, works_s: float) -> None:
    took_s = outage(ranch, lasts_s=10.0, works_s=works_s, interns=interns)

    in_time(took_s - works_s * (2 if interns > 3 else 1), OUTAGE_COSTS_S)


@pytest.mark.nightly
def test_a_worker_killed_in_the_middle_of_a_job(ranch: Ranch) -> None:
    """With the lease and the reaper as they come."""
    ranch.script.fail("start", {"delay_s": 5.0})
    intern_id = ranch.new("w8-killed", provision=True)
    ranch.server.wait_until(lambda: bool(ranch.script.calls("start")), within_s=30)
    killed_at = time.monotonic()
    ranch.kill_worker("interns")

    assert ranch.eventually(intern_id, "running", "failed", within_s=200) == "running"
    in_time(time.monotonic() - killed_at, 60.0 + 15.0)
