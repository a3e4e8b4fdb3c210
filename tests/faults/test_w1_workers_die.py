"""W1: SIGKILL to the child and to the whole worker at random points of provisioning and teardown,
with a real Celery and a real Valkey: every intern settles, and nothing is left over."""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.bed import Bed
from tests.support.callers import seeded
from tests.support.ranch import Ranch, running_ranch

pytestmark = [pytest.mark.timeout(600), pytest.mark.thorough]
# Far above what a worker takes to start (2 s on a busy machine of two cores, 4 s where it is the
# first), and above the 5 s after which Celery at last sees that a child to which it has given a
# message is dead. Where the lease is shorter both attempts pass before anybody can work.
LEASE_S, REAPER_S = 6.0, 0.5
# Two leases and two reaper rounds, the work, and worker processes that start on a busy machine.
SETTLES_S = 2 * (LEASE_S + REAPER_S) + 30.0
SHORT = {
    "INTERN_LEASE_SECONDS": str(LEASE_S),
    "INTERN_REAPER_SECONDS": str(REAPER_S),
    "INTERN_PROBE_SECONDS": "1",
    "INTERNS_MAX_PER_MEMBER": "10000",
}
# As long as a real step, so that a kill meets each of them.
STEPS = ("start", "health", "stop", "archive", "destroy")
LOST = "operation_lost: the worker was lost twice"


@pytest.fixture(scope="module")
def one_ranch(stores: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranch]:
    with running_ranch(stores, tmp_path_factory.mktemp("w1"), **SHORT) as ranch:
        yield ranch


@pytest.fixture
def ranch(one_ranch: Ranch) -> Iterator[Ranch]:
    for step in STEPS:
        one_ranch.script.fail(step, {"delay_s": 0.1}, always=True)
    yield one_ranch
    one_ranch.clear()


def strike(ranch: Ranch, chance: random.Random) -> None:
    """A kill some time within the work, of one process or of all."""
    time.sleep(chance.uniform(0, 0.8))
    if chance.random() < 0.5:
        ranch.kill_child("interns", chance.randrange(3))
    else:
        ranch.kill_worker("interns")


def lost_at(
    ranch: Ranch, intern_id: str, ends: set[str], *, within_s: float = SETTLES_S
) -> list[str]:
    """Where the intern settled, if its operation was lost; it is one of `ends` in any case."""
    status = ranch.settled(intern_id, within_s=within_s)
    assert status in ends
    if status not in {"failed", "destroy_failed"}:
        return []
    assert ranch.ok("GET", f"/interns/{intern_id}")["last_failure_message"] == LOST
    return [status]


def losses_max(rounds: int) -> int:
    """One kill is one attempt, so what is lost twice is a machine too busy to start a worker."""
    return max(1, rounds // 5)


@pytest.mark.parametrize(
    "rounds",
    [10, pytest.param(50, marks=[pytest.mark.nightly, pytest.mark.timeout(1800)])],
    ids=["ten", "fifty"],
)
def test_whoever_is_killed_every_intern_settles(ranch: Ranch, rounds: int) -> None:
    chance = seeded()
    lost: list[str] = []
    for number in range(rounds):
        intern_id = ranch.new(f"w1-{number}", provision=True)
        strike(ranch, chance)
        lost += lost_at(ranch, intern_id, {"running", "failed"})
        assert set(ranch.script.runtimes()) <= {intern_id}
        ranch.ok("DELETE", f"/interns/{intern_id}", status=202)
        strike(ranch, chance)
        lost += lost_at(ranch, intern_id, {"", "destroy_failed"})
        ranch.removed(intern_id, within_s=SETTLES_S)

    assert len(lost) <= losses_max(rounds), lost
    state = ranch.script.read()
    assert (state["runtimes"], state["disks"]) == ({}, {})
    assert ranch.server.manage("reconcile_interns")["leaked"] == []
    assert ranch.server.manage("interns")["interns"] == []


def test_a_second_loss_says_so(ranch: Ranch) -> None:
    intern_id = ranch.new("lost-twice")
    ranch.script.fail("start", {"exit": "before"}, always=True)

    ranch.ok("POST", f"/interns/{intern_id}/provision", status=202)
    assert ranch.eventually(intern_id, "failed", within_s=SETTLES_S) == "failed"
    failed = ranch.ok("GET", f"/interns/{intern_id}")
    assert failed["last_failure_message"] == LOST
    assert ranch.script.runtimes() == {}
    ranch.script.heal()
    ranch.ok("POST", f"/interns/{intern_id}/provision", status=202)
    assert ranch.eventually(intern_id, "running", within_s=SETTLES_S) == "running"


def test_w5_a_runtime_whose_start_was_never_told_of_is_adopted(ranch: Ranch) -> None:
    """W5: it was started, and its worker died before it could say so."""
    intern_id = ranch.new("untold")
    ranch.script.fail("start", {"exit": "after"})

    ranch.ok("POST", f"/interns/{intern_id}/provision", status=202)
    assert not lost_at(ranch, intern_id, {"running", "failed"})
    assert list(ranch.script.runtimes()) == [intern_id]
    assert ranch.server.manage("reconcile_interns")["leaked"] == []


def test_a_suspension_whose_worker_dies_still_stops(ranch: Ranch) -> None:
    intern_id = ranch.running("suspended")
    ranch.script.fail("stop", {"exit": "before"})

    response = ranch.call("POST", f"/interns/{intern_id}/suspend")
    # The whole control worker is gone with its thread.
    ranch.kill_worker("intern-control")
    assert response.status_code in (200, 408), response.text
    assert ranch.eventually(intern_id, "stopped", within_s=SETTLES_S) == "stopped"


@pytest.fixture
def patient_ranch(stores: Bed, tmp_path: Path) -> Iterator[Ranch]:
    """A lease outlasts the start of a worker, as the usual one does by far."""
    settings = {**SHORT, "INTERN_LEASE_SECONDS": "30"}
    with running_ranch(stores, tmp_path, **settings) as ranch:
        ranch.script.fail("start", {"delay_s": 0.2}, always=True)
        yield ranch


def test_w7_a_worker_that_is_asked_to_stop_loses_nothing(patient_ranch: Ranch) -> None:
    """W7: SIGTERM with twenty provisionings in the queue; another worker takes what is left."""
    ranch = patient_ranch
    interns = [ranch.new(f"w7-{number}", provision=True) for number in range(20)]
    ranch.server.wait_until(lambda: bool(ranch.script.calls("start")))

    ranch.replace_worker("interns")
    for intern_id in interns:
        assert ranch.eventually(intern_id, "running", "failed", within_s=120) == "running"
    assert sorted(ranch.script.runtimes()) == sorted(interns)
