"""The processes of one run: how each is started, where the simulated upstream listens, and what the
preparation has said so far."""

import json
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from gateway.env import SUPERVISED, SUPERVISOR_PID
from gateway.run import commands
from gateway.run.child import Child
from gateway.run.plan import Plan

HINTS_BYTES_MAX = "256mb"
# Running this as root, in a container say, is a choice: six lines a start say too much.
_HUSH = "ignore:You're running the worker with superuser privileges"


class Simulated:
    """Its command, and its address once its file has it.

    Restarted, it takes the same port again, because the catalogue names it.
    """

    def __init__(self, file: Path, port: int) -> None:
        self._file = file
        self._port = port
        self._url = ""
        file.unlink(missing_ok=True)

    def command(self) -> Sequence[str]:
        where = ["--port", str(self._port), "--port-file", str(self._file)]
        parent = ["--parent-pid", str(os.getpid())]
        return [sys.executable, "-m", "routing.simulator", *where, *parent]

    @property
    def url(self) -> str:
        """Empty until it listens."""
        if not self._url and self._file.exists():
            self._url = json.loads(self._file.read_text(encoding="utf-8"))["url"]
            self._port = int(self._url.rpartition(":")[2])
        return self._url


def valkey(plan: Plan) -> Child:
    """The embedded shared cache and broker: on a Unix socket only, nothing kept on disk."""
    assert plan.valkey_binary is not None
    folder = plan.valkey_socket.parent
    options = f"--port 0 --appendonly no --loglevel warning --maxmemory {HINTS_BYTES_MAX}".split()
    places = ["--unixsocket", plan.valkey_socket, "--unixsocketperm", "700", "--dir", folder]
    log = ["--logfile", plan.run / "valkey.log"]
    command = [plan.valkey_binary, *options, *places, *log, "--save", ""]
    return Child("valkey", lambda: command, plan.environment())


def simulator(plan: Plan, simulated: Simulated) -> Child:
    return Child("simulator", simulated.command, plan.environment(), quiet=True)


def prepare(plan: Plan) -> Child:
    """Migrations, the demo account and the demo catalogue, in one short-lived process."""
    command = [sys.executable, "-m", "gateway.run.prepare"]
    return Child("prepare", lambda: command, plan.environment(), pipes=True)


def web(plan: Plan, listener_fd: int) -> Child:
    return Child(
        "web",
        commands.web,
        plan.environment() | {"GATEWAY_BIND": f"fd://{listener_fd}"},
        pass_fds=(listener_fd,),
    )


def worker(plan: Plan, name: str) -> Child:
    """The Celery worker of that name in the Procfile."""
    marks = {"PYTHONWARNINGS": _HUSH, SUPERVISED: "1", SUPERVISOR_PID: str(os.getpid())}
    return Child(
        name,
        commands.PROCESSES[name].build,
        plan.environment() | marks,
        # Celery's cold shutdown: with the supervisor gone there is no time to finish tasks.
        death_signal=signal.SIGQUIT,
        # Celery says there that it stops, which is a log line of its own here.
        quiet=True,
    )


def beat(plan: Plan) -> Child:
    return Child("beat", commands.beat, plan.environment())


def suspend_interns(plan: Plan) -> Child:
    """`manage.py suspend_interns --all --here`, when the run ends."""
    return _manage(plan, "suspend_interns", "suspend_interns", "--all", "--here")


def add_provider(plan: Plan, name: str) -> Child:
    """`manage.py add_provider NAME`, which reads the key from the environment."""
    # Starting the gateway asks for no calls.
    options = ["--no-input", "--no-probe"]
    return _manage(plan, f"add_provider {name}", "add_provider", name, *options)


def _manage(plan: Plan, name: str, *arguments: str) -> Child:
    command = [sys.executable, "-m", "gateway", "manage", *arguments]
    return Child(name, lambda: command, plan.environment())


class Preparation:
    """A process that makes the stores ready, and what it has said so far.

    `waiting_for` is why the database cannot be reached yet. Once done, `demo` is the demo account
    and `providers` the real ones to add. `status` is the exit status, once ended.
    """

    def __init__(self, plan: Plan) -> None:
        self.child = prepare(plan)
        self.waiting_for: str | None = None
        self.demo: dict[str, Any] | None = None
        self.providers: list[str] = []
        self.status: int | None = None
        self._unfinished = b""
        self._url_sent = False
        self._output: IO[bytes] | None = None

    def start(self) -> None:
        self.child.start()
        self._output = self.child.stdout
        os.set_blocking(self._output.fileno(), False)

    def readers(self) -> list[IO[bytes]]:
        """What to wait for: something to hear."""
        return [self._output] if self._output and self.status is None else []

    def send_simulator_url(self, url: str) -> None:
        """Once; empty for a run without the simulator."""
        if self._url_sent or self.status is not None:
            return
        self._url_sent = True
        with suppress(BrokenPipeError):
            self.child.stdin.write(f"{url}\n".encode())
            self.child.stdin.flush()

    def listen(self) -> None:
        """Take in what it has said, to the last word when it has ended."""
        if self.status is None:
            status = self.child.death()
            assert self._output is not None
            with suppress(BlockingIOError):
                while piece := os.read(self._output.fileno(), 65_536):
                    self._unfinished += piece
            *lines, self._unfinished = self._unfinished.split(b"\n")
            for event in map(json.loads, lines):
                self.waiting_for = event.get("waiting", self.waiting_for)
                self.demo = event.get("demo", self.demo)
                self.providers = event.get("providers", self.providers)
            self.status = status
