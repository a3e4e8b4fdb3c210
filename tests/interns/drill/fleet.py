"""Several machines for interns, as homes of their own with real workers, real agents and one store.

Whatever happens to them, a watch looks ten times a second that no intern has two living agents.
"""

import os
import secrets
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from json import loads
from pathlib import Path
from typing import Any, Self

from interns.runtime.process_identity import ProcessIdentity
from tests.interns.archives.s3 import FakeS3
from tests.interns.drill.cables import Cable, lay_cable
from tests.support import processes
from tests.support.bed import Bed
from tests.support.gateways import SeededAccount, StartGateway, seed_account
from tests.support.manage import PROJECT
from tests.support.ranch import CELERY, WORKER, WORKERS
from tests.support.running import processes_with
from tests.support.server import GatewayServer
from tests.support.valkey import ValkeyServer

# The life signs of a machine that is busy may be late; two thirds of it bound its interns.
HOST_S = 24.0
# Thirty agents that begin on one machine are minutes of processor time.
PATIENCE_S = 600.0
SETTINGS = {
    "INTERN_HOST_SECONDS": str(HOST_S),
    "INTERN_LEASE_SECONDS": "8",
    "INTERN_REAPER_SECONDS": "1",
    "INTERN_PROBE_SECONDS": "1",
    "INTERN_RECONCILE_SECONDS": "5",
    "INTERNS_MAX_PER_MEMBER": "1000",
    "INTERN_ARCHIVE_STORE": "s3://disks/of-interns",
    # All machines have the same.
    **{name: secrets.token_urlsafe(48) for name in ("SECRET_KEY", "VAULT_MASTER_KEY")},
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
}


class Machine:
    """One of them: the two workers, and what they start."""

    def __init__(
        self, name: str, home: Path, env: dict[str, str], cable: Cable | None = None
    ) -> None:
        self.name, self.home = name, home
        home.mkdir()
        self._cable = cable
        self._env = {**env, "GATEWAY_HOME": str(home), "INTERN_HOST": name}
        self._workers: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        prefix = self._cable.prefix if self._cable else []
        for kind, options in WORKERS.items():
            self._workers[kind] = processes.spawn(
                [*prefix, *CELERY, *WORKER, "--hostname", f"{kind}@{self.name}", *options],
                log=self.home / f"{kind}.log",
                env=self._env,
                cwd=PROJECT,
            )

    def kill(self) -> None:
        """SIGKILL to everything that runs there."""
        for worker in self._workers.values():
            processes.kill(worker)
        while left := processes_with(self.home):
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)

    def cut_off(self, *, is_on: bool = True) -> None:
        """Its workers reach nobody; what they started goes on. Without a cable they stand still."""
        if self._cable:
            (self._cable.pull if is_on else self._cable.plug_in)()
            return
        for worker in self._workers.values():
            with suppress(ProcessLookupError):
                os.killpg(worker.pid, signal.SIGSTOP if is_on else signal.SIGCONT)

    def workspace(self, intern_id: str) -> Path:
        return self.home / "interns" / intern_id / "disk" / "workspace"

    def list_running(self) -> set[str]:
        """Interns that have a living agent there."""
        return {file.parents[1].name for file in self._runtimes() if _is_alive(file)}

    def _runtimes(self) -> Iterator[Path]:
        return (self.home / "interns").glob("*/run/runtime.json")


def _is_alive(file: Path) -> bool:
    with suppress(OSError, ValueError, KeyError):
        facts = loads(file.read_bytes())
        return ProcessIdentity(facts["pid"], facts["began"]).is_alive()
    return False


