"""Memory of a workspace that no process has for itself: shared, or mapped by nobody."""

import json
from collections.abc import Iterator

import pytest
from django.test import override_settings

from routing.tools import walls
from routing.tools.shell import Bash
from tests.routing.tools.made import context

SHARED = """
import mmap
memory = mmap.mmap(-1, 100 << 20)
for at in range(0, len(memory), 4096): memory[at] = 1
"""
MAPPED_BY_NOBODY = """
files = [os.memfd_create("x") for _ in range(4)]
for file in files:
    for _ in range(25): os.write(file, bytes(1 << 20))
"""
SEGMENT = """
import ctypes
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
segment = libc.shmget(0, ctypes.c_size_t(100 << 20), 0o1600)
at = ctypes.c_void_p(libc.shmat(segment, None, 0))
ctypes.memset(at, 1, 100 << 20)
libc.shmdt(at)
"""
HIDDEN = """
import ctypes
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
"""


@pytest.fixture
def bash() -> Iterator[Bash]:
    if not walls.is_there():
        pytest.skip(f"no sandbox here: {walls.isolation().reason}")
    tool = Bash({})
    yield tool
    tool.workspace.close()


@override_settings(ROUTER_SHELL_MEMORY_BYTES=64 << 20)
@pytest.mark.parametrize(
    ("program", "stopped"),
    [
        (SHARED, "stopped: too much memory"),
        (MAPPED_BY_NOBODY, "stopped: too much memory"),
        (SEGMENT, "stopped: too much memory"),
        (HIDDEN, "stopped: a process hid what it has open"),
    ],
)
def test_it_is_bounded_and_gone_afterwards(bash: Bash, program: str, stopped: str) -> None:
    command = f"exec python3 -c 'import os, time\n{program}\ntime.sleep(60)'"
    ran = json.loads(bash.run({"command": command, "timeout_s": 30}, context()).text)
    assert ran.get("stopped") == stopped, ran
    left = json.loads(bash.run({"command": "tail -n +2 /proc/sysvipc/shm"}, context()).text)
    assert left == {"stdout": "", "stderr": "", "return_code": 0}
