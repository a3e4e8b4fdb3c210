"""The node of `tests.interns.cluster`. Each container of a Pod is a process in bubblewrap, with the
mounts that its Pod says and nothing else that it could write to."""

import base64
import itertools
import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.interns.cluster import Cluster, volumes
from tests.support.manage import PROJECT

Object = dict[str, Any]
_OWN = {"dev", "proc", "run", "tmp", "intern", "lost+found"}
_WAIT_S = 30.0


class Node:
    """Every Pod has an address of its own of this machine's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._numbers = itertools.count(1)

    def run(self, cluster: Cluster, pod: Object) -> None:
        name = pod["metadata"]["name"]
        address = f"127.77.1.{next(self._numbers)}"
        place = self.folder / f"{name}-{pod['metadata']['uid']}"
        running: list[subprocess.Popen[bytes]] = []
        try:
            if not self._fill(cluster, pod, place):
                return
            for side in pod["spec"].get("initContainers", ()):
                running.append(self._begin(side, pod, place, address))
                _await_port(address, side["startupProbe"]["tcpSocket"]["port"])
            [main] = pod["spec"]["containers"]
            running.append(self._begin(main, pod, place, address))
            if "readinessProbe" in main:
                _await_port(address, main["readinessProbe"]["tcpSocket"]["port"])
            ready = [{"type": "Ready", "status": "True"}]
            cluster.set_status(name, phase="Running", podIP=address, conditions=ready)
            self._await_end(cluster, pod, running[-1])
        finally:
            self._end(running)
            if _is_asked_to_end(cluster, pod):
                cluster.end_pod(name)
            shutil.rmtree(place, ignore_errors=True)

    def read_log(self, name: str, lines: int) -> bytes:
        file = self.folder / f"{name}.log"
        return b"\n".join(file.read_bytes().split(b"\n")[-lines - 1 :]) if file.exists() else b""

    def _fill(self, cluster: Cluster, pod: Object, place: Path) -> bool:
        """Make the Pod's volumes, once what they are of is there."""
        [claim] = volumes(pod, "persistentVolumeClaim")
        claim_name = claim["persistentVolumeClaim"]["claimName"]
        [orders] = volumes(pod, "secret")
        secret = None
        while secret is None or cluster.find("persistentvolumeclaims", claim_name) is None:
            if _is_asked_to_end(cluster, pod):
                return False
            secret = cluster.find("secrets", orders["secret"]["secretName"])
            with cluster.changed:
                cluster.changed.wait(0.05)
        # A disk of the claim's life, with what a file system has in its root.
        uid = cluster.objects["persistentvolumeclaims", claim_name]["metadata"]["uid"]
        disk = self.folder / f"disk-{uid}"
        (disk / "lost+found").mkdir(parents=True, exist_ok=True)
        (disk / "lost+found").chmod(0)
        place.mkdir()
        (place / "disk").symlink_to(disk)
        (place / "orders").mkdir()
        for key, value in secret["data"].items():
            (place / "orders" / key).write_bytes(base64.b64decode(value))
        for volume in volumes(pod, "emptyDir"):
            (place / volume["name"]).mkdir()
            (place / volume["name"]).chmod(0o777)
        return True

    def _begin(
        self, container: Object, pod: Object, place: Path, address: str
    ) -> "subprocess.Popen[bytes]":
        words = ["bwrap", "--die-with-parent", "--unshare-pid", "--unshare-ipc"]
        for entry in sorted(Path("/").iterdir()):
            if entry.name not in _OWN:
                link = ["--symlink", str(entry.readlink())] if entry.is_symlink() else None
                words += [*(link or ["--ro-bind", str(entry)]), str(entry)]
        words += ["--dev", "/dev", "--proc", "/proc"]
        for mount in container["volumeMounts"]:
            option = "--ro-bind" if mount.get("readOnly") else "--bind"
            words += [option, str((place / mount["name"]).resolve()), mount["mountPath"]]
        words += ["--chdir", container.get("workingDir", "/"), "--cap-drop", "ALL", "--clearenv"]
        given = {"PATH": os.defpath, "PYTHONPATH": str(PROJECT)}
        for each in container.get("env", ()):
            given[each["name"]] = each.get("value", address)
        for key, value in given.items():
            words += ["--setenv", key, value]
        assert container["command"][0] == "python3"
        words += ["--remount-ro", "/", "--", sys.executable, *container["command"][1:]]
        with (self.folder / f"{pod['metadata']['name']}.log").open("ab") as log:
            return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def _await_end(self, cluster: Cluster, pod: Object, main: "subprocess.Popen[bytes]") -> None:
        name = pod["metadata"]["name"]
        while not _is_asked_to_end(cluster, pod):
            if main.poll() is not None:
                ended = {"terminated": {"exitCode": main.returncode, "reason": "Error"}}
                cluster.set_status(
                    name, phase="Failed", containerStatuses=[{"name": "agent", "state": ended}]
                )
            with cluster.changed:
                cluster.changed.wait(0.05)

    def _end(self, running: "list[subprocess.Popen[bytes]]") -> None:
        for process in reversed(running):
            # What runs inside goes with its first process.
            process.kill()
            process.wait()


def _is_asked_to_end(cluster: Cluster, pod: Object) -> bool:
    now = cluster.find("pods", pod["metadata"]["name"])
    if now is None or now["metadata"]["uid"] != pod["metadata"]["uid"]:
        return True
    return "deletionTimestamp" in now["metadata"]


def _await_port(address: str, port: int) -> None:
    deadline = time.monotonic() + _WAIT_S
    while time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection((address, port), 1):
            return
        time.sleep(0.05)
