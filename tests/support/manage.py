"""manage.py commands for tests.

Run as a program it is a `ManageHost`'s process. It reads a JSON list of arguments per line from
stdin and answers with one JSON line, an `Outcome`.
"""

import io
import json
import socket
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from tests.support import processes
from tests.support.fork_server import can_fork, fork
from tests.support.processes import Process, dies_with_parent

PROJECT = processes.PROJECT


@dataclass(frozen=True)
class Outcome:
    """What a command left: exit status and both outputs."""

    status: int
    stdout: str
    stderr: str

    def json(self) -> dict[str, Any]:
        """Its one JSON object, with nothing beside it on stdout."""
        value: dict[str, Any] = json.loads(self.stdout)
        return value


def manage_process(
    env: dict[str, str], *arguments: str, timeout_s: float = 300, project: Path = PROJECT
) -> Outcome:
    """The command as a process of its own, as an operator would run it."""
    command = [sys.executable, "manage.py", *arguments]
    done = subprocess.run(
        command,
        cwd=project,
        env=env,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


class ManageHost:
    """One process that runs command after command under `env`: milliseconds instead of a second."""

    def __init__(self, env: dict[str, str], project: Path = PROJECT) -> None:
        self._lock = Lock()
        theirs, ours = socket.socketpair()
        command = [sys.executable, "-m", "tests.support.manage"]
        self._process: Process
        with theirs:
            end = theirs.fileno()
            if can_fork(env, project):
                main = "tests.support.manage:answer_commands"
                self._process = fork(main, command[2:], env=env, fds={0: end, 1: end})
            else:
                self._process = subprocess.Popen(
                    command,
                    cwd=project,
                    env=env,
                    stdin=end,
                    stdout=end,
                    preexec_fn=dies_with_parent(),
                )
        self._talk = ours.makefile("rw")
        ours.close()

    def run(self, *arguments: str) -> Outcome:
        # Two threads of a test must not read each other's answer.
        with self._lock:
            self._talk.write(json.dumps(arguments) + "\n")
            self._talk.flush()
            return Outcome(**json.loads(self._talk.readline()))

    def close(self) -> None:
        self._talk.close()
        self._process.wait(60)


def _run_here(arguments: list[str]) -> Outcome:
    """One command as `manage.py` would run it."""
    from django.core.management import execute_from_command_line
    from django.db import close_old_connections

    out, err = io.StringIO(), io.StringIO()
    status: Any = 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            execute_from_command_line(["manage.py", *arguments])
        except SystemExit as end:
            status = end.code or 0
        finally:
            close_old_connections()
    return Outcome(status, out.getvalue(), err.getvalue())


def answer_commands() -> None:
    for line in sys.stdin:
        sys.stdout.write(json.dumps(asdict(_run_here(json.loads(line)))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    answer_commands()
