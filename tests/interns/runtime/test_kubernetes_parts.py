"""What the kubernetes driver does without a cluster: disks come, Pods say why, doors are closed."""

import io
import json
import threading
from http.client import HTTPConnection
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from interns.runtime.disk_archive import pack
from interns.runtime.driver import AgentAddress, ArchiveFailed
from tests.interns.runtime.bench import wait_until

pytest.importorskip("kubernetes", reason="the extra kubernetes is not installed")


def test_a_disk_is_filled_as_its_archive_comes(tmp_path: Path) -> None:
    from interns.runtime.cluster.inside import DiskServer
    from interns.runtime.cluster.pods import DiskReader

    source, disk = tmp_path / "source", tmp_path / "volume" / "disk"
    source.mkdir()
    disk.parent.mkdir()
    (source / "a").write_bytes(bytes(3 * 1_048_576))
    (source / "b").write_text("last")
    archive = io.BytesIO()
    pack(source, archive)
    content = archive.getvalue()
    server = DiskServer(("127.0.0.1", 0), "token", disk)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    connection.putrequest("POST", "/disk")
    connection.putheader("Authorization", "Bearer token")
    connection.putheader("Content-Length", str(len(content)))
    connection.endheaders(content[: 2 * 1_048_576])
    assert wait_until(lambda: (disk / "a").exists())
    connection.send(content[2 * 1_048_576 :])
    assert json.loads(connection.getresponse().read()) == {"files": 2}
    connection.close()
    assert [path.name for path in disk.parent.iterdir()] == ["disk"]
    # Whoever sends hears what was wrong, and not that nobody listens.
    address = AgentAddress(host="127.0.0.1", port=server.server_port)
    with (
        DiskReader(address, "token") as reader,
        pytest.raises(ArchiveFailed, match="File exists"),
    ):
        reader.read_files("POST", "/disk", archive)
    server.shutdown()
    server.server_close()


def test_why_one_does_not_run() -> None:
    from interns.runtime.cluster.pods import find_end, find_hindrance

    unplaced = {"type": "PodScheduled", "status": "False", "message": "no memory"}
    waiting = {"name": "agent", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    for status, why in (
        ({"conditions": [unplaced]}, "no node: no memory"),
        ({"containerStatuses": [waiting]}, "ImagePullBackOff"),
        ({"phase": "Pending"}, "the Pod is Pending"),
    ):
        pod = {"metadata": {}, "status": status}
        assert find_end(pod) is None
        assert why in find_hindrance(pod)
    assert "Evicted" in str(find_end({"status": {"reason": "Evicted", "phase": "Failed"}}))


def test_the_door_of_an_intern(settings: Any) -> None:
    from interns.runtime.cluster.objects import build_policy

    closed = build_policy(uuid4())["spec"]
    settings.INTERN_EGRESS, settings.INTERN_PORT = True, 8001
    opened = build_policy(uuid4())["spec"]
    # Closed, not even names are asked for.
    [web] = closed["egress"]
    assert web["ports"] == [{"protocol": "TCP", "port": "http"}]
    assert opened["egress"][0]["ports"] == [{"protocol": "TCP", "port": "agents"}]
    assert closed["ingress"][0]["ports"] == [{"protocol": "TCP", "port": 8700}]
    outside = opened["egress"][-1]
    assert [each["port"] for each in outside["ports"]] == [80, 443]
    private = [ip_network(each) for each in outside["to"][0]["ipBlock"]["except"]]
    for address in ("169.254.169.254", "168.63.129.16", "192.0.0.192", "239.0.0.1", "255.0.0.1"):
        assert any(ip_address(address) in each for each in private), address
