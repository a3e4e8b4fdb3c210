"""`make run` as a process of a test."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import requests

from tests.support import processes
from tests.support.manage import PROJECT
from tests.support.promptness import PATIENCE_S

START_S = 120.0
STOP_S = 10.0
MAKE = ["make", "--no-print-directory", "run"]
SUPERVISOR = [sys.executable, "-m", "gateway.run"]
_OURS = ("GATEWAY_", "PYTEST_", "MAKE", "MFLAGS")
_STORES = {"DATABASE_URL", "REDIS_URL", "HOST", "PORT", "WEB_CONCURRENCY", "DJANGO_SETTINGS_MODULE"}


def clean_environment() -> dict[str, str]:
    """What an operator's shell has: nothing of the test bed, no real provider's key."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_OURS) and name not in _STORES and not name.endswith("_API_KEY")
    }


def processes_with(home: Path) -> dict[int, str]:
    """Every living process started with that GATEWAY_HOME: pid → command line.

    Valkey writes its title over its environment, but the title names its socket.
    """
    mark, place = f"GATEWAY_HOME={home}\0".encode(), str(home / "run")
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if place in line or mark in (entry / "environ").read_bytes() + b"\0":
                found[int(entry.name)] = line
        except (OSError, ProcessLookupError):
            continue
    return found


def _begun_at(pid: int) -> int:
    """In ticks since the machine's start, 0 once it is gone: pids begin anew at their end."""
    try:
        # The name, in parentheses, may hold blanks; the start is the 22nd field.
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, IndexError):
        return 0


class Run:
    """One `make run` in a home of its own, without a terminal.

    With a folder for its `logs` the home is not made, and `env` is all of its environment.
    """

    def __init__(
        self,
        home: Path,
        env: Mapping[str, str],
        *,
        command: list[str] | None = None,
        logs: Path | None = None,
    ) -> None:
        self.home = home
        if logs is None:
            home.mkdir(parents=True, exist_ok=True)
            needed = {"GATEWAY_HOME": str(home), "PORT": "0", "PYTHON": sys.executable}
            needed["METRICS_BIND"] = "127.0.0.1:0"
            env = clean_environment() | needed | dict(env)
        self._out = (logs or home) / "stdout.log"
        self._err = (logs or home) / "stderr.log"
        self.started_at = time.monotonic()
        with self._out.open("ab") as out, self._err.open("ab") as err:
            self.process = subprocess.Popen(
                command or MAKE,
                cwd=PROJECT,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                preexec_fn=processes.dies_with_parent(),
            )

    @property
    def stdout(self) -> str:
        return self._out.read_text(errors="replace")

    @property
    def stderr(self) -> str:
        return self._err.read_text(errors="replace")

    @property
    def ready_file(self) -> Path:
        return self.home / "run" / "ready.json"

    def ready(self) -> dict[str, Any]:
        """Wait for this run's `ready.json`, not one that a killed run left; its content."""

        def there() -> bool:
            assert self.process.poll() is None, self.stderr
            # To look at every process of the machine takes a while.
            pid = self._facts().get("pid")
            return pid is not None and pid in self.children("gateway.run")

        self.wait_until(there, "readiness", within_s=START_S)
        return self._facts()

    def _facts(self) -> dict[str, Any]:
        try:
            facts: dict[str, Any] = json.loads(self.ready_file.read_text())
        except FileNotFoundError:
            return {}
        return facts

    def wait_until(self, holds: Callable[[], bool], what: str, *, within_s: float = 15) -> None:
        processes.eventually(holds, within_s=within_s, what=what, log=self._err)

    def children(self, part: str) -> list[int]:
        """Pids of this run whose command line contains `part`, oldest first."""
        pids = (pid for pid, line in processes_with(self.home).items() if part in line)
        return sorted(pids, key=_begun_at)

    def probe(self, path: str, root_url: str) -> int:
        """The status of a GET, 0 when nobody answers."""
        try:
            return requests.get(root_url + path, timeout=5).status_code
        except requests.RequestException:
            return 0

    def wait_gone(self, *, within_s: float = STOP_S) -> None:
        """Until no process of this run is left."""
        left: dict[int, str] = {}

        def has_ended() -> bool:
            left.clear()
            left.update(processes_with(self.home))
            return not left

        try:
            self.wait_until(has_ended, "the last process's end", within_s=within_s)
        except TimeoutError:
            raise AssertionError(f"still there: {left}\n{self.stderr}") from None

    def stop(self, number: int = signal.SIGTERM, pid: int | None = None) -> int:
        """Send the signal to `pid` (make by default); make's exit status, once nothing is left."""
        os.kill(pid or self.process.pid, number)
        status = self.process.wait(STOP_S + PATIENCE_S)
        self.wait_gone(within_s=1)
        return status

    def clean_up(self) -> None:
        """Whatever a failed test left."""
        for pid in processes_with(self.home):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait(10)


class StartRun(Protocol):
    """Start `make run` (or `command`) with these settings, by default in the test's own home, where
    `make run` finds a migrated database."""

    def __call__(
        self, *, home: Path | None = None, command: list[str] | None = None, **env: str
    ) -> Run: ...


def put_database(home: Path, migrated: Path) -> None:
    """As if a gateway had run in this home before; what is there already is left alone."""
    home.mkdir(parents=True, exist_ok=True)
    database = home / "gateway.sqlite3"
    if not database.exists():
        shutil.copy(migrated, database)
