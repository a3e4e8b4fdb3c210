"""Whoever has a shell reaches nothing of the machine, whether the gateway is root or a user."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.sandbox import unprivileged
from routing.tools.sandbox import bubblewrap
from tests.support.another_user import USER, with_python
from tests.support.manage import PROJECT

ATTACKS = str(Path(__file__).with_name("attacks.py"))


@pytest.fixture(scope="module", params=["root", "user"])
def findings(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """What came of each attack."""
    if not bubblewrap.is_available():
        pytest.skip(f"no sandbox here: {bubblewrap.isolation().reason}")
    if request.param == "root" and os.geteuid():
        pytest.skip("these tests are not run by root")
    home = tempfile.mkdtemp(dir="/var/tmp")
    life, owned = os.pipe()
    command = [sys.executable, ATTACKS, home]
    if request.param == "user" and not os.geteuid():
        os.chown(home, USER, USER)
        command = [*as_user(life), *command]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(PROJECT)}
    try:
        ran = subprocess.run(
            command, capture_output=True, timeout=300, env=environment, pass_fds=(life,)
        )
        assert ran.returncode == 0, ran.stderr.decode()
        yield json.loads(ran.stdout) | {"as": request.param}
    finally:
        os.close(life)
        os.close(owned)
        shutil.rmtree(home)


def as_user(life: int) -> list[str]:
    """What begins a command as `USER`."""
    limits = json.dumps({"uid": USER, "processes": 4096, "folder": "/", "life": life})
    return [*with_python(), sys.executable, "-I", "-S", str(unprivileged.__file__), "init", limits]


REACHED = ["sysctl", "core_pattern", "proc", "sys", "namespace", "calls", "sockets", "set_user"]


@pytest.mark.parametrize("attack", REACHED)
def test_it_reaches_nothing(findings: dict[str, Any], attack: str) -> None:
    assert findings[attack] == ""


def test_the_host_and_the_first_process_stay_as_they_are(findings: dict[str, Any]) -> None:
    assert findings["swappiness"]
    assert findings["first_process"] == "alive\n"


def test_all_of_it_is_another_users_without_rights_and_ends(findings: dict[str, Any]) -> None:
    """How much it may take is `test_workspace`'s."""
    # The first process, what serves the workspace.
    assert len(findings["inside"]) >= 2
    assert all(each["user"] != 0 and each["rights"] == 0 for each in findings["inside"])
    assert findings["after"] == []
