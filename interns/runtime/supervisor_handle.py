"""Supervisors as drivers use them: start one, find it by its `runtime.json`, stop it.

Nothing is kept in memory: all is in the interns' folders, for whichever process looks next.
"""

import fcntl
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from uuid import UUID

from django.conf import settings

from gateway.http.jsonio import JsonObject
from interns.runtime import disk
from interns.runtime.driver import (
    AgentAccess,
    AgentAddress,
    BootPlan,
    Runtime,
    RuntimeHealth,
    StartFailed,
    StopFailed,
)
from interns.runtime.host_lease import FILE_NAME
from interns.runtime.process_identity import POLL_S, ProcessIdentity, identify_process
from interns.runtime.supervisor import remove_boot_files

PROJECT: Final = Path(__file__).resolve().parents[2]
START_S: Final = 20.0
KILL_S: Final = 2.0
LOCK_S: Final = 1.0
SUPERVISOR: Final = "GATEWAY_SUPERVISOR_PID"


@dataclass(frozen=True)
class SupervisorHandle:
    """A running supervisor, as its `runtime.json` describes it."""

    intern_id: UUID
    boot_id: UUID
    process: ProcessIdentity
    sockets: Path
    token: str = field(repr=False)
    isolation: str
    warning: str
    begun_at: float

    def runtime(self) -> Runtime:
        """For the row: no secrets."""
        facts = {
            "pid": self.process.pid,
            "began": self.process.began,
            "address": f"unix:{self.sockets / 'agent.sock'}",
            "isolation": self.isolation,
            "begun_at": self.begun_at,
        }
        warning = {"warning": self.warning} if self.warning else {}
        return Runtime(self.intern_id, self.boot_id, warning | facts)

    def access(self) -> AgentAccess:
        return AgentAccess(AgentAddress(socket_path=self.sockets / "agent.sock"), self.token)


def find_supervisor(intern_id: UUID) -> SupervisorHandle | None:
    """The supervisor that runs for an intern; a process that reuses its pid is none."""
    try:
        facts = json.loads((disk.intern_folder(intern_id) / "run" / "runtime.json").read_bytes())
        found = SupervisorHandle(
            intern_id,
            UUID(facts["boot_id"]),
            ProcessIdentity(facts["pid"], facts["began"]),
            Path(facts["sockets"]),
            facts["token"],
            facts["isolation"],
            facts["warning"],
            facts["begun_at"],
        )
    except (OSError, ValueError, KeyError):
        return None
    return found if found.process.is_alive() else None


def list_supervisors() -> list[SupervisorHandle]:
    """All supervisors of this `GATEWAY_HOME`."""
    found = []
    with suppress(FileNotFoundError):
        for folder in sorted(disk.interns_folder().iterdir()):
            with suppress(ValueError):
                found.append(find_supervisor(UUID(folder.name)))
    return [each for each in found if each is not None]


def await_supervisor(intern_id: UUID) -> SupervisorHandle | None:
    """As `find_supervisor`, but wait for one that is just starting."""
    holder = _find_lock_holder(intern_id)
    deadline = time.monotonic() + START_S
    while (
        (found := find_supervisor(intern_id)) is None and holder is not None and holder.is_alive()
    ):
        if time.monotonic() >= deadline:
            return None
        time.sleep(POLL_S)
    return found


