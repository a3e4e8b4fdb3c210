"""Programs beside the process that serves: what they read and write, that they end, and which
groups and users of the host they run in."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.sandbox import cgroups
from gateway.sandbox.cgroups import Bounds, new_group, prepare_group, sandboxes
from gateway.sandbox.host_users import Lease, NoUser, explain_missing_users, list_intern_users
from gateway.sandbox.isolation import BEGIN
from gateway.sandbox.subprocess_worker import SubprocessWorker, WorkerEnded, WorkerTimeout
from tests.support.processes import eventually

# It says what it is told, so frames come back.
CAT = "/bin/cat"
BOUNDS = Bounds(memory_bytes=2**30, processes=9, cpus=0.5)


def soon() -> float:
    return time.monotonic() + 30


def children() -> set[str]:
    """Programs that this process started and that run."""
    listed = subprocess.run(["ps", "--ppid", str(os.getpid()), "-o", "stat=,comm="], **HEARD)
    return {line.split()[1] for line in listed.stdout.splitlines() if not line.startswith("Z")}


HEARD: Any = {"capture_output": True, "text": True, "check": False}


@given(st.lists(st.binary(max_size=100), max_size=5))
def test_frames_come_whole_whatever_pieces_they_were_sent_in(pieces: list[bytes]) -> None:
    program = SubprocessWorker([CAT], {})
    try:
        program.send_pieces(pieces, sum(map(len, pieces)), soon())
        program.send(b"next", soon())

        assert program.receive(1000, soon()) == b"".join(pieces)
        assert program.receive(1000, soon()) == b"next"
    finally:
        program.close()


@pytest.fixture
def begin_worker() -> Iterator[Callable[..., SubprocessWorker]]:
    begun: list[SubprocessWorker] = []

    def begin(*words: str, **env: str) -> SubprocessWorker:
        begun.append(SubprocessWorker(list(words), env))
        return begun[-1]

    yield begin
    for program in begun * 2:
        program.close()


def test_nobody_waits_for_a_program_that_is_silent_or_full(
    begin_worker: Callable[..., SubprocessWorker],
) -> None:
    with pytest.raises(WorkerTimeout):
        begin_worker(CAT).receive(1000, time.monotonic() + 0.05)
    with pytest.raises(WorkerTimeout):
        begin_worker("/bin/sleep", "60").send(b"x" * 10_000_000, time.monotonic() + 0.2)


def test_what_is_no_frame_is_told_as_the_end(begin_worker: Callable[..., SubprocessWorker]) -> None:
    cat, ended = begin_worker(CAT), begin_worker("/bin/true")
    cat.send(b"x" * 101, soon())
    for program in (cat, ended):
        with pytest.raises(WorkerEnded):
            program.receive(100, soon())
    with pytest.raises(OSError, match="No such file"):
        begin_worker("/nowhere/program")


def test_its_environment_is_what_it_is_given(begin_worker: Callable[..., SubprocessWorker]) -> None:
    program = begin_worker("/bin/sh", "-c", "printf '\\0\\0\\0\\3'; printf $A", A="abc")
    assert program.receive(100, soon()) == b"abc"


@pytest.mark.parametrize("how", ["closed", "forgotten"])
def test_it_ends_with_its_owner(how: str) -> None:
    program = SubprocessWorker(["/bin/sleep", "59"], {})
    assert "sleep" in children()

    if how == "closed":
        program.close()
    del program

    eventually(lambda: "sleep" not in children(), within_s=5, what="its end", log=None)


def tree() -> Path | None:
    """Where the cgroup v2 tree is mounted, if this process may make groups in it."""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, place, kind, *_ = line.split()
        if kind == "cgroup2" and os.access(place, os.W_OK):
            return Path(place)
    return None


@pytest.fixture
def delegated_cgroup(settings: Any) -> Iterator[Path]:
    root = tree()
    if root is None:
        pytest.skip("no cgroup v2 tree that these tests may use")
    top = root / f"test-{os.getpid()}"
    top.mkdir()
    settings.SANDBOX_CGROUP = str(top)
    sandboxes.cache_clear()
    yield top
    for group in (*(top / "sandboxes").glob("*/"), *top.glob("*/"), top):
        group.rmdir()
    sandboxes.cache_clear()


def test_a_sandbox_begins_inside_its_group_which_goes_when_it_is_empty(
    delegated_cgroup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Somebody who started the gateway in the delegated group itself, which then cannot be divided.
    earlier = subprocess.Popen(["sleep", "60"])
    (delegated_cgroup / "cgroup.procs").write_text(str(earlier.pid))
    group = new_group(BOUNDS)
    assert group is not None
    moved = Path(f"/proc/{earlier.pid}/cgroup").read_text()
    earlier.kill()
    earlier.wait()
    assert moved.rstrip().endswith(f"{delegated_cgroup.name}/gateway")
    words = ["/bin/sh", "-c", BEGIN, "/dev/null", str(group), "--", "cat", "/proc/self/cgroup"]
    assert f"/sandboxes/{group.name}\n" in subprocess.check_output(words, text=True)
    monkeypatch.setattr(cgroups, "_UNUSED_S", -1.0)
    new_group(BOUNDS)
    assert not group.exists()


def test_every_controller_that_is_there_is_bounded(delegated_cgroup: Path) -> None:
    group = new_group(BOUNDS)
    assert group is not None
    for name, value in BOUNDS.files():
        if (group / name).exists():
            assert (group / name).read_text().strip() == value


def test_a_cpu_bound_is_a_share_and_the_root_is_never_divided(tmp_path: Path) -> None:
    files = dict(Bounds(memory_bytes=1, processes=2, cpus=1.5).files())
    told = (files["cpu.max"], files["memory.max"], files["pids.max"])
    assert told == ("150000 100000", "1", "2")
    with pytest.raises(OSError, match="no delegated group of cgroup v2"):
        prepare_group(tmp_path)


def test_a_delegated_group_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "own"
    own.write_text("4:memory:/old\n0::/system.slice/router.service/main\n")
    marked = tmp_path / "system.slice/router.service"
    monkeypatch.setattr(
        os, "getxattr", lambda place, name: b"1" if place == marked else b"", raising=False
    )
    assert cgroups._find_delegated_group(own, tmp_path) == marked


@pytest.fixture(autouse=True)
def home(settings: Any, tmp_path: Path) -> None:
    settings.GATEWAY_HOME = tmp_path
    settings.SANDBOX_UIDS = range(100_000, 100_008)


def test_a_user_is_lent_once_at_a_time_and_is_no_interns() -> None:
    leases = [Lease() for _ in range(3)]
    assert len({lease.uid for lease in leases}) == 3
    assert not {lease.uid for lease in leases} & set(list_intern_users())
    # One is left for trials.
    with pytest.raises(NoUser, match="all users of SANDBOX_UIDS are in use"):
        Lease()
    leases[1].close()
    leases.append(Lease())
    assert leases[3].uid == leases[1].uid
    for lease in leases:
        lease.close()


def test_users_that_a_container_does_not_have_are_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    table = tmp_path / "map"
    table.write_text("         0     100000      65536\n")
    monkeypatch.setattr("gateway.sandbox.host_users._MAPS", (str(table),))
    assert explain_missing_users(range(1, 65_536)) == ""
    assert explain_missing_users(range(60_000, 65_537)).startswith(
        "SANDBOX_UIDS 60000-65536 is outside of"
    )
