"""W1: SIGKILL to the child and to the whole worker at random points of provisioning and teardown,
with a real Celery and a real Valkey. Every intern settles, and no runtime, process, port or folder
is left over. W4: what is committed and never told of is found; what nobody can be told of is as
before."""

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.support import processes
from tests.support.bed import Bed
from tests.support.callers import seeded_random
from tests.support.gateways import StartGateway
from tests.support.orm import database_name
from tests.support.promptness import in_time
from tests.support.ranch import Ranch, ranch_of, running_ranch
from tests.support.valkey import ValkeyServer

pytestmark = [pytest.mark.timeout(600), pytest.mark.thorough]
# Far above what a worker takes to start: 2 s on a busy machine of two cores, 4 s where it is the
# first. Also above the 5 s after which Celery at last sees that a child with a message is dead.
# Where the lease is shorter both attempts pass before anybody can work.
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


def strike(ranch: Ranch, chance: random.Random, *, whole: bool) -> None:
    """A kill some time within the work, of the whole worker or of a child."""
    time.sleep(chance.uniform(0, 0.8))
    if whole:
        ranch.kill_worker("interns")
    else:
        ranch.kill_child("interns", chance.randrange(3))


def lost_at(
    ranch: Ranch, intern_id: str, ends: set[str], *, within_s: float = SETTLES_S
) -> list[str]:
    """Where the intern settled, if its operation was lost; it is one of `ends` in any case."""
    status = ranch.wait_until_settled(intern_id, within_s=within_s)
    assert status in ends
    if status not in {"failed", "destroy_failed"}:
        return []
    assert ranch.ok("GET", f"/interns/{intern_id}")["last_failure_message"] == LOST
    return [status]


