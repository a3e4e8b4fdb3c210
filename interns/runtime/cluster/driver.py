"""The `kubernetes` driver: each intern a Pod and the claim of its disk, in one namespace.

The name of an intern's Pod is its fence, as the cluster has no two of a name. A deleted Pod keeps
it until its node has said that all of it has ended. Nothing here deletes by force.
"""

import base64
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from ipaddress import ip_address
from typing import BinaryIO, Final
from urllib.parse import urlsplit
from uuid import UUID, uuid4

from django.conf import settings

from gateway.http.jsonio import JsonObject, loads
from interns.runtime.client import AgentClient, ask_health
from interns.runtime.cluster import objects, pods
from interns.runtime.cluster.api import ClusterApi, ClusterFailed, HistoryGone, ObjectConflict
from interns.runtime.cluster.inside import DISK, DOOR, DOOR_PORT, INSIDE, ORDERS_FILE, RUN
from interns.runtime.cluster.pods import DiskReader
from interns.runtime.driver import (
    AgentAccess,
    AgentAddress,
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
from interns.runtime.supervisor_handle import build_orders

# What a node takes to end a Pod whose programs did not listen, and to say so.
END_S: Final = 30.0
READER_S: Final = 120.0
_CLAIM_PAUSE_S: Final = 0.2
_COPY_BYTES: Final = 1_048_576
_TOKENS_MAX: Final = 10_000


class KubernetesDriver(AgentClient):
    """Runtimes as Pods of `INTERN_KUBERNETES_NAMESPACE`, with `INTERN_CONTAINER_IMAGE`."""

    name = "kubernetes"

    def __init__(self) -> None:
        self._tokens: dict[UUID, str] = {}
        # Threads that probe begin at once, and each watch has a thread of its own.
        self._lock = threading.RLock()
        self._api: ClusterApi | None = None
        self._watch: pods.PodWatch | None = None

    @property
    def api(self) -> ClusterApi:
        """Raises `ClusterFailed`."""
        with self._lock:
            if self._api is None:
                self._api = ClusterApi()
            return self._api

    @property
    def _pods(self) -> pods.PodWatch:
        with self._lock:
            if self._watch is None:
                self._watch = pods.PodWatch(self.api)
            return self._watch

    def close(self) -> None:
        """End the stream of changes and all connections."""
        self._pods.close()
        self.api.close()

    # --- Lifecycle --------------------------------------------------------------------------------

    def start(self, plan: BootPlan) -> Runtime:
        if not settings.INTERN_CONTAINER_IMAGE:
            raise ImageUnavailable("INTERN_CONTAINER_IMAGE names no image")
        try:
            pod = self.api.read("Pod", objects.name_object(plan.intern_id))
            if pod is None or not self._is_adoptable(pod, plan):
                self.stop(plan.intern_id)
                pod = self._create_agent(plan)
        except ObjectConflict as error:
            raise StartFailed("another runtime of this intern has begun") from error
        except (ClusterFailed, OSError) as error:
            raise StartFailed(f"the cluster: {error}"[:500]) from error
        return _build_runtime(pod)

    def _is_adoptable(self, pod: JsonObject, plan: BootPlan) -> bool:
        if not _is_agent(pod, plan.boot_id) or "deletionTimestamp" in pod["metadata"]:
            return False
        # Its creator may have died before it had its orders.
        name = objects.name_secret(plan.intern_id, plan.boot_id)
        return pods.find_end(pod) is None and self.api.read("Secret", name) is not None

    def _create_agent(self, plan: BootPlan) -> JsonObject:
        """Raises `ObjectConflict` where another agent was first."""
        try:
            return self._create(plan)
        except ObjectConflict:
            other = self.api.read("Pod", objects.name_object(plan.intern_id))
            if other is not None and _has_role(other, objects.AGENT):
                raise
        # The disk was to be archived meanwhile, which a boot makes worthless.
        if other is not None:
            self._end_pod(other)
        return self._create(plan)

    def _create(self, plan: BootPlan) -> JsonObject:
        intern_id, boot_id = plan.intern_id, plan.boot_id
        # Settings may have changed since there was one.
        self.api.delete("NetworkPolicy", objects.name_object(intern_id))
        self.api.create(objects.build_policy(intern_id))
        self._ensure_claim(intern_id)
        agent = {
            "isolation": "container",
            "home": DISK,
            "gateway_socket": f"{RUN}/{DOOR}/gateway.sock",
            "listen_path": f"{RUN}/{INSIDE}/agent.sock",
        }
        given = build_orders(plan, agent)
        orders = {name: given[name] for name in ("agent", "gateway_url", "api_key", "allowed")}
        aliases = _resolve_gateway(plan.gateway_url)
        body = objects.build_agent_pod(intern_id, boot_id, aliases=aliases)
        return self._create_pod(body, intern_id, boot_id, orders)

    def _create_pod(
        self, body: JsonObject, intern_id: UUID, boot_id: UUID, orders: JsonObject
    ) -> JsonObject:
        """The Pod waits for its Secret, which is made after it so that it belongs to it."""
        pod = self.api.create(body)
        try:
            self.api.create(objects.build_secret(intern_id, boot_id, pod, orders))
        except ClusterFailed:
            with suppress(ClusterFailed):
                self.api.delete("Pod", pod["metadata"]["name"], uid=pod["metadata"]["uid"])
            raise
        return pod

    def _ensure_claim(self, intern_id: UUID) -> None:
        claim = self.api.read("PersistentVolumeClaim", objects.name_object(intern_id))
        if claim is not None and "deletionTimestamp" in claim["metadata"]:
            self._await_claim_end(claim)
            claim = None
        if claim is None:
            with suppress(ObjectConflict):
                self.api.create(objects.build_claim(intern_id))

    def _await_claim_end(self, claim: JsonObject) -> None:
        """The cluster keeps a claim until no Pod has it. Raises `StopFailed`."""
        name, uid = claim["metadata"]["name"], claim["metadata"]["uid"]
        deadline = time.monotonic() + END_S
        while (now := self.api.read("PersistentVolumeClaim", name)) is not None:
            if now["metadata"]["uid"] != uid:
                return
            if time.monotonic() >= deadline:
                raise StopFailed(f"claim {name} does not end; something may have its disk")
            time.sleep(_CLAIM_PAUSE_S)

    def stop(self, intern_id: UUID, *, boot_id: UUID | None = None, wait_s: float = 8.0) -> bool:
        name = objects.name_object(intern_id)
        try:
            pod = self.api.read("Pod", name)
            if pod is None or (boot_id is not None and not _is_agent(pod, boot_id)):
                return False
            self._end_pod(pod, wait_s)
        except ClusterFailed as error:
            raise StopFailed(f"the cluster: {error}"[:500]) from error
        return pods.find_end(pod) is None and _has_role(pod, objects.AGENT)

    def _end_pod(self, pod: JsonObject, wait_s: float = 8.0) -> None:
        """That one with its Secret, and no other of its name. Raises `StopFailed` and
        `ClusterFailed`."""
        name, labels = pod["metadata"]["name"], pod["metadata"]["labels"]
        with suppress(ObjectConflict):
            uid = pod["metadata"]["uid"]
            self.api.delete("Pod", name, uid=uid, grace_s=max(1, round(wait_s)))
        self._await_end(pod, wait_s + END_S)
        self.api.delete_secrets(
            f"{objects.INTERN_LABEL}={labels[objects.INTERN_LABEL]},"
            f"{objects.BOOT_LABEL}={labels[objects.BOOT_LABEL]}"
        )

    def _await_end(self, pod: JsonObject, wait_s: float) -> None:
        """Until the Pod is no more. Raises `StopFailed`."""
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        deadline = time.monotonic() + wait_s
        while (left_s := deadline - time.monotonic()) > 0:
            now = self.api.read("Pod", name)
            if now is None or now["metadata"]["uid"] != uid:
                return
            version = now["metadata"]["resourceVersion"]
            with suppress(HistoryGone):
                for event in self.api.watch_pods(version, wait_s=max(1, round(left_s)), name=name):
                    if event["type"] == "DELETED":
                        return
        raise StopFailed(f"Pod {name} does not end; its node may be gone")

    def destroy(self, intern_id: UUID) -> None:
        self.stop(intern_id)
        name = objects.name_object(intern_id)
        try:
            self.api.delete_secrets(objects.select_intern(intern_id))
            self.api.delete("NetworkPolicy", name)
            claim = self.api.read("PersistentVolumeClaim", name)
            if claim is not None:
                self.api.delete("PersistentVolumeClaim", name, uid=claim["metadata"]["uid"])
                self._await_claim_end(claim)
        except ClusterFailed as error:
            raise StopFailed(f"the disk could not be removed: {error}"[:500]) from error

    # --- What runs --------------------------------------------------------------------------------

    def health(
        self, intern_id: UUID, *, boot_id: UUID | None = None, wait_s: float = 2.0
    ) -> RuntimeHealth:
        try:
            pod = self._pods.find(intern_id, boot_id)
            if pod is None or not _is_agent(pod, boot_id):
                return RuntimeHealth(ok=False, exited=True, detail="there is no Pod")
            if (end := pods.find_end(pod)) is not None:
                return RuntimeHealth(ok=False, exited=True, detail=end)
            access = self._build_access(pod) if pods.runs(pod) else None
        except ClusterFailed as error:
            return RuntimeHealth(ok=False, is_unknown=True, detail=f"the cluster: {error}"[:500])
        if access is None:
            return RuntimeHealth(ok=False, detail=pods.find_hindrance(pod)[:500])
        boot = pod["metadata"]["labels"][objects.BOOT_LABEL]
        return ask_health(access, boot, wait_s=wait_s)

    def runtimes(self) -> list[Runtime]:
        try:
            found, _ = self.api.list_pods(objects.AGENTS)
        except ClusterFailed as error:
            raise RuntimeFailed(f"the cluster: {error}"[:500]) from error
        return [_build_runtime(pod) for pod in found if pods.find_end(pod) is None]

    def log_tail(self, intern_id: UUID, *, lines: int = 100) -> list[str]:
        with suppress(ClusterFailed):
            text = self.api.read_log(objects.name_object(intern_id), objects.AGENT, lines)
            return text.decode("utf-8", "replace").splitlines()
        return []

    def find_agent(self, intern_id: UUID) -> AgentAccess | None:
        with suppress(ClusterFailed):
            pod = self._pods.find(intern_id)
            if pod is not None and _is_agent(pod, None) and pods.runs(pod):
                return self._build_access(pod)
        return None

    def _build_access(self, pod: JsonObject) -> AgentAccess | None:
        """None where its orders are gone. Raises `ClusterFailed`."""
        labels = pod["metadata"]["labels"]
        boot_id = UUID(labels[objects.BOOT_LABEL])
        if boot_id not in self._tokens:
            orders = self._read_orders(UUID(labels[objects.INTERN_LABEL]), boot_id)
            if orders is None:
                return None
            if len(self._tokens) >= _TOKENS_MAX:
                self._tokens.clear()
            self._tokens[boot_id] = orders["agent"]["token"]
        return AgentAccess(_build_address(pod), self._tokens[boot_id])

    def _read_orders(self, intern_id: UUID, boot_id: UUID) -> JsonObject | None:
        secret = self.api.read("Secret", objects.name_secret(intern_id, boot_id))
        if secret is None:
            return None
        orders: JsonObject = loads(base64.b64decode(secret["data"][ORDERS_FILE]))
        return orders

    # --- The disk ---------------------------------------------------------------------------------

    def has_disk(self, intern_id: UUID) -> bool:
        try:
            claim = self.api.read("PersistentVolumeClaim", objects.name_object(intern_id))
        except ClusterFailed as error:
            raise StartFailed(f"the cluster: {error}"[:500]) from error
        return claim is not None and "deletionTimestamp" not in claim["metadata"]

    def archive(self, intern_id: UUID, into: BinaryIO) -> int:
        try:
            if not self.has_disk(intern_id):
                raise NoDisk
            with self._open_reader(intern_id) as reader:
                reply = reader.ask("GET", "/disk")
                while piece := reply.read(_COPY_BYTES):
                    into.write(piece)
                return reader.read_files("GET", "/files")
        except ArchiveFailed:
            raise
        except (RuntimeFailed, ClusterFailed, HTTPException, OSError) as error:
            raise ArchiveFailed("the disk could not be read") from error

    def restore(self, intern_id: UUID, archive: BinaryIO) -> int:
        try:
            pod = self.api.read("Pod", objects.name_object(intern_id))
            if pod is not None and _has_role(pod, objects.AGENT):
                raise ArchiveFailed("the intern has a runtime")
            self._ensure_claim(intern_id)
            with self._open_reader(intern_id) as reader:
                return reader.read_files("POST", "/disk", archive)
        except ArchiveFailed:
            raise
        except (RuntimeFailed, ClusterFailed, HTTPException, OSError) as error:
            raise ArchiveFailed(f"the archive could not be put back: {error}"[:500]) from error

    @contextmanager
    def _open_reader(self, intern_id: UUID) -> Iterator[DiskReader]:
        """What has the disk while nothing else has. Raises `ArchiveFailed` where an agent has."""
        now = self.api.read("Pod", objects.name_object(intern_id))
        if now is not None and pods.find_end(now) is None and _has_role(now, objects.AGENT):
            raise ArchiveFailed("the intern has a runtime")
        # One that was left behind, or an agent's that has ended.
        if now is not None:
            self._end_pod(now)
        with suppress(ObjectConflict):
            # Without one of its own nobody reaches it.
            self.api.create(objects.build_policy(intern_id))
        boot_id, token = uuid4(), secrets.token_urlsafe(32)
        live_s = int(settings.INTERN_ARCHIVE_SECONDS + READER_S)
        body = objects.build_reader_pod(intern_id, boot_id, live_s=live_s)
        pod = self._create_pod(body, intern_id, boot_id, {"token": token})
        try:
            with DiskReader(_build_address(self._await_reader(pod)), token) as reader:
                yield reader
        finally:
            # By now an agent may have the name.
            self._end_pod(pod)

    def _await_reader(self, pod: JsonObject) -> JsonObject:
        """The Pod, once it is ready. Raises `ArchiveFailed`."""
        name, version = pod["metadata"]["name"], pod["metadata"]["resourceVersion"]
        for event in self.api.watch_pods(version, wait_s=round(READER_S), name=name):
            pod = event["object"]
            conditions = pod.get("status", {}).get("conditions", ())
            if any(c["type"] == "Ready" and c["status"] == "True" for c in conditions):
                return pod
            if event["type"] == "DELETED" or pods.find_end(pod) is not None:
                break
        raise ArchiveFailed(f"the disk cannot be had: {pods.find_hindrance(pod)}"[:500])


def _resolve_gateway(url: str) -> list[JsonObject]:
    """The gateway's name with its address, so that a Pod needs no names of the network. Raises
    `OSError`."""
    host = urlsplit(url).hostname or ""
    with suppress(ValueError):
        ip_address(host)
        return []
    found = {str(each[4][0]) for each in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    return [{"ip": ip, "hostnames": [host]} for ip in sorted(found)]


def _has_role(pod: JsonObject, role: str) -> bool:
    return bool(pod["metadata"]["labels"].get(objects.ROLE_LABEL) == role)


def _is_agent(pod: JsonObject, boot_id: UUID | None) -> bool:
    """Whether it is an agent's, of that boot where one is named."""
    label = pod["metadata"]["labels"].get(objects.BOOT_LABEL)
    return _has_role(pod, objects.AGENT) and (boot_id is None or label == str(boot_id))


def _build_address(pod: JsonObject) -> AgentAddress:
    ip = str(pod["status"]["podIP"])
    return AgentAddress(host=f"[{ip}]" if ":" in ip else ip, port=DOOR_PORT)


def _build_runtime(pod: JsonObject) -> Runtime:
    metadata = pod["metadata"]
    labels = metadata["labels"]
    facts = {"pod": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"]}
    return Runtime(UUID(labels[objects.INTERN_LABEL]), UUID(labels[objects.BOOT_LABEL]), facts)
