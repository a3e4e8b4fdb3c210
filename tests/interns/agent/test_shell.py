"""Commands end, whatever they leave behind."""

import asyncio
import time
from pathlib import Path

from interns.agent.tools import CommandResult, run_command
from interns.agent.workspace import AgentDisk
from tests.interns.runtime.bench import wait_until
from tests.support.processes import is_alive
from tests.support.promptness import in_time


def run(
    command: str, folder: Path, *, time_s: float = 10.0, disk_bytes: int = 10**9
) -> CommandResult:
    disk = AgentDisk(folder, disk_bytes)
    return asyncio.run(run_command(command, folder, disk, time_s=time_s, output_bytes=1000))


def test_a_command(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    ran = run("ls; echo oops >&2; exit 3", tmp_path)
    assert ran == CommandResult(3, "a\noops\n", was_cut=False)
    assert ran.full_text().endswith("[exit status 3]")


def test_too_much_output_is_cut(tmp_path: Path) -> None:
    ran = run("head -c 200000 /dev/zero | tr '\\0' x", tmp_path)
    assert (len(ran.output), ran.was_cut, ran.status) == (1000, True, 0)
    assert "[output cut]" in ran.full_text()


def test_one_that_takes_too_long_is_killed_with_its_children(tmp_path: Path) -> None:
    began = time.monotonic()
    ran = run("echo begun; sleep 60 | sleep 60", tmp_path, time_s=0.3)
    in_time(time.monotonic() - began, 5)
    assert ran.status is None
    assert "begun" in ran.full_text()


def test_nobody_waits_for_what_runs_on_behind_it(tmp_path: Path) -> None:
    began = time.monotonic()
    ran = run("sleep 60 & echo $!", tmp_path)
    in_time(time.monotonic() - began, 5)
    assert ran.status == 0
    assert wait_until(lambda: not is_alive(int(ran.output)))


def test_nothing_of_ours_is_in_its_environment(tmp_path: Path) -> None:
    names = {line.partition("=")[0] for line in run("env", tmp_path).output.splitlines()}
    assert names <= {"PATH", "LANG", "HOME", "TMPDIR", "PWD", "SHLVL", "_", "OLDPWD"}


def test_on_a_full_disk_files_are_removed_and_none_written(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a").write_bytes(b"x" * 100_000)
    (tmp_path / "link").symlink_to("/")
    ran = run("cp folder/a b; wc -c < b; head -c 3 folder/a", tmp_path, disk_bytes=50_000)
    assert (ran.was_full, ran.output[-5:]) == (True, "0\nxxx")
    ran = run("rm folder/a; ls", tmp_path, disk_bytes=50_000)
    assert (ran.status, ran.output) == (0, "b\nfolder\nlink\n")
    assert run("echo b > b", tmp_path, disk_bytes=50_000) == CommandResult(0, "", was_cut=False)


def test_a_command_that_fills_the_disk_is_killed(tmp_path: Path) -> None:
    fills = "while true; do head -c 100000 /dev/zero >> a; sleep 0.01; done"
    ran = run(fills, tmp_path, time_s=20, disk_bytes=300_000)
    assert (ran.status, ran.filled) == (None, True)
    assert ran.full_text().endswith("[killed: it filled the disk]")
