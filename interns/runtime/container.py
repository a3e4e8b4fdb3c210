"""The `container` driver: each intern in a container of Docker or Podman on this machine.

The container has no network: its agent listens on a Unix socket and asks the gateway over another.
A supervisor beside it passes calls on in both directions and alone holds the intern's API key.
Labels say whose a container or a volume is; by them leaks are found.
"""

import hashlib
import json
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any, BinaryIO, Final
from uuid import UUID

import docker
from django.conf import settings
from docker.errors import APIError, DockerException, NotFound
from docker.models.containers import Container
from requests.exceptions import RequestException

from gateway.sandbox.isolation import Isolation
from interns.runtime import disk
from interns.runtime.client import AgentClient, ask_health
from interns.runtime.disk_archive import repack
from interns.runtime.driver import (
    AgentAccess,
    ArchiveFailed,
    BootPlan,
    NoDisk,
    Runtime,
    RuntimeFailed,
    RuntimeHealth,
    StartFailed,
    StopFailed,
)
from interns.runtime.image import ensure_image
from interns.runtime.sandbox import TMP_BYTES
from interns.runtime.supervisor import DOOR, INSIDE
from interns.runtime.supervisor_handle import (
    SupervisorHandle,
    await_supervisor,
    build_orders,
    find_supervisor,
    list_supervisors,
    report_exit,
    start_supervisor,
    stop_supervisor,
)

LABEL: Final = "routing-gateway.intern"
BOOT_LABEL: Final = "routing-gateway.boot"
HOME_LABEL: Final = "routing-gateway.home"
USER: Final = 10001
ENGINE_S: Final = 30
# For whoever only looks: a probe of many interns, a page.
_LOOK_S: Final = 3
FOLDER: Final = "/run/gateway"
KILL_S: Final = 1
OPEN_FILES: Final = 1024
USER_PROCESSES: Final = 16_384
_ENGINE_ERRORS: Final = (DockerException, RequestException)