def _find_lock_holder(intern_id: UUID) -> ProcessIdentity | None:
    """The supervisor that holds the intern's lock, also before it has written `runtime.json`."""
    file = disk.intern_folder(intern_id) / "lock"
    try:
        with file.open("r+", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return None
    except FileNotFoundError:
        return None
    except BlockingIOError:
        deadline = time.monotonic() + LOCK_S
    # A process that has just taken it writes into it next.
    while time.monotonic() < deadline:
        with suppress(OSError, ValueError, KeyError):
            facts = json.loads(file.read_bytes())
            return ProcessIdentity(facts["pid"], facts["began"])
        time.sleep(POLL_S)
    return None


def start_supervisor(plan: BootPlan, orders: JsonObject) -> SupervisorHandle:
    """Start a supervisor and wait until it reports. Raises `StartFailed`."""
    supervisor = subprocess.Popen(  # noqa: S603 - Our own program.
        [sys.executable, "-s", "-P", "-m", "interns.runtime.supervisor", str(plan.intern_id)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={
            "PATH": os.environ.get("PATH", os.defpath),
            "PYTHONPATH": str(PROJECT),
            "GATEWAY_HOME": str(settings.GATEWAY_HOME),
        },
        cwd="/",
        start_new_session=True,
    )
    try:
        # There are secrets in the orders, so they are on no command line and in no file.
        output, _ = supervisor.communicate(json.dumps(orders).encode(), timeout=START_S)
    except subprocess.TimeoutExpired as error:
        supervisor.kill()
        supervisor.communicate()
        raise StartFailed("the runtime's keeper did not begin in time") from error
    found = find_supervisor(plan.intern_id)
    if found is None or found.boot_id != plan.boot_id:
        why = ""
        with suppress(ValueError):
            why = str(json.loads(output).get("error", ""))
        raise StartFailed(why or describe_end(plan.intern_id))
    return found


def list_agent_calls(api_path: str, intern_id: str) -> list[tuple[str, str]]:
    """What an agent may ask of the gateway: methods, each with a pattern for the path. `intern_id`
    is a pattern too."""
    return [
        ("POST", rf"{api_path}/chat/completions"),
        ("POST", rf"{api_path}/interns/{intern_id}/fetch"),
        ("GET", rf"{api_path}/vault/interns/{intern_id}/effective-secrets(\?[a-z0-9=&]*)?"),
    ]


def build_orders(plan: BootPlan, agent: JsonObject) -> JsonObject:
    """The supervisor's orders. `agent` are the fields of the agent's config that a driver sets."""
    url = urlsplit(plan.gateway_url)
    api_path, intern_id = url.path.rstrip("/"), str(plan.intern_id)
    return {
        "folder": str(disk.intern_folder(plan.intern_id)),
        "intern_id": intern_id,
        "boot_id": str(plan.boot_id),
        "agent": {
            "intern_id": intern_id,
            "runtime_id": str(plan.boot_id),
            "name": plan.name,
            "token": secrets.token_urlsafe(32),
            "instructions": plan.instructions,
            "model": plan.model or "",
            "api_path": api_path,
            "limits": {
                "processes": settings.INTERN_PROCESSES,
                "disk_bytes": settings.INTERN_DISK_BYTES,
            },
            **agent,
        },
        "gateway_url": f"{url.scheme}://{url.netloc}",
        "api_key": plan.api_key,
        "allowed": list_agent_calls(api_path, intern_id),
        "supervisor": _identify_gateway(),
        "host_lease": str(settings.GATEWAY_HOME / "run" / FILE_NAME),
    }


def _identify_gateway() -> JsonObject | None:
    """The process that no runtime of this gateway may outlive, under `make run`."""
    pid = os.environ.get(SUPERVISOR, "")
    found = identify_process(int(pid)) if pid.isdigit() else None
    return {"pid": found.pid, "began": found.began} if found else None


def stop_supervisor(intern_id: UUID, *, boot_id: UUID | None, wait_s: float) -> bool:
    """Stop the supervisor and remove its files. Whether there was one. Raises `StopFailed`."""
    found = find_supervisor(intern_id)
    if boot_id is not None and found is not None and found.boot_id != boot_id:
        return False
    supervisor = found.process if found else _find_lock_holder(intern_id)
    if supervisor is not None:
        supervisor.signal(signal.SIGTERM)
        if not supervisor.wait(max(0.0, wait_s)):
            supervisor.kill_group()
            if not supervisor.wait(KILL_S):
                raise StopFailed(f"process {supervisor.pid} does not end")
        # Threads of a process that has ended hold its lock for a moment longer.
        until = time.monotonic() + KILL_S
        while _find_lock_holder(intern_id) is not None and time.monotonic() < until:
            time.sleep(POLL_S)
    remove_boot_files(disk.intern_folder(intern_id))
    return supervisor is not None


def report_exit(intern_id: UUID, supervisor: SupervisorHandle | None, detail: str) -> RuntimeHealth:
    """The health of a runtime whose supervisor is gone, or keeps a later boot."""
    end = _read_end(intern_id) if supervisor is None else {}
    was_stopped = end.get("was_asked") is True
    if supervisor is None and "was_asked" not in end:
        # A supervisor that was killed together with its gateway had no time to say so.
        with suppress(OSError, ValueError, KeyError, TypeError):
            path = disk.intern_folder(intern_id) / "run" / "runtime.json"
            gateway = json.loads(path.read_bytes())["gateway"]
            was_stopped = not ProcessIdentity(gateway["pid"], gateway["began"]).is_alive()
    return RuntimeHealth(
        ok=False,
        exited=True,
        detail=detail,
        was_fenced=end.get("was_fenced") is True,
        was_stopped=was_stopped,
    )


def describe_end(intern_id: UUID) -> str:
    """How the last runtime ended, as far as it could still say."""
    end = _read_end(intern_id)
    if not end:
        return "the runtime was killed"
    if end["was_asked"]:
        return "the runtime was asked to stop"
    if isinstance(status := end["status"], int) and status < 0:
        return f"the runtime was ended by {signal.Signals(-status).name}"
    return f"the runtime ended with status {status}"


def _read_end(intern_id: UUID) -> JsonObject:
    """What the last supervisor wrote of its runtime's end (`status`, `was_asked`, `was_fenced`);
    nothing where it had no time to."""
    with suppress(OSError, ValueError):
        end: JsonObject = json.loads((disk.intern_folder(intern_id) / "end.json").read_bytes())
        return end
    return {}