def live_and_die(ranch: Ranch, rounds: int, *, within_s: float) -> list[str]:
    """So many interns are made and destroyed under strikes, one in each life for each kind."""
    chance = seeded_random()
    made: list[str] = []
    lost: list[str] = []
    for number in range(rounds):
        intern_id = ranch.new(f"w1-{number}", provision=True)
        made.append(intern_id)
        strike(ranch, chance, whole=number % 2 == 0)
        lost += lost_at(ranch, intern_id, {"running", "failed"}, within_s=within_s)
        assert set(ranch.script.runtimes()) <= {intern_id}
        ranch.ok("DELETE", f"/interns/{intern_id}", status=202)
        strike(ranch, chance, whole=number % 2 == 1)
        lost += lost_at(ranch, intern_id, {"", "destroy_failed"}, within_s=within_s)
        ranch.remove(intern_id, within_s=within_s)
    # One kill is one attempt, so what is lost twice is a machine too busy to start a worker.
    assert len(lost) <= max(1, rounds // 5), lost
    return made


@pytest.mark.parametrize(
    "rounds", [2, pytest.param(50, marks=[pytest.mark.nightly, pytest.mark.timeout(1800)])]
)
def test_whoever_is_killed_every_intern_settles(ranch: Ranch, rounds: int) -> None:
    live_and_die(ranch, rounds, within_s=SETTLES_S)

    state = ranch.script.read()
    assert (state["runtimes"], state["disks"]) == ({}, {})
    assert ranch.server.manage("reconcile_interns")["leaked"] == []
    assert ranch.server.manage("interns")["interns"] == []


def test_w5_a_runtime_whose_start_was_never_told_of_is_adopted(ranch: Ranch) -> None:
    """W5: it was started, and its worker died before it could say so."""
    intern_id = ranch.new("untold")
    ranch.script.fail("start", {"exit": "after"})

    ranch.ok("POST", f"/interns/{intern_id}/provision", status=202)
    assert not lost_at(ranch, intern_id, {"running", "failed"})
    assert list(ranch.script.runtimes()) == [intern_id]
    assert ranch.server.manage("reconcile_interns")["leaked"] == []


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


# --- Real processes -------------------------------------------------------------------------------


def processes_of(intern_id: str) -> list[int]:
    """Processes whose command line or environment names the intern."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            if intern_id.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


@pytest.mark.timeout(2400)
@pytest.mark.parametrize("rounds", [2, pytest.param(50, marks=pytest.mark.nightly)])
def test_no_process_is_left_whoever_is_killed(stores: Bed, tmp_path: Path, rounds: int) -> None:
    """Also of supervisors of runtimes."""
    settings = {**SHORT, "INTERN_RUNTIME": "process", "INTERN_HEALTH_SECONDS": "30"}
    with running_ranch(stores, tmp_path, **settings) as ranch:
        gone = live_and_die(ranch, rounds, within_s=90.0)

        report = ranch.server.manage("reconcile_interns")
        assert (report["runtimes"], report["leaked"]) == (0, [])
        assert [pid for intern_id in gone for pid in processes_of(intern_id)] == []
        folder = Path(ranch.server.env["GATEWAY_HOME"]) / "interns"
        assert not [each for each in folder.iterdir() if each.name in gone]
        ranch.server.run_command("suspend_interns", "--all", "--here")


# --- W4: queue and commit -------------------------------------------------------------------------


@pytest.fixture
def quick_ranch(one_ranch: Ranch) -> Iterator[Ranch]:
    yield one_ranch
    one_ranch.clear()


def test_a_queue_that_is_frozen_leaves_all_as_it_was(quick_ranch: Ranch) -> None:
    ranch = quick_ranch
    hints = ranch.hints
    fresh, running = ranch.new("fresh"), ranch.create_running("running")
    before = {each: ranch.ok("GET", f"/interns/{each}") for each in (fresh, running)}
    hints.pause()

    asked = [("POST", f"/interns/{fresh}/provision"), ("POST", f"/interns/{running}/suspend")]
    for method, path in [*asked, ("DELETE", f"/interns/{running}")]:
        began = time.monotonic()
        response = ranch.call(method, path)
        in_time(time.monotonic() - began, 3.0)
        assert response.status_code == 502, response.text
        said = response.json()["error"]["metadata"]
        assert said == {"reason": "upstream_unavailable", "retryable": True}
    after = {each: ranch.ok("GET", f"/interns/{each}") for each in (fresh, running)}
    for each, shown in after.items():
        assert {**shown, "updated_at": ""} == {**before[each], "updated_at": ""}

    hints.resume()
    assert ranch.call_until_answered("POST", f"/interns/{fresh}/provision") == 202
    assert ranch.eventually(fresh, "running", within_s=SETTLES_S) == "running"
    assert ranch.status(running) == "running"


def test_a_database_that_goes_in_the_middle_of_a_job(
    stores: Bed, tmp_path: Path, valkey: ValkeyServer
) -> None:
    """It converges once the database is back."""
    from tests.support.tcp_proxy import TcpProxy

    with (
        StartGateway(stores, tmp_path) as starter,
        TcpProxy("127.0.0.1", stores.postgres.port) as proxy,
    ):
        ranch = ranch_of(starter, tmp_path / "r", redis_url=valkey.url, **SHORT)
        ranch.start_behind(proxy.port)
        intern_id = ranch.new("patient")
        ranch.script.fail("start", {"delay_s": 0.5})
        ranch.ok("POST", f"/interns/{intern_id}/provision", status=202)
        ranch.server.wait_until(lambda: bool(ranch.script.calls("start")))
        proxy.refuse()
        proxy.cut()
        # A shorter lease than others have would be over again before a busy machine's worker takes
        # up the second attempt. By the database's own clock nobody holds the intern any more:
        past_the_proxy = stores.postgres.url(database_name(ranch.server.env["DATABASE_URL"]))
        sql = "SELECT 1 FROM interns_intern WHERE id = %s AND lease_expires_at < now()"
        with psycopg.connect(past_the_proxy, autocommit=True) as direct:
            processes.eventually(
                lambda: bool(direct.execute(sql, [intern_id]).fetchone()),
                within_s=SETTLES_S,
                what="the lease's end",
                log=None,
            )
        proxy.thaw()

        status = ranch.eventually(intern_id, "running", "failed", within_s=SETTLES_S)
        assert status == "running", ranch.ok("GET", f"/interns/{intern_id}")
        assert list(ranch.script.runtimes()) == [intern_id]
        ranch.stop()
