"""Runtimes of interns on whichever machine they are: on this one by its driver, on another one
through a web process there."""

import time
from typing import Final
from uuid import UUID

from django.conf import settings

from gateway.database.db import Lane, run_queries
from gateway.eventloop import run_in_thread
from gateway.http.errors import MalformedJson
from gateway.http.jsonio import loads
from gateway.outbound.errors import OutboundError
from interns.models import Intern, InternHost, Status
from interns.runtime.client import ANSWER_BYTES_MAX, AgentClient, send_request
from interns.runtime.disk import DiskUse, measure_disk
from interns.runtime.driver import AgentAccess, AgentAddress, Agents, ChatRefused, current_driver
from interns.runtime.tunnel import Tunnel, Way

_WAIT_S: Final = 5.0
_LOG_BYTES_MAX: Final = 1_048_576


class RemoteAgents(AgentClient):
    """Runtimes of another machine. `url` leads to its web processes; "" leads nowhere."""

    def __init__(self, url: str) -> None:
        self._url = url

    def find_agent(self, intern_id: UUID) -> AgentAccess | None:
        return self._find(intern_id, "agent")

    def find_page(self, intern_id: UUID) -> AgentAccess | None:
        """As `find_agent`, for requests that are not to have the runtime's token."""
        return self._find(intern_id, "page")

    def log_tail(self, intern_id: UUID, *, lines: int = 100) -> list[str]:
        found = self._read(intern_id, "log", f"/{lines}", bytes_max=_LOG_BYTES_MAX)
        return [str(line) for line in found] if isinstance(found, list) else []

    def measure_disk(self, intern_id: UUID) -> DiskUse | None:
        """As `measure_disk`, on the disk's machine. None where that one does not answer."""
        found = self._read(intern_id, "disk", "", bytes_max=ANSWER_BYTES_MAX)
        return DiskUse(*found) if isinstance(found, list) and len(found) == 3 else None

    def _find(self, intern_id: UUID, way: Way) -> AgentAccess | None:
        if not self._url:
            return None
        tunnel = Tunnel(self._url, str(intern_id), way)
        return AgentAccess(AgentAddress(tunnel=tunnel), token="")

    def _read(self, intern_id: UUID, way: Way, path: str, *, bytes_max: int) -> object:
        access = self._find(intern_id, way)
        if access is None:
            return None
        try:
            reply = send_request(
                access,
                method="GET",
                path=path,
                headers=[],
                body=b"",
                deadline=time.monotonic() + _WAIT_S,
                body_bytes_max=bytes_max,
            )
            with reply:
                return loads(reply.read_all())
        except (ChatRefused, OutboundError, MalformedJson):
            return None


def reach_agents(intern: Intern) -> Agents:
    """What talks to the intern's runtime."""
    return current_driver() if intern.host == settings.INTERN_HOST else _reach_host(intern.host)


def find_page(intern: Intern) -> AgentAccess | None:
    """Where the runtime's public pages are, None where none is known."""
    if intern.host == settings.INTERN_HOST:
        return current_driver().find_agent(intern.pk)
    return _reach_host(intern.host).find_page(intern.pk)


def measure_disk_of(intern: Intern) -> DiskUse | None:
    """What the intern's disk holds; None where it has none, or its machine does not answer."""
    name = intern.host if intern.status == Status.RUNNING else intern.disk_host
    if name != settings.INTERN_HOST:
        return _reach_host(name).measure_disk(intern.pk)
    # A disk may have thousands of files.
    return run_in_thread(lambda: measure_disk(intern.pk))


def _reach_host(name: str) -> RemoteAgents:
    rows = InternHost.objects.filter(name=name).values_list("url", flat=True)
    return RemoteAgents(run_queries(Lane.READ, rows.first) or "")
