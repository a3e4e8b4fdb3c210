"""Content filters hold the event loop for 20 ms at the most at a time, however long a text is."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.routing.guarding.holding import HELD_MAX_S
from tests.support.bed import PROJECT

MIB = 1 << 20
SMALL = ["redacted a hundred thousand times", "digits", "many messages"]


@pytest.mark.timed
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("size_bytes", "at_once", "names"),
    [
        pytest.param(32 * MIB, 1, [], id="32 MiB"),
        pytest.param(4 * MIB, 4, SMALL, id="of four accounts at a time"),
        # What is looked at without leaving the loop.
        pytest.param(4_000, 1, [], id="small"),
    ],
)
def test_filters_hold_nobody_up(size_bytes: int, at_once: int, names: list[str]) -> None:
    program = [sys.executable, "-m", "tests.routing.guarding.holding"]
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": "gateway.settings"}
    how: Any = {"cwd": PROJECT, "env": env, "capture_output": True, "text": True, "timeout": 280}
    done = subprocess.run([*program, str(size_bytes), str(at_once), *names], check=False, **how)
    assert done.returncode == 0, done.stderr
    held_s = json.loads(done.stdout)
    assert held_s
    assert {name: each for name, each in held_s.items() if each > HELD_MAX_S} == {}
