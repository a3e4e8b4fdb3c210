"""The `process` driver: each intern a supervised process of this machine, in a sandbox where there
is one. `supervisor.py` runs beside each agent."""

import os
import sys
from collections import deque
from pathlib import Path
from typing import BinaryIO, Final
from uuid import UUID

from django.conf import settings

from gateway.http.jsonio import JsonObject
from gateway.sandbox.isolation import Isolation
from interns.runtime import disk
from interns.runtime.client import AgentClient, ask_health
from interns.runtime.disk_archive import pack, unpack
from interns.runtime.driver import (
    LOG_BYTES_READ,
    AgentAccess,
    ArchiveFailed,
    BootPlan,
    NoDisk,
    Runtime,
    RuntimeHealth,
    StartFailed,
    StopFailed,
)
from interns.runtime.sandbox import (
    INSIDE_HOME,
    INSIDE_SOCKET,
    NO_ISOLATION_TEXT,
    SANDBOXES,
    SandboxMissing,
    build_agent_command,
)
from interns.runtime.supervisor import SOCKETS
from interns.runtime.supervisor_handle import (
    PROJECT,
    SupervisorHandle,
    await_supervisor,
    build_orders,
    describe_end,
    find_supervisor,
    list_supervisors,
    report_exit,
    start_supervisor,
    stop_supervisor,
)

OPEN_FILES: Final = 1024


class ProcessDriver(AgentClient):
    """Runtimes as processes of this machine."""

    name = "process"

    def start(self, plan: BootPlan) -> Runtime:
        supervisor = await_supervisor(plan.intern_id)
        if supervisor is not None and supervisor.boot_id != plan.boot_id:
            self.stop(plan.intern_id)
            supervisor = None
        return (supervisor or _start(plan)).runtime()

    def stop(self, intern_id: UUID, *, boot_id: UUID | None = None, wait_s: float = 8.0) -> bool:
        return stop_supervisor(intern_id, boot_id=boot_id, wait_s=wait_s)

    def destroy(self, intern_id: UUID) -> None:
        self.stop(intern_id)
        try:
            disk.remove_folder(intern_id)
        except OSError as error:
            raise StopFailed(f"the disk could not be removed: {error.strerror}") from error

    def has_disk(self, intern_id: UUID) -> bool:
        return disk.disk_folder(intern_id).is_dir()

    def archive(self, intern_id: UUID, into: BinaryIO) -> int:
        if not disk.disk_folder(intern_id).is_dir():
            raise NoDisk
        try:
            return pack(disk.disk_folder(intern_id), into)
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise ArchiveFailed(f"the disk could not be read: {why}") from error

    def restore(self, intern_id: UUID, archive: BinaryIO) -> int:
        if find_supervisor(intern_id) is not None:
            raise ArchiveFailed("the intern has a runtime")
        try:
            return unpack(archive, disk.make_disk(intern_id)).files
        except (OSError, ValueError) as error:
            raise ArchiveFailed(f"the archive could not be put back: {error}") from error

    def health(
        self, intern_id: UUID, *, boot_id: UUID | None = None, wait_s: float = 2.0
    ) -> RuntimeHealth:
        supervisor = find_supervisor(intern_id)
        if supervisor is None or (boot_id is not None and supervisor.boot_id != boot_id):
            return report_exit(intern_id, supervisor, describe_end(intern_id))
        return ask_health(supervisor.access(), str(supervisor.boot_id), wait_s=wait_s)

    def runtimes(self) -> list[Runtime]:
        return [supervisor.runtime() for supervisor in list_supervisors()]

    def log_tail(self, intern_id: UUID, *, lines: int = 100) -> list[str]:
        try:
            with (disk.intern_folder(intern_id) / "agent.log").open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_BYTES_READ))
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return []
        return list(deque(text.splitlines(), maxlen=lines))

    def isolation(self) -> Isolation:
        """What keeps runtimes started now from the host."""
        return SANDBOXES.look()

    def find_agent(self, intern_id: UUID) -> AgentAccess | None:
        supervisor = find_supervisor(intern_id)
        return None if supervisor is None else supervisor.access()


def _start(plan: BootPlan) -> SupervisorHandle:
    """Start a supervisor with its agent. Raises `StartFailed`."""
    try:
        isolation = SANDBOXES.isolation()
        place = disk.make_disk(plan.intern_id)
        uid = None if isolation.is_none else disk.assign_owner(plan.intern_id)
    except SandboxMissing as error:
        raise StartFailed(str(error)) from error
    except OSError as error:
        raise StartFailed(f"the disk could not be made: {error.strerror}") from error
    return start_supervisor(plan, _build_orders(plan, place, uid, isolation))


def _build_orders(plan: BootPlan, place: Path, uid: int | None, isolation: Isolation) -> JsonObject:
    limits = {
        "open_files": OPEN_FILES,
        # A single file fills no more than the disk, however fast it is written.
        "file_bytes": min(settings.INTERN_FILE_BYTES, settings.INTERN_DISK_BYTES),
        "memory_bytes": settings.INTERN_MEMORY_BYTES,
    }
    if isolation.is_none:
        where = {"home": str(place), "gateway_socket": f"{SOCKETS}/gateway.sock"}
        started = {
            "command": [sys.executable, "-s", "-P", "-m", "interns.agent"],
            "environment": {
                "PATH": os.defpath,
                "LANG": "C.UTF-8",
                "HOME": str(place / "workspace"),
                "PYTHONPATH": str(PROJECT),
            },
            "cwd": str(place / "workspace"),
        }
    else:
        where = {"home": INSIDE_HOME, "gateway_socket": INSIDE_SOCKET}
        command = build_agent_command(place, uid, egress=settings.INTERN_EGRESS)
        started = {"command": command, "environment": {}, "cwd": "/"}
    agent = {"isolation": isolation.name, **where}
    warning = f"{NO_ISOLATION_TEXT}: {isolation.reason}" if isolation.is_none else ""
    return {**build_orders(plan, agent), **started, "limits": limits, "warning": warning}
