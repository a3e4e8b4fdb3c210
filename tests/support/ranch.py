"""A gateway with real workers for interns, on a driver that runs nothing."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests

from tests.support import processes
from tests.support.bed import Bed
from tests.support.gateways import SeededAccount, StartGateway, seed_account
from tests.support.manage import PROJECT
from tests.support.orm import database_name
from tests.support.postgres import USER
from tests.support.promptness import PATIENCE_S
from tests.support.scripted_driver import FOLDER, Script
from tests.support.server import GatewayServer
from tests.support.valkey import ValkeyServer

CELERY = [str(Path(sys.executable).parent / "celery"), "--quiet", "-A", "gateway"]
WORKER = ["worker", "--without-mingle", "--without-gossip", "--loglevel", "WARNING"]
# As in the Procfile, with fewer slots.
WORKERS = {
    "interns": ["--queues", "interns", "--concurrency", "3"],
    "intern-control": ["--queues", "intern-control", "--pool", "threads", "--concurrency", "4"],
}
SETTLED = {"awaiting_slack_install", "running", "failed", "stopped", "destroy_failed"}
# Only a failing test waits this long.
SETTLED_S = 40.0


class Ranch:
    """Web, both kinds of workers and beat. `server.env` is the environment of them all."""

    def __init__(self, server: GatewayServer, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.script = Script(Path(server.env[FOLDER]))
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.account: SeededAccount
        self.hints: ValkeyServer

    def start(self) -> None:
        self.server.start()
        self.account = seed_account(self.server)
        for name in WORKERS:
            self.start_worker(name)
        self._spawn("beat", ["beat", "--pidfile=", "--schedule", str(self.folder / "schedule")])

    def start_worker(self, name: str) -> None:
        self._spawn(name, [*WORKER, "--hostname", f"{name}@%h", *WORKERS[name]])

    def _spawn(self, name: str, arguments: list[str]) -> None:
        self._running[name] = processes.spawn(
            [*CELERY, *arguments],
            log=self.folder / f"{name}.log",
            env=self.server.env,
            cwd=PROJECT,
        )

    def stop(self) -> None:
        for process in self._running.values():
            processes.kill(process)
        self._running.clear()

    def pid(self, name: str) -> int:
        return self._running[name].pid

    def kill_worker(self, name: str) -> None:
        """SIGKILL to all of it, and a new one."""
        processes.kill(self._running[name])
        self.start_worker(name)

    def replace_worker(self, name: str) -> None:
        """SIGTERM to it, as a roll-out does, with a new one beside it."""
        old = self._running[name]
        self.start_worker(name)
        processes.stop(old, grace_s=SETTLED_S)

    def start_behind(self, proxy_port: int) -> None:
        """`start`, with the database on the other side of a proxy."""
        database = database_name(self.server.env["DATABASE_URL"])
        self.server.env["DATABASE_URL"] = f"postgresql://{USER}@127.0.0.1:{proxy_port}/{database}"
        self.start()

    def look_after(self) -> None:
        """Start again what ended by itself, as a supervisor does: Celery gives up where a child is
        killed before it is up."""
        for name in WORKERS:
            process = self._running.get(name)
            if process is not None and process.poll() is not None:
                self.start_worker(name)

    def call_until_answered(self, method: str, path: str, *, within_s: float = 20.0) -> int:
        """The status once it is no 502 any more."""
        deadline = time.monotonic() + within_s + PATIENCE_S
        while (status := self.call(method, path).status_code) == 502:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        return status

    def kill_child(self, name: str, number: int) -> None:
        """SIGKILL to one of its processes; the worker replaces it."""
        pids = processes.children(self.pid(name))
        if pids:
            os.kill(pids[number % len(pids)], signal.SIGKILL)

    def call(self, method: str, path: str, body: Any = None, **more: Any) -> requests.Response:
        options = {} if body is None else {"json": body}
        key = more.pop("key", self.account.api_key)
        return self.server.request(method, f"/api/v1{path}", key=key, **options, **more)

    def ok(self, method: str, path: str, body: Any = None, *, status: int = 200) -> Any:
        response = self.call(method, path, body)
        assert response.status_code == status, response.text
        return response.json()

    def new(self, name: str, **body: Any) -> str:
        made = self.ok("POST", "/interns", {"name": name, **body}, status=201)
        intern_id: str = made["id"]
        return intern_id

    def status(self, intern_id: str) -> str:
        """ "" for one that is gone."""
        response = self.call("GET", f"/interns/{intern_id}")
        if response.status_code == 404:
            return ""
        assert response.status_code == 200, response.text
        status: str = response.json()["status"]
        return status

    def eventually(self, intern_id: str, *statuses: str, within_s: float = SETTLED_S) -> str:
        """The first of these statuses that the intern is seen in."""
        deadline = time.monotonic() + within_s + PATIENCE_S
        while (status := self.status(intern_id)) not in statuses:
            self.look_after()
            if time.monotonic() > deadline:
                logs = "".join(
                    file.read_text(errors="replace")[-2000:] for file in self.folder.glob("*.log")
                )
                raise TimeoutError(f"{intern_id} is {status}, not {statuses}\n{logs}")
            time.sleep(0.05)
        return status

    def wait_until_settled(self, intern_id: str, *, within_s: float = SETTLED_S) -> str:
        return self.eventually(intern_id, "", *SETTLED, within_s=within_s)

    def remove(self, intern_id: str, *, within_s: float = SETTLED_S) -> None:
        """Have it deleted, again where the operation was lost. That each is lost in the end is no
        success: who calls this counts them."""
        deadline = time.monotonic() + within_s + PATIENCE_S
        while self.wait_until_settled(intern_id, within_s=within_s):
            assert time.monotonic() < deadline, f"{intern_id} is still there"
            self.call("DELETE", f"/interns/{intern_id}")

    def clear(self) -> None:
        """Nothing goes wrong any more, and no intern is left: as at the beginning."""
        self.script.heal()
        for row in self.server.manage("interns")["interns"]:
            self.remove(row["id"])
        self.script.forget()

    def create_running(self, name: str) -> str:
        intern_id = self.new(name, provision=True)
        assert self.eventually(intern_id, "running", "failed") == "running"
        return intern_id


@contextmanager
def running_ranch(bed: Bed, folder: Path, **settings: str) -> Iterator[Ranch]:
    """A running ranch with a shared cache of its own, which is `ranch.hints`."""
    hints = ValkeyServer(folder / "v")
    hints.start()
    with StartGateway(bed, folder) as starter:
        ranch = ranch_of(starter, folder / "r", redis_url=hints.url, **settings)
        ranch.hints = hints
        ranch.start()
        yield ranch
        ranch.stop()
    hints.stop()


def ranch_of(starter: StartGateway, folder: Path, **options: str) -> Ranch:
    """A ranch of these settings, not started yet."""
    folder.mkdir(parents=True, exist_ok=True)
    driver: dict[str, Any] = {
        "INTERN_RUNTIME": "tests.support.scripted_driver.ScriptedDriver",
        FOLDER: str(folder / "runtimes"),
    }
    return Ranch(starter.build(**{**driver, **options}), folder)
