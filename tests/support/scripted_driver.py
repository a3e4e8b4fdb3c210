"""A driver that runs nothing: runtimes are files, so that every process of a test sees the same.

`SCRIPTED_RUNTIMES` names their folder. What goes wrong is written there before: for a method, a
list of faults that are used up one after the other, or `{"always": ...}`. A fault is an object. Its
`delay_s` waits, `hang` names a file for whose life it hangs, and `exit` kills the process ("before"
or "after"). `die` is the same as `exit` for a worker that is the test itself. `error` is the
message of a `RuntimeFailed`, whose class `code` chooses.
"""

import fcntl
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO
from uuid import UUID

from interns.runtime.driver import (
    AgentAccess,
    ArchiveFailed,
    BootPlan,
    ImageUnavailable,
    NoDisk,
    Runtime,
    RuntimeFailed,
    RuntimeHealth,
    StartFailed,
    StopFailed,
)

FOLDER = "SCRIPTED_RUNTIMES"
_KINDS = {kind.code: kind for kind in (ImageUnavailable, StartFailed, StopFailed, ArchiveFailed)}


class WorkerDied(BaseException):
    """What a SIGKILL is to a worker in process: nothing of it runs any more."""


class Script:
    """The folder: what runs, what is on the disks, what goes wrong, and what was asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def change_state(self) -> Iterator[dict[str, Any]]:
        """The state, for this process alone; what is left in it is kept."""
        with (self.folder / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            file = self.folder / "state.json"
            state = json.loads(file.read_text()) if file.exists() else self._nothing()
            yield state
            temporary = self.folder / "state.new"
            temporary.write_text(json.dumps(state))
            temporary.replace(file)

    def _nothing(self) -> dict[str, Any]:
        return {"runtimes": {}, "disks": {}, "faults": {}, "calls": [], "unwell": {}}

    def read(self) -> dict[str, Any]:
        with self.change_state() as state:
            return state

    def fail(self, method: str, *faults: dict[str, Any], always: bool = False) -> None:
        """Have the next calls of a method go wrong, or all."""
        with self.change_state() as state:
            state["faults"][method] = {"always": faults[0]} if always else list(faults)

    def forget(self) -> None:
        """As at the beginning."""
        with self.change_state() as state:
            state.clear()
            state.update(self._nothing())

    def heal(self) -> None:
        with self.change_state() as state:
            state["faults"], state["unwell"] = {}, {}

    def runtimes(self) -> dict[str, str]:
        """Boots by interns."""
        found: dict[str, str] = self.read()["runtimes"]
        return found

    def calls(self, method: str = "") -> list[list[Any]]:
        """What was asked for, as `[method, intern]`."""
        return [call for call in self.read()["calls"] if not method or call[0] == method]

    def lose(self, intern_id: object) -> None:
        """Have its runtime die."""
        with self.change_state() as state:
            state["runtimes"].pop(str(intern_id), None)

    def plant(self, intern_id: object, boot_id: object) -> None:
        """Have a runtime run that nobody asked for."""
        with self.change_state() as state:
            state["runtimes"][str(intern_id)] = str(boot_id)

    def sicken(self, intern_id: object, health: dict[str, Any]) -> None:
        """What its probes find from now on."""
        with self.change_state() as state:
            state["unwell"][str(intern_id)] = health

    def take_fault(self, method: str, intern_id: object) -> dict[str, Any]:
        """The fault that this call meets; its first part happens here."""
        with self.change_state() as state:
            state["calls"].append([method, str(intern_id)])
            faults = state["faults"].get(method, [])
            if isinstance(faults, dict):
                fault = faults["always"]
            else:
                fault = faults.pop(0) if faults else {}
        _suffer(fault)
        return dict(fault)


def _suffer(fault: dict[str, Any]) -> None:
    _die(fault, "before")
    time.sleep(fault.get("delay_s", 0))
    while "hang" in fault and Path(fault["hang"]).exists():
        time.sleep(0.02)
    if "error" in fault:
        kind: type[RuntimeFailed] = _KINDS.get(fault.get("code", ""), StartFailed)
        raise kind(fault["error"])


def _die(fault: dict[str, Any], moment: str) -> None:
    if fault.get("exit") == moment:
        os.kill(os.getpid(), signal.SIGKILL)
    if fault.get("die") == moment:
        raise WorkerDied


class ScriptedDriver:
    """Chats with nobody: `place` knows no address."""

    name = "scripted"

    def __init__(self) -> None:
        self.script = Script(Path(os.environ[FOLDER]))

    @contextmanager
    def _state_for(self, method: str, intern_id: UUID) -> Iterator[tuple[dict[str, Any], str]]:
        """The state to be changed by a call, and its intern as the state names it."""
        fault = self.script.take_fault(method, intern_id)
        with self.script.change_state() as state:
            yield state, str(intern_id)
        _die(fault, "after")

    def start(self, plan: BootPlan) -> Runtime:
        with self._state_for("start", plan.intern_id) as (state, intern):
            state["runtimes"][intern] = str(plan.boot_id)
            state["disks"].setdefault(intern, ["notes.txt"])
        return Runtime(plan.intern_id, plan.boot_id, {"pid": 1, "model": plan.model})

    def stop(self, intern_id: UUID, *, boot_id: UUID | None = None, wait_s: float = 8.0) -> bool:
        with self._state_for("stop", intern_id) as (state, intern):
            runs = state["runtimes"].get(intern)
            found = runs is not None and boot_id in (None, UUID(runs))
            if found:
                del state["runtimes"][intern]
        return found

    def destroy(self, intern_id: UUID) -> None:
        with self._state_for("destroy", intern_id) as (state, intern):
            state["runtimes"].pop(intern, None)
            state["disks"].pop(intern, None)

    def has_disk(self, intern_id: UUID) -> bool:
        return str(intern_id) in self.script.read()["disks"]

    def archive(self, intern_id: UUID, into: BinaryIO) -> int:
        with self._state_for("archive", intern_id) as (state, intern):
            if intern not in state["disks"]:
                raise NoDisk
            files = state["disks"][intern]
            into.write(json.dumps(files).encode())
        return len(files)

    def restore(self, intern_id: UUID, archive: BinaryIO) -> int:
        with self.script.change_state() as state:
            # One that fails leaves what it had begun.
            state["disks"][str(intern_id)] = []
        self.script.take_fault("restore", intern_id)
        with self.script.change_state() as state:
            files = state["disks"][str(intern_id)] = json.loads(archive.read())
        return len(files)

    def health(
        self, intern_id: UUID, *, boot_id: UUID | None = None, wait_s: float = 2.0
    ) -> RuntimeHealth:
        try:
            self.script.take_fault("health", intern_id)
        except RuntimeFailed as failure:
            return RuntimeHealth(ok=False, detail=str(failure))
        state = self.script.read()
        if str(intern_id) in state["unwell"]:
            return RuntimeHealth(**state["unwell"][str(intern_id)])
        runs = state["runtimes"].get(str(intern_id))
        there = runs is not None and boot_id in (None, UUID(runs))
        return RuntimeHealth(ok=there, exited=not there)

    def runtimes(self) -> list[Runtime]:
        self.script.take_fault("runtimes", "")
        found = self.script.runtimes().items()
        return [Runtime(UUID(intern), UUID(boot), {}) for intern, boot in found]

    def log_tail(self, intern_id: UUID, *, lines: int = 100) -> list[str]:
        return ["booted", "<b>ready</b>"][-lines:]

    def find_agent(self, intern_id: UUID) -> AgentAccess | None:
        return None

    def cancel(self, intern_id: UUID, run_id: UUID, *, wait_s: float = 2.0) -> bool:
        self.script.take_fault("cancel", intern_id)
        return True
