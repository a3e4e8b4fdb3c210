"""A sandbox in a group of processes of its own, on the kernel's real tree where this may use it."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway import cgroups
from gateway.cgroups import Bounds, new_group, prepared, sandboxes
from gateway.isolation import BEGIN


def tree() -> Path | None:
    """Where the cgroup v2 tree is mounted, if this process may make groups in it."""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, place, kind, *_ = line.split()
        if kind == "cgroup2" and os.access(place, os.W_OK):
            return Path(place)
    return None


@pytest.fixture
def delegated(settings: Any) -> Iterator[Path]:
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
    delegated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Somebody who started the gateway in the delegated group itself, which then cannot be divided.
    earlier = subprocess.Popen(["sleep", "60"])
    (delegated / "cgroup.procs").write_text(str(earlier.pid))
    group = new_group(Bounds(memory_bytes=2**30, processes=9, cpus=0.5))
    assert group is not None
    moved = Path(f"/proc/{earlier.pid}/cgroup").read_text()
    earlier.kill()
    earlier.wait()
    assert moved.rstrip().endswith(f"{delegated.name}/gateway")
    words = ["/bin/sh", "-c", BEGIN, "/dev/null", str(group), "--", "cat", "/proc/self/cgroup"]
    assert f"/sandboxes/{group.name}\n" in subprocess.check_output(words, text=True)
    monkeypatch.setattr(cgroups, "_UNUSED_S", -1.0)
    new_group(Bounds(memory_bytes=2**30, processes=9, cpus=0.5))
    assert not group.exists()


def test_every_controller_that_is_there_is_bounded(delegated: Path) -> None:
    group = new_group(Bounds(memory_bytes=2**30, processes=9, cpus=0.5))
    assert group is not None
    for name, value in Bounds(memory_bytes=2**30, processes=9, cpus=0.5).files():
        if (group / name).exists():
            assert (group / name).read_text().strip() == value


def test_the_root_of_the_tree_is_never_divided(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no delegated group of cgroup v2"):
        prepared(tmp_path)


def test_a_group_that_systemd_delegated_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    own.write_text("4:memory:/old\n0::/system.slice/router.service/main\n")
    marked = tmp_path / "system.slice/router.service"
    monkeypatch.setattr(
        os, "getxattr", lambda place, name: b"1" if place == marked else b"", raising=False
    )
    assert cgroups._delegated(own, tmp_path) == marked


def test_a_cpu_bound_is_a_share_of_a_period() -> None:
    files = dict(Bounds(memory_bytes=1, processes=2, cpus=1.5).files())
    assert files["cpu.max"] == "150000 100000"
    assert (files["memory.max"], files["pids.max"]) == ("1", "2")
