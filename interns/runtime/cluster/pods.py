"""Pods: those of all interns, from a stream of changes, and the one that has a disk."""

import logging
import os
import threading
from http.client import HTTPConnection
from typing import Any, BinaryIO, Final
from uuid import UUID

from gateway.http.errors import MalformedJson
from gateway.http.jsonio import JsonObject, loads
from interns.runtime.cluster.api import ClusterApi, ClusterFailed
from interns.runtime.cluster.objects import AGENTS, BOOT_LABEL, name_object
from interns.runtime.driver import AgentAddress, ArchiveFailed

log = logging.getLogger("gateway.interns")
_SILENCE_S: Final = 60.0
# A connection that has died unheard is noticed after this long.
_STREAM_S: Final = 60
_PAUSE_S: Final = 2.0


class PodWatch:
    """What is there and runs is known without a question, and while the cluster is silent what did
    when it was last heard. Whatever else is asked for: an end has to be certain."""

    def __init__(self, api: ClusterApi) -> None:
        self._api = api
        self._pods: dict[str, JsonObject] | None = None
        self._lock = threading.Lock()
        self._process = 0
        self._closed = threading.Event()

    def find(self, intern_id: UUID, boot_id: UUID | None = None) -> JsonObject | None:
        """The intern's Pod, of whichever boot; `boot_id` is the one that is expected. Raises
        `ClusterFailed`."""
        self._begin()
        name, pods = name_object(intern_id), self._pods
        found = pods.get(name) if pods is not None else None
        if found is not None and runs(found):
            boot = found["metadata"]["labels"][BOOT_LABEL]
            if boot_id is None or boot == str(boot_id):
                return found
        return self._api.read("Pod", name)

    def close(self) -> None:
        self._closed.set()

    def _begin(self) -> None:
        """A process that was forked has no thread of its parent's."""
        with self._lock:
            if self._process != os.getpid():
                self._process, self._pods = os.getpid(), None
                threading.Thread(target=self._follow, name="pods", daemon=True).start()

    def _follow(self) -> None:
        while not self._closed.is_set():
            try:
                self._follow_once()
            except ClusterFailed as error:
                log.warning("Changes of interns' Pods: %s", error)
            except Exception:
                # Nobody else would begin it again.
                log.exception("Changes of interns' Pods")
            self._closed.wait(_PAUSE_S)

    def _follow_once(self) -> None:
        """List, then apply changes for as long as the server remembers where it was."""
        items, version = self._api.list_pods(AGENTS)
        pods = self._pods = {pod["metadata"]["name"]: pod for pod in items}
        while not self._closed.is_set():
            for event in self._api.watch_pods(version, wait_s=_STREAM_S, selector=AGENTS):
                pod = event["object"]
                version = pod["metadata"]["resourceVersion"]
                if event["type"] == "DELETED":
                    pods.pop(pod["metadata"]["name"], None)
                elif event["type"] != "BOOKMARK":
                    pods[pod["metadata"]["name"]] = pod


def runs(pod: JsonObject) -> bool:
    """Whether its agent runs, as far as the cluster has heard, and nobody ends it."""
    if "deletionTimestamp" in pod["metadata"] or find_end(pod) is not None:
        return False
    status = pod.get("status", {})
    return status.get("phase") == "Running" and bool(status.get("podIP"))


def find_end(pod: JsonObject) -> str | None:
    """How its agent ended; None where it has not."""
    status = pod.get("status", {})
    for container in status.get("containerStatuses", ()):
        ended = container.get("state", {}).get("terminated")
        if ended:
            why = ended.get("reason") or "it ended"
            return f"the Pod ended: {why}, status {ended.get('exitCode', 'unknown')}"
    if status.get("phase") in ("Failed", "Succeeded"):
        return f"the Pod ended: {status.get('reason') or status['phase']}"
    return None


def find_hindrance(pod: JsonObject) -> str:
    """Why it does not run yet."""
    status = pod.get("status", {})
    if "deletionTimestamp" in pod["metadata"]:
        return "the Pod is being deleted"
    containers = (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ()))
    for container in containers:
        waiting = container.get("state", {}).get("waiting", {})
        if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            return f"the Pod waits: {waiting['reason']} {waiting.get('message', '')}".strip()
    for condition in status.get("conditions", ()):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return f"the Pod has no node: {condition.get('message', '')}"
    return f"the Pod is {status.get('phase', 'new')}"


class DiskReader:
    """The Pod that has an intern's disk, as the driver asks it: see `inside.DiskServer`."""

    def __init__(self, address: AgentAddress, token: str) -> None:
        host = address.host.strip("[]")
        self._connection = HTTPConnection(host, address.port, timeout=_SILENCE_S)
        self._headers = {"Authorization": f"Bearer {token}"}

    def __enter__(self) -> "DiskReader":
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()

    def ask(self, method: str, path: str, content: BinaryIO | None = None) -> Any:
        """The answer. Raises `ArchiveFailed`."""
        headers = self._headers
        if content is not None:
            length = content.seek(0, 2)
            content.seek(0)
            headers = {**headers, "Content-Length": str(length)}
        self._connection.request(method, path, body=content, headers=headers)
        reply = self._connection.getresponse()
        if reply.status != 200:
            raise ArchiveFailed(reply.read(1000).decode("utf-8", "replace"))
        return reply

    def read_files(self, method: str, path: str, content: BinaryIO | None = None) -> int:
        """How many files it says there were. Raises `ArchiveFailed`."""
        try:
            files = int(loads(self.ask(method, path, content).read())["files"])
        except (MalformedJson, LookupError, TypeError, ValueError) as error:
            raise ArchiveFailed("the disk's Pod does not say how many files there were") from error
        if files < 0:
            raise ArchiveFailed("the disk was not read whole")
        return files