class Fleet:
    """The machines, one web process and beat."""

    def __init__(self, server: GatewayServer, machines: list[Machine]) -> None:
        self.server = server
        self.machines = {machine.name: machine for machine in machines}
        self.account: SeededAccount
        self.twice: list[set[str]] = []
        self._over = threading.Event()
        self._watch = threading.Thread(target=self._look, daemon=True)

    def start(self) -> Self:
        self.server.start()
        self.account = seed_account(self.server)
        for machine in self.machines.values():
            machine.start()
        self._beat = processes.spawn(
            [*CELERY, "beat", "--pidfile=", "--schedule", str(self.server.folder / "schedule")],
            log=self.server.folder / "beat.log",
            env=self.server.env,
            cwd=PROJECT,
        )
        self._watch.start()
        self.wait_until(lambda: self.alive() == set(self.machines), "all machines are there")
        return self

    def stop(self) -> None:
        self._over.set()
        processes.kill(self._beat)
        for machine in self.machines.values():
            machine.kill()

    def _look(self) -> None:
        while not self._over.wait(0.1):
            seen: set[str] = set()
            for machine in self.machines.values():
                found = machine.list_running()
                # One that ends while it is looked for elsewhere is seen once.
                if both := {each for each in found & seen if len(self.places(each)) > 1}:
                    self.twice.append(both)
                seen |= found

    def wait_until(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            if time.monotonic() > deadline:
                raise TimeoutError(f"not true in time: {what}\n{self._describe()}")
            time.sleep(0.2)

    def _describe(self) -> str:
        rows = self.server.manage("interns")["interns"]
        logs = [
            file.read_text(errors="replace")[-3000:]
            for machine in self.machines.values()
            for file in machine.home.glob("*.log")
        ]
        return "\n".join([*map(str, rows), str(self.hosts()), *logs])

    def call(self, method: str, path: str, *statuses: int, body: Any = None) -> Any:
        options = {} if body is None else {"json": body}
        key = self.account.api_key
        response = self.server.request(method, f"/api/v1{path}", key=key, **options)
        assert response.status_code in statuses, response.text
        return response.json()

    def hosts(self) -> dict[str, Any]:
        return {each["name"]: each for each in self.server.manage("interns_host", "list")["hosts"]}

    def alive(self) -> set[str]:
        return {name for name, each in self.hosts().items() if each["alive"]}

    def statuses(self) -> dict[str, str]:
        rows = self.server.manage("interns")["interns"]
        return {each["id"]: each["status"] for each in rows}

    def places(self, intern_id: str) -> list[str]:
        """The machines on which it has a living agent."""
        return [name for name, each in self.machines.items() if intern_id in each.list_running()]

    def all_run_once(self, interns: list[str]) -> bool:
        statuses = self.statuses()
        return all(statuses[each] == "running" and len(self.places(each)) == 1 for each in interns)

    def read(self, intern_id: str, file: str) -> str:
        (name,) = self.places(intern_id)
        return (self.machines[name].workspace(intern_id) / file).read_text()

    def make(self, count: int) -> list[str]:
        """Interns that run, each with a file that is archived and one that is not."""
        made = [
            self.call("POST", "/interns", 201, body={"name": f"intern-{n}", "provision": True})[
                "id"
            ]
            for n in range(count)
        ]
        self.wait_until(lambda: self.all_run_once(made), "all run")
        self._write(made, "acknowledged.txt")
        for each in made:
            # Where the machine is busy it is 408, and goes on.
            self.call("POST", f"/interns/{each}/suspend", 200, 408)
        self.wait_until(
            lambda: {self.statuses()[each] for each in made} == {"stopped"}, "all stopped"
        )
        self.wait_until(lambda: not any(h["unarchived"] for h in self.hosts().values()), "archived")
        for each in made:
            self.call("POST", f"/interns/{each}/provision", 202)
        self.wait_until(lambda: self.all_run_once(made), "all run again")
        self._write(made, "since.txt")
        return made

    def _write(self, interns: list[str], file: str) -> None:
        for each in interns:
            (name,) = self.places(each)
            (self.machines[name].workspace(each) / file).write_text(each)


@contextmanager
def running_fleet(bed: Bed, folder: Path, *names: str, has_cables: bool = False) -> Iterator[Fleet]:
    hints = ValkeyServer(folder / "v")
    hints.start()
    try:
        with FakeS3() as store, StartGateway(bed, folder) as starter:
            options: dict[str, Any] = {**SETTINGS, "INTERN_ARCHIVE_ENDPOINT": store.url}
            server = starter.build(redis_url=hints.url, **options)
            with ExitStack() as stack:
                machines = []
                for number, name in enumerate(names):
                    cable, env = None, dict(server.env)
                    if has_cables:
                        cable, env = stack.enter_context(lay_cable(number, env))
                    home = folder / f"machine-{name}"
                    machines.append(Machine(name, home, env, cable))
                fleet = Fleet(server, machines)
                stack.callback(fleet.stop)
                yield fleet.start()
    finally:
        hints.stop()
