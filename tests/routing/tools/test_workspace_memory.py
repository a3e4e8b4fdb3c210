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
FIRST_THREAD_ENDED = """
import ctypes, threading
def hold():
    held = b"1" * (30 << 20)
    time.sleep(60)
[os.fork() for _ in range(2)]
threading.Thread(target=hold).start()
ctypes.CDLL(None).syscall(60 if os.uname().machine == "x86_64" else 93, 0)
"""


@pytest.fixture
def bash() -> Iterator[Bash]:
    if not walls.is_there():
        pytest.skip(f"no sandbox here: {walls.isolation().reason}")
    tool = Bash({})
    yield tool
    tool.workspace.close()


@override_settings(ROUTER_SHELL_MEMORY_BYTES=64 << 20)
@pytest.mark.parametrize("program", [SHARED, FIRST_THREAD_ENDED])
def test_it_is_bounded(bash: Bash, program: str) -> None:
    command = f"exec python3 -c 'import os, time\n{program}\ntime.sleep(60)'"

    ran = json.loads(bash.run({"command": command, "timeout_s": 30}, context()).text)

    assert ran.get("stopped") == "stopped: too much memory", ran


def test_a_child_that_nobody_waits_for_is_no_offence(bash: Bash) -> None:
    program = 'import subprocess, time; p = subprocess.Popen(["true"]); time.sleep(1); print("ok")'

    ran = json.loads(bash.run({"command": f"python3 -c '{program}'"}, context()).text)

    assert ran == {"stdout": "ok\n", "stderr": "", "return_code": 0}
