"""What only the process driver can get wrong: whose process it is, what is left, who waits."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from gateway.sandbox import host_users
from interns.runtime import host_lease, sandbox
from interns.runtime.driver import ChatRefused, StartFailed
from interns.runtime.process_identity import ProcessIdentity, identify_process
from interns.runtime.supervisor import remove_boot_files, short_sockets_folder
from tests.interns.runtime.bench import Bench, calls, family, wait_until
from tests.support.processes import is_alive
from tests.support.promptness import in_time

pytestmark = [pytest.mark.timeout(120), pytest.mark.thorough]


def keeper_of(bench: Bench, intern_id: UUID) -> int:
    found = [r.facts["pid"] for r in bench.driver.runtimes() if r.intern_id == intern_id]
    assert len(found) == 1
    return int(found[0])


@pytest.mark.grid
@pytest.mark.parametrize("bench", ["plain", "sandboxed"], indirect=True)
@pytest.mark.parametrize("victim", ["keeper", "agent"])
def test_a_killed_runtime_leaves_nothing(bench: Bench, victim: str, runtime_home: Path) -> None:
    intern_id = uuid4()
    folder = runtime_home / "interns" / str(intern_id)
    folder.mkdir(parents=True)
    # An earlier boot was suspended.
    (folder / "end.json").write_text('{"status": 0, "was_asked": true}')
    plan, _ = bench.boot(intern_id)
    keeper = keeper_of(bench, plan.intern_id)
    everyone = family(keeper)
    os.kill(keeper if victim == "keeper" else everyone[-1], signal.SIGKILL)
    assert wait_until(lambda: bench.driver.health(plan.intern_id).exited)
    assert wait_until(lambda: not any(map(is_alive, everyone)))
    assert bench.driver.runtimes() == []
    assert "killed" in bench.driver.health(plan.intern_id).detail or victim == "agent"
    # And the next one begins as if nothing had been.
    bench.boot(plan.intern_id)
    bench.driver.destroy(plan.intern_id)
    assert not (runtime_home / "interns" / str(plan.intern_id)).exists()


def kill_keeper(bench: Bench, intern_id: UUID) -> None:
    os.kill(keeper_of(bench, intern_id), signal.SIGKILL)
    assert wait_until(lambda: bench.driver.health(intern_id).exited)


def sockets_of(runtime: Any) -> Path:
    return Path(runtime.facts["address"].removeprefix("unix:")).parent


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])


def test_a_runtime_outlives_the_worker_that_started_it(bench: Bench, runtime_home: Path) -> None:
    """A worker of its own starts it and is killed; another adopts it."""
    plan = bench.plan()
    told = (str(runtime_home), str(plan.intern_id), str(plan.boot_id), plan.gateway_url)
    words = [sys.executable, "-c", STARTER, *told]
    worker = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert worker.stdout is not None
    pid = int(worker.stdout.readline())
    os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()
    worker.stdout.close()
    assert is_alive(pid)
    assert bench.driver.start(plan).facts["pid"] == pid
    assert bench.await_health(plan).ok


STARTER = """
import os, sys, time
from uuid import UUID
os.environ["GATEWAY_HOME"] = sys.argv[1]
os.environ["DJANGO_SETTINGS_MODULE"] = "gateway.settings"
os.environ["INTERN_SANDBOX"] = "off"
import django
django.setup()
from gateway.sandbox import host_users
host_users.is_root = lambda: False  # Else it starts none without a sandbox.
from interns.runtime.driver import BootPlan
from interns.runtime.process import ProcessDriver
plan = BootPlan(UUID(sys.argv[2]), UUID(sys.argv[3]), "tester", "h", None, None, "sk", sys.argv[4])
print(ProcessDriver().start(plan).facts["pid"], flush=True)
time.sleep(60)
"""


def test_a_stranger_with_the_same_number_is_left_alone(bench: Bench, runtime_home: Path) -> None:
    stranger = sleeper()
    try:
        intern_id = uuid4()
        run = runtime_home / "interns" / str(intern_id) / "run"
        run.mkdir(parents=True)
        told: dict[str, Any] = {"intern_id": str(intern_id), "boot_id": str(uuid4())}
        told |= {"pid": stranger.pid, "began": "another boot of the machine:1", "begun_at": 0.0}
        told |= {"sockets": str(run), "token": "t", "isolation": "none", "warning": ""}
        (run / "runtime.json").write_text(json.dumps(told))
        assert bench.driver.runtimes() == []
        assert bench.driver.health(intern_id).exited
        bench.driver.destroy(intern_id)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_one_that_does_not_listen_to_reason_is_killed(bench: Bench) -> None:
    plan, _ = bench.boot()
    everyone = family(keeper_of(bench, plan.intern_id))
    for pid in everyone:
        os.kill(pid, signal.SIGSTOP)
    began = time.monotonic()
    assert bench.driver.stop(plan.intern_id, wait_s=0.5)
    in_time(time.monotonic() - began, 4)
    assert wait_until(lambda: not any(map(is_alive, everyone)))
    assert bench.driver.runtimes() == []


def test_two_starts_at_once_make_one_runtime(bench: Bench) -> None:
    plan = bench.plan()

    def try_start(_: int) -> int | None:
        with suppress(StartFailed):
            return int(bench.driver.start(plan).facts["pid"])
        return None

    with ThreadPoolExecutor(4) as pool:
        pids = set(pool.map(try_start, range(4))) - {None}
    assert len(pids) == len(bench.driver.runtimes()) == 1


def test_a_long_home_has_its_sockets_elsewhere(
    bench: Bench, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.GATEWAY_HOME = tmp_path / ("long" * 20)
    # As that of a gateway may be; the keeper has none.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    plan, runtime = bench.boot()
    sockets = sockets_of(runtime)
    assert not sockets.is_relative_to(tmp_path)
    assert sockets.stat().st_mode & 0o077 == 0
    bench.says({"text": "Hello."})
    assert bench.turn(plan, "Hi")[1].text == "Hello."
    # A keeper that is killed cannot clean up; whoever stops it next does, also where it was killed
    # before it told of itself.
    kill_keeper(bench, plan.intern_id)
    run = settings.GATEWAY_HOME / "interns" / str(plan.intern_id) / "run"
    (run / "runtime.json").unlink()
    bench.driver.stop(plan.intern_id)
    assert not sockets.exists()

    later = bench.plan()
    sockets = sockets_of(bench.driver.start(later))
    kill_keeper(bench, later.intern_id)
    bench.driver.destroy(later.intern_id)
    assert not sockets.exists()


def test_what_strangers_put_into_the_place_of_sockets_is_left_alone(
    bench: Bench, settings: Any, tmp_path: Path
) -> None:
    settings.GATEWAY_HOME = tmp_path / ("long" * 20)
    plan = bench.plan()
    theirs = short_sockets_folder(settings.GATEWAY_HOME / "interns" / str(plan.intern_id))
    target = tmp_path / "target"
    target.mkdir()
    (target / "file").touch()
    theirs.symlink_to(target)
    try:
        sockets = sockets_of(bench.driver.start(plan))
        assert bench.await_health(plan).ok
        assert sockets.resolve() not in (theirs, target)
        assert sockets.stat().st_mode & 0o077 == 0
        bench.driver.destroy(plan.intern_id)
        assert not sockets.exists()
        assert theirs.is_symlink()
        assert (target / "file").exists()
    finally:
        theirs.unlink()


def test_a_strangers_folder_is_not_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = short_sockets_folder(tmp_path)
    theirs.mkdir()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "geteuid", lambda: theirs.stat().st_uid + 1)
            remove_boot_files(tmp_path)
        assert theirs.is_dir()
        remove_boot_files(tmp_path)
        assert not theirs.exists()
    finally:
        with suppress(FileNotFoundError):
            theirs.rmdir()


def test_without_a_sandbox_there_is_no_shell_and_runs_end_as_they_should(bench: Bench) -> None:
    plan, runtime = bench.boot()
    assert runtime.facts["isolation"] == "none"
    assert runtime.facts["warning"].startswith("No isolation: ")
    bench.says(calls("read_file", path="../../../secret"), {"text": "No."})
    bench.turn(plan, "Look outside")
    assert "stays inside the workspace" in next(bench.results())
    offered = bench.simulator.requests(bench.persona)[-1]["body"]["tools"]
    assert {tool["function"]["name"] for tool in offered} == {
        *("list_files", "read_file", "write_file", "fetch_url", "list_secrets", "ask_person"),
    }

    # What the model is refused for is told.
    error = {"error": {"code": 402, "message": "Key limit exceeded"}}
    bench.simulator.script(bench.persona, {"status": 402, "json": error}, repeat=True)
    _, leg = bench.turn(plan, "Hi")
    assert (leg.end.reason, leg.end.retryable) == ("turn_failed", False)
    assert "Key limit exceeded" in leg.end.message
    assert bench.driver.health(plan.intern_id).budget_ended
    bench.says({"text": "Topped up."})
    bench.turn(plan, "Again")
    assert not bench.driver.health(plan.intern_id).budget_ended

    # A caller who leaves ends the run.
    bench.says({"gate": f"g{uuid4().hex}", "text": "Nobody hears this."})
    _, stream = bench.begin(plan, "Wait")
    stream.close()
    bench.says({"text": "Free again."})

    def takes_a_turn() -> bool:
        with suppress(ChatRefused):
            said = bench.turn(plan, "Are you free?", session_id="other")[1].text
            return said == "Free again."
        return False

    assert wait_until(takes_a_turn)


def test_without_a_sandbox_that_is_needed_none_is_started(
    bench: Bench, settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(host_users, "is_root", lambda: True)
        with pytest.raises(StartFailed, match="runs as root starts no intern without a sandbox: I"):
            bench.driver.start(bench.plan())
        settings.INTERN_SANDBOX = "required"
        patch.setenv("PATH", str(tmp_path))
        patch.setattr(sandbox.SANDBOXES._trial, "_found", None)
        with pytest.raises(StartFailed, match="INTERN_SANDBOX is required: bubblewrap"):
            bench.driver.start(bench.plan())


def test_it_ends_once_its_machine_may_run_nothing_any_more(bench: Bench, settings: Any) -> None:
    file = settings.GATEWAY_HOME / "run" / host_lease.FILE_NAME
    file.parent.mkdir(exist_ok=True)
    host_lease.write_lease(file, host_lease.read_clock() + 3600)
    plan, _ = bench.boot()
    assert bench.driver.health(plan.intern_id).was_fenced is False
    host_lease.write_lease(file, host_lease.read_clock() - 1)
    assert wait_until(lambda: bench.driver.health(plan.intern_id).exited, within_s=60)
    assert wait_until(lambda: bench.driver.health(plan.intern_id).was_fenced, within_s=60)
    # The next boot is another matter.
    host_lease.remove_lease(file)
    bench.driver.start(bench.plan(plan.intern_id))
    bench.driver.stop(plan.intern_id)
    assert bench.driver.health(plan.intern_id).was_fenced is False


def test_it_ends_with_its_supervisor(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    supervisor = sleeper()
    monkeypatch.setenv("GATEWAY_SUPERVISOR_PID", str(supervisor.pid))
    plan, _ = bench.boot()
    everyone = family(keeper_of(bench, plan.intern_id))
    supervisor.kill()
    supervisor.wait()
    assert wait_until(lambda: not any(map(is_alive, everyone)))
    assert bench.driver.health(plan.intern_id).was_stopped
    # Nor does one that was killed with the gateway count as one that failed.
    monkeypatch.setenv("GATEWAY_SUPERVISOR_PID", str((again := sleeper()).pid))
    plan, _ = bench.boot(plan.intern_id)
    os.kill(keeper_of(bench, plan.intern_id), signal.SIGKILL)
    assert wait_until(lambda: bench.driver.health(plan.intern_id).exited)
    assert not bench.driver.health(plan.intern_id).was_stopped
    again.kill()
    again.wait()
    assert bench.driver.health(plan.intern_id).was_stopped


def test_an_identity_is_more_than_a_number() -> None:
    me = identify_process(os.getpid())
    assert me is not None
    assert me.is_alive()
    assert not ProcessIdentity(me.pid, "earlier").is_alive()
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    it = identify_process(child.pid)
    assert it is None or it.wait(10)
    # It has ended, though nobody has asked for its status yet.
    assert identify_process(child.pid) is None
    child.wait()
