"""What a person sees at a terminal: requests as short lines, who has the port, how far it is."""

import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import requests

from gateway.run import install
from gateway.run.plan import describe_owner
from tests.support import processes
from tests.support.bed import Bed
from tests.support.manage import PROJECT
from tests.support.running import SUPERVISOR, clean_environment, processes_with, put_database

_SERVE = "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1])"


@pytest.mark.thorough
def test_a_request_is_a_short_coloured_line(tmp_path: Path, stores: Bed) -> None:
    home = tmp_path / "home"
    put_database(home, stores.migrated_file())
    terminal, theirs = pty.openpty()
    env = clean_environment() | {"GATEWAY_HOME": str(home), "PORT": "0"}
    run = subprocess.Popen(
        SUPERVISOR, cwd=PROJECT, env=env, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    os.set_blocking(terminal, False)
    shown = bytearray()

    def shows(pattern: str) -> bool:
        with suppress(BlockingIOError):
            shown.extend(os.read(terminal, 65_536))
        return re.search(pattern, shown.decode()) is not None

    def wait_for(pattern: str) -> None:
        try:
            processes.eventually(lambda: shows(pattern), within_s=60, what=pattern, log=None)
        except TimeoutError:
            pytest.fail(f"no {pattern} in {shown.decode()}")

    try:
        wait_for(r"API key +\S+")
        banner = shown.decode()
        url, key = (re.search(rf"{name} +(\S+)", banner)[1] for name in ("API", "API key"))  # type: ignore[index]  # They are there.
        body = {"model": "simulated/small", "messages": [{"role": "user", "content": "Hello"}]}
        answer = requests.post(
            f"{url}/chat/completions",
            json=body,
            headers={"Authorization": f"Bearer {key}"},
            timeout=90,
        )
        assert answer.status_code == 200
        # A provider that is slow on a busy machine may stand before the one that answered.
        served = r"Simulated \w+ \x1b\[32m200\x1b\[0m  \x1b\[2m\d+ ms\x1b\[0m  \$0\.\d+\r\n"
        wait_for(rf"small  ([^\r\n]* → )?{served}")
    finally:
        run.terminate()
        run.wait(90)
        os.close(terminal)
    assert processes_with(home) == {}


def test_the_owner_of_a_port_is_named_without_what_may_be_secret() -> None:
    command = [sys.executable, "-c", f"{_SERVE}; input()", "--api-key=hidden"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        owner = describe_owner(port)
        server.communicate("\n", timeout=90)

    assert owner.startswith(f"pid {server.pid} (")
    assert "import socket" in owner
    assert "hidden" not in owner
    assert describe_owner(port) == ""


def test_the_bar_grows_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    install.draw_bar(1, 3)
    install.draw_bar(3, 3)

    shown = capsys.readouterr().err
    assert shown == f"\r  [{'#' * 10}{'.' * 20}] 1 of 3\r  [{'#' * 30}] 3 of 3"