class ContainerDriver(AgentClient):
    """Runtimes as containers of the engine that `INTERN_CONTAINER_HOST` (else the environment's
    `DOCKER_HOST`) names. The engine must share this machine's files."""

    name = "container"

    @cached_property
    def _engine(self) -> docker.DockerClient:
        return _connect(ENGINE_S)

    @cached_property
    def _watched_engine(self) -> docker.DockerClient:
        return _connect(_LOOK_S)

    # --- Lifecycle --------------------------------------------------------------------------------

    def start(self, plan: BootPlan) -> Runtime:
        try:
            return self._start(plan)
        except RuntimeFailed:
            raise
        except (*_ENGINE_ERRORS, OSError) as error:
            raise StartFailed(f"the container engine: {error}"[:500]) from error

    def _start(self, plan: BootPlan) -> Runtime:
        supervisor = await_supervisor(plan.intern_id)
        container = self._find_container(plan.intern_id)
        if (
            supervisor
            and supervisor.boot_id == plan.boot_id
            and container
            and container.status == "running"
            and container.labels.get(BOOT_LABEL) == str(plan.boot_id)
        ):
            return self._build_runtime(supervisor, container)
        image = ensure_image(self._engine)
        self.stop(plan.intern_id)
        disk.make_folder(plan.intern_id)
        agent = {
            "isolation": self.name,
            "home": "/intern",
            "gateway_socket": f"{FOLDER}/{DOOR}/gateway.sock",
            "listen_path": f"{FOLDER}/{INSIDE}/agent.sock",
        }
        orders = build_orders(plan, agent)
        supervisor = start_supervisor(plan, orders)
        config = supervisor.sockets / INSIDE / "config.json"
        config.write_text(json.dumps(orders["agent"]), encoding="utf-8")
        config.chmod(0o644)
        container = self._create(plan, supervisor, image)
        container.start()
        return self._build_runtime(supervisor, container)

    def _create(self, plan: BootPlan, supervisor: SupervisorHandle, image: str) -> Container:
        volume = self._ensure_volume(plan.intern_id)
        labels = {**self._build_labels(plan.intern_id), BOOT_LABEL: str(plan.boot_id)}
        container: Container = self._engine.containers.create(
            image,
            name=volume,
            labels=labels,
            user=f"{USER}:{USER}",
            network_mode=None if settings.INTERN_EGRESS else "none",
            read_only=True,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            mem_limit=settings.INTERN_MEMORY_BYTES,
            memswap_limit=settings.INTERN_MEMORY_BYTES,
            pids_limit=settings.INTERN_PROCESSES,
            nano_cpus=int(settings.INTERN_CPUS * 1e9),
            tmpfs={"/tmp": f"rw,mode=1777,size={TMP_BYTES}"},  # noqa: S108 - Its own, inside.
            volumes={
                volume: {"bind": "/intern", "mode": "rw"},
                str(supervisor.sockets / DOOR): {"bind": f"{FOLDER}/{DOOR}", "mode": "ro"},
                str(supervisor.sockets / INSIDE): {"bind": f"{FOLDER}/{INSIDE}", "mode": "rw"},
            },
            ulimits=[
                docker.types.Ulimit(name="nofile", soft=OPEN_FILES, hard=OPEN_FILES),
                docker.types.Ulimit(name="core", soft=0, hard=0),
                # Of all containers' users together; each has its own limit above.
                docker.types.Ulimit(name="nproc", soft=USER_PROCESSES, hard=USER_PROCESSES),
            ],
        )
        return container

    def stop(self, intern_id: UUID, *, boot_id: UUID | None = None, wait_s: float = 8.0) -> bool:
        try:
            container = self._find_container(intern_id)
            if container and boot_id and container.labels.get(BOOT_LABEL) != str(boot_id):
                return False
            was_there = bool(container and container.status == "running")
            if container:
                # Its volume stays.
                with suppress(NotFound, APIError):
                    container.stop(timeout=max(KILL_S, int(wait_s) - KILL_S))
                with suppress(NotFound):
                    container.remove(force=True)
        except _ENGINE_ERRORS as error:
            raise StopFailed(f"the container engine: {error}"[:500]) from error
        return stop_supervisor(intern_id, boot_id=boot_id, wait_s=wait_s) or was_there

    def destroy(self, intern_id: UUID) -> None:
        self.stop(intern_id)
        try:
            with suppress(NotFound):
                self._engine.volumes.get(self._volume_name(intern_id)).remove(force=True)
            disk.remove_folder(intern_id)
        except (*_ENGINE_ERRORS, OSError) as error:
            raise StopFailed(f"the disk could not be removed: {error}"[:500]) from error

    def health(
        self, intern_id: UUID, *, boot_id: UUID | None = None, wait_s: float = 2.0
    ) -> RuntimeHealth:
        supervisor = find_supervisor(intern_id)
        if supervisor is None or (boot_id is not None and supervisor.boot_id != boot_id):
            return report_exit(intern_id, supervisor, "the runtime's keeper is gone")
        # A container that answers runs, whatever the engine says or does not say.
        health = ask_health(supervisor.access(), str(supervisor.boot_id), wait_s=wait_s)
        if health.ok:
            return health
        try:
            container = self._find_container(intern_id, self._watched_engine)
        except _ENGINE_ERRORS as error:
            detail = f"the container engine: {error}"[:500]
            return RuntimeHealth(ok=False, is_unknown=True, detail=detail)
        if container is None or container.status not in ("running", "created"):
            state = container.attrs["State"] if container else {}
            detail = f"the container ended with status {state.get('ExitCode', 'unknown')}"
            return RuntimeHealth(ok=False, exited=True, detail=detail)
        return health

    def runtimes(self) -> list[Runtime]:
        try:
            found = self._engine.containers.list(
                all=True, filters={"label": [f"{HOME_LABEL}={self._hash_home()}", LABEL]}
            )
        except _ENGINE_ERRORS as error:
            raise RuntimeFailed(f"the container engine: {error}"[:500]) from error
        running = {UUID(each.labels[LABEL]): each for each in found if each.status == "running"}
        keeping = {supervisor.intern_id: supervisor for supervisor in list_supervisors()}
        seen = []
        for intern_id, container in running.items():
            boot = container.labels.get(BOOT_LABEL)
            facts = {"container": container.id}
            seen.append(Runtime(intern_id, UUID(boot) if boot else None, facts))
        # A supervisor without its container is half a runtime, and just as much a leak.
        lone = [
            supervisor.runtime()
            for intern_id, supervisor in keeping.items()
            if intern_id not in running
        ]
        return seen + lone

    def log_tail(self, intern_id: UUID, *, lines: int = 100) -> list[str]:
        with suppress(*_ENGINE_ERRORS):
            if container := self._find_container(intern_id, self._watched_engine):
                text: bytes = container.logs(tail=lines)
                return text.decode("utf-8", "replace").splitlines()
        return []

    def isolation(self) -> Isolation:
        """What keeps runtimes from the host."""
        return Isolation(self.name)

    def find_agent(self, intern_id: UUID) -> AgentAccess | None:
        supervisor = find_supervisor(intern_id)
        return None if supervisor is None else supervisor.access()

    # --- The disk ---------------------------------------------------------------------------------

    def has_disk(self, intern_id: UUID) -> bool:
        try:
            self._engine.volumes.get(self._volume_name(intern_id))
        except NotFound:
            return False
        except _ENGINE_ERRORS as error:
            raise StartFailed(f"the container engine: {error}"[:500]) from error
        return True

    def archive(self, intern_id: UUID, into: BinaryIO) -> int:
        try:
            with self._hold_disk(intern_id) as holder, tempfile.TemporaryFile() as spooled:
                pieces, _ = holder.get_archive("/intern/.")
                for piece in pieces:
                    spooled.write(piece)
                spooled.seek(0)
                return repack(spooled, into)
        except (*_ENGINE_ERRORS, OSError) as error:
            raise ArchiveFailed("the disk could not be read") from error

    def restore(self, intern_id: UUID, archive: BinaryIO) -> int:
        try:
            if find_supervisor(intern_id) is not None:
                raise ArchiveFailed("the intern has a runtime")
            self._ensure_volume(intern_id)
            with self._hold_disk(intern_id) as holder, tempfile.TemporaryFile() as spooled:
                files = _change_owner(archive, spooled)
                spooled.seek(0)
                holder.put_archive("/intern", spooled)
                return files
        except (*_ENGINE_ERRORS, OSError, tarfile.TarError) as error:
            raise ArchiveFailed(f"the archive could not be put back: {error}"[:500]) from error

    @contextmanager
    def _hold_disk(self, intern_id: UUID) -> Iterator[Container]:
        """A container with the intern's disk that never runs. Raises `ArchiveFailed`."""
        try:
            volume = self._engine.volumes.get(self._volume_name(intern_id))
        except NotFound as error:
            raise NoDisk from error
        holder = self._engine.containers.create(
            ensure_image(self._engine),
            network_mode="none",
            labels={HOME_LABEL: self._hash_home()},
            volumes={volume.name: {"bind": "/intern", "mode": "rw"}},
        )
        try:
            yield holder
        finally:
            holder.remove(force=True)

    # --- Names ------------------------------------------------------------------------------------

    def _hash_home(self) -> str:
        """This installation, among others that use the same engine."""
        return hashlib.sha256(str(settings.GATEWAY_HOME).encode()).hexdigest()[:16]

    def _build_labels(self, intern_id: UUID) -> dict[str, str]:
        return {LABEL: str(intern_id), HOME_LABEL: self._hash_home()}

    def _volume_name(self, intern_id: UUID) -> str:
        return f"gateway-intern-{self._hash_home()[:8]}-{intern_id}"

    def _ensure_volume(self, intern_id: UUID) -> str:
        """The intern's volume, made where there is none; its name."""
        name = self._volume_name(intern_id)
        try:
            self._engine.volumes.get(name)
        except NotFound:
            self._engine.volumes.create(name, labels=self._build_labels(intern_id))
        return name

    def _find_container(
        self, intern_id: UUID, engine: docker.DockerClient | None = None
    ) -> Container | None:
        try:
            name = self._volume_name(intern_id)
            found: Container = (engine or self._engine).containers.get(name)
        except NotFound:
            return None
        return found

    def _build_runtime(self, supervisor: SupervisorHandle, container: Container) -> Runtime:
        runtime = supervisor.runtime()
        facts = runtime.facts | {
            "container": container.id,
            "image": container.attrs.get("Image", ""),
        }
        return Runtime(runtime.intern_id, runtime.boot_id, facts)


def _connect(wait_s: int) -> docker.DockerClient:
    host: str = settings.INTERN_CONTAINER_HOST
    if host:
        return docker.DockerClient(base_url=host, timeout=wait_s)
    return docker.from_env(timeout=wait_s)


def _change_owner(archive: BinaryIO, into: BinaryIO) -> int:
    """The archive again, with the agent as its files' owner. How many files."""
    count = 0
    source = tarfile.open(fileobj=archive, mode="r:")  # noqa: SIM115 - It is the caller's file.
    with source, tarfile.open(fileobj=into, mode="w", format=tarfile.PAX_FORMAT) as target:
        for entry in source:
            if entry.name.startswith("/") or ".." in entry.name.split("/"):
                raise ArchiveFailed(f"not an intern's disk: {entry.name}")
            entry.uid = entry.gid = USER
            content: Any = source.extractfile(entry) if entry.isreg() else None
            target.addfile(entry, content)
            count += entry.isreg()
    return count
