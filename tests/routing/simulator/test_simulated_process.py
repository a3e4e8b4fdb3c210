import json
import os
import signal
import socket
import subprocess
import sys
from typing import Any

import pytest

from routing.simulator.testing import COMMAND, ROOT, SimulatedUpstream

END_S = 15


def test_it_says_where_it_listens_on_stdout_and_in_the_port_file(tmp_path):
    ready = tmp_path / "simulator.json"
    with SimulatedUpstream("--port-file", str(ready)) as upstream:
        said = json.loads(ready.read_text())
        assert said == {"url": upstream.url, "pid": upstream.process.pid}
        assert upstream.url.startswith("http://127.0.0.1:")
    assert [path.name for path in tmp_path.iterdir()] == ["simulator.json"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_at_once_with_work_in_hand(number):
    with SimulatedUpstream() as upstream, upstream.wire() as wire:
        wire.send(upstream.chat_bytes("sim/hang"))
        upstream.wait(state="received")
        os.kill(upstream.process.pid, number)
        assert upstream.process.wait(END_S) == 0


def test_it_ends_when_its_parent_dies_before_anyone_notices():
    """The parent that starts it is killed; the read end of the pipe sees the child go."""
    command = f"[*{COMMAND!r}, '--parent-pid', str(os.getpid())]"
    program = f"import os, subprocess\nsubprocess.Popen({command})\ninput()\n"
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    parent = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, **pipes)
    assert parent.stdout is not None
    assert "url" in json.loads(parent.stdout.readline())
    parent.kill()
    # End of file comes when the last holder of the pipe, the simulator, is gone.
    assert parent.communicate(timeout=END_S)[0] == ""


def ran(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def test_a_port_that_is_taken_is_one_line_and_exit_2():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = ran(*COMMAND, "--port", str(taken.getsockname()[1]))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert len(ended.stderr.splitlines()) == 1
