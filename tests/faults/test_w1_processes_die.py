"""W1 with real processes: workers and supervisors of runtimes are killed, and no process, port or
folder is left behind."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.test_w1_workers_die import SHORT, losses_max, lost_at, strike
from tests.support.bed import Bed
from tests.support.callers import seeded
from tests.support.ranch import Ranch, running_ranch

pytestmark = [pytest.mark.timeout(900), pytest.mark.thorough]
SETTLES_S = 90.0


@pytest.fixture
def ranch(stores: Bed, tmp_path: Path) -> Iterator[Ranch]:
    settings = {**SHORT, "INTERN_RUNTIME": "process", "INTERN_HEALTH_SECONDS": "30"}
    with running_ranch(stores, tmp_path, **settings) as ranch:
        yield ranch
        ranch.server.run_command("suspend_interns", "--all", "--here")


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


@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(10, marks=pytest.mark.timeout(300)),
        pytest.param(50, marks=[pytest.mark.nightly, pytest.mark.timeout(2400)]),
    ],
    ids=["ten", "fifty"],
)
def test_no_process_is_left_whoever_is_killed(ranch: Ranch, rounds: int) -> None:
    chance = seeded()
    gone: list[str] = []
    lost: list[str] = []
    for number in range(rounds):
        intern_id = ranch.new(f"p-{number}", provision=True)
        strike(ranch, chance)
        lost += lost_at(ranch, intern_id, {"running", "failed"}, within_s=SETTLES_S)
        ranch.ok("DELETE", f"/interns/{intern_id}", status=202)
        strike(ranch, chance)
        lost += lost_at(ranch, intern_id, {"", "destroy_failed"}, within_s=SETTLES_S)
        ranch.removed(intern_id, within_s=SETTLES_S)
        gone.append(intern_id)

    assert len(lost) <= losses_max(rounds), lost
    report = ranch.server.manage("reconcile_interns")
    assert (report["runtimes"], report["leaked"]) == (0, [])
    assert [pid for intern_id in gone for pid in processes_of(intern_id)] == []
    folder = Path(ranch.server.env["GATEWAY_HOME"]) / "interns"
    assert not [each for each in folder.iterdir() if each.name in gone]
