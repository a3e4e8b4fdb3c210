"""Redis Cluster: three primaries, and a replica of the one that has what the gateway keeps."""

import gc
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis
from kombu import Connection

import gateway.celery  # noqa: F401 - Its transport is what all processes use.
from gateway.environment.redis_url import (
    CLUSTER_SCHEME,
    SLOT_TAG,
    TLS_CLUSTER_SCHEME,
    build_broker,
    read_cluster_url,
)
from gateway.shared_cache import SharedCache
from tests.support import processes
from tests.support.certificates import write_certificate
from tests.support.gateways import StartGateway
from tests.support.postgres import free_port
from tests.support.tls_front import TlsFront
from tests.support.valkey import PASSWORD, QUOTED_PASSWORD, accepts, binary, wait

SLOTS = 16_384


class Cluster:
    """`primary` has the slot of the tag, `replica` follows it; the other two have what is left.
    With a certificate a front does TLS for each, and is what they tell others of."""

    def __init__(self, folder: Path, stack: ExitStack, certificate: Path | None) -> None:
        self._folder, self._stack = folder, stack
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        found = set[int]()
        while len(found) < 8:
            found.add(free_port())
        self.ports, bus_ports = list(found)[:4], list(found)[4:]
        # Nodes talk to each other ten thousand ports above, where nobody looked for a free one.
        self._bus_ports = dict(zip(self.ports, bus_ports, strict=True))
        self.primary, self.replica = self.ports[0], self.ports[3]
        # The primary comes last, so that one who knows of it has to be asked.
        self._known, scheme, query = {port: port for port in self.ports}, CLUSTER_SCHEME, ""
        self.front: TlsFront | None = None
        if certificate:
            self.front = stack.enter_context(TlsFront(certificate, self.ports))
            scheme, query = TLS_CLUSTER_SCHEME, f"?ssl_ca_certs={certificate}"
            self._known = self.front.ports
        ports = [1, *(self._known[port] for port in (*self.ports[1:], self.primary))]
        nodes = ",".join(f"127.0.0.1:{port}" for port in ports)
        self.url = f"{scheme}://:{QUOTED_PASSWORD}@{nodes}{query}"

    def start(self, *, node_timeout_ms: int) -> None:
        for port, bus_port in self._bus_ports.items():
            words = f"--port {port} --cluster-enabled yes --cluster-port {bus_port}".split()
            words += ["--cluster-node-timeout", str(node_timeout_ms)]
            words += ["--cluster-announce-port", str(self._known[port])]
            words += ["--cluster-config-file", f"{port}.conf", "--save", ""]
            words += ["--requirepass", PASSWORD, "--primaryauth", PASSWORD]
            words += ["--repl-diskless-sync-delay", "0", "--dir", str(self._folder)]
            log = self._folder / f"{port}.log"
            self._running[port] = processes.spawn([binary(), *words], log=log)
            self._stack.callback(processes.kill, self._running[port])
        wait(lambda: all(map(accepts, self.ports)), "the nodes")
        slot = int(self.ask(self.primary, "KEYSLOT", SLOT_TAG))
        shares = [range(slot, SLOTS), range(slot // 2), range(slot // 2, slot)]
        for port, share in zip(self.ports, shares, strict=False):
            self.ask(port, "ADDSLOTSRANGE", share.start, share.stop - 1)
        for number, port in enumerate(self.ports):
            self.ask(port, "SET-CONFIG-EPOCH", number + 1)
        for port in self.ports[1:]:
            self.ask(self.primary, "MEET", "127.0.0.1", self._known[port], self._bus_ports[port])
        wait(lambda: all(self._is_whole(port) for port in self.ports), "a whole cluster")
        self.ask(self.replica, "REPLICATE", self.ask(self.primary, "MYID").decode())
        wait(lambda: len(self.client(self.primary).role()[2]) == 1, "the replica")

    def client(self, port: int) -> "redis.Redis":
        client = redis.Redis(port=port, password=PASSWORD)
        self._stack.callback(client.close)
        return client

    def ask(self, port: int, *words: object) -> Any:
        return self.client(port).execute_command("CLUSTER " + str(words[0]), *words[1:])

    def _is_whole(self, port: int) -> bool:
        facts = self.ask(port, "INFO")
        return bool(facts["cluster_state"] == "ok" and facts["cluster_known_nodes"] == "4")

    def kill_primary(self) -> None:
        """Returns once the replica is what it was."""
        processes.kill(self._running[self.primary])
        wait(lambda: self.client(self.replica).role()[0] == b"master", "the other primary")


@pytest.fixture(params=["clear", "tls"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    certificate = write_certificate(tmp_path / "c.pem") if request.param == "tls" else None
    with ExitStack() as stack:
        cluster = Cluster(tmp_path, stack, certificate)
        yield cluster
        if cluster.front:
            assert cluster.front.encrypted.keys() >= {cluster.primary, cluster.replica}


def test_hints_and_jobs_are_on_one_node_and_follow_it(cluster: Cluster) -> None:
    # So long that a busy machine brings about no failover but the one that is asked for.
    cluster.start(node_timeout_ms=15_000)
    hints = SharedCache(cluster.url, timeout_s=2)
    url, options = build_broker(cluster.url)
    key = f"{SLOT_TAG}:hint"

    def write(value: str) -> bool:
        return hints.run(lambda store: bool(store.set(key, value)), default=False, knocks=True)

    wait(lambda: write("one"), "a hint")
    with Connection(url, transport_options=options) as jobs:
        queue = jobs.SimpleQueue("jobs")
        queue.put("first")
        channel: Any = jobs.channel()
        assert (channel._has_queue("others"), channel._has_queue("jobs")) == (False, True)
        queue.close()
    assert cluster.client(cluster.primary).llen(f"{SLOT_TAG}:jobs") == 1
    # A replica answers that another has the slot, as the former primary does after a failover.
    cluster.ask(cluster.replica, "FAILOVER")
    wait(lambda: cluster.client(cluster.replica).role()[0] == b"master", "the other primary")

    wait(lambda: write("two"), "a hint after the failover")
    with Connection(url, transport_options=options) as jobs:
        queue = jobs.SimpleQueue("jobs")
        queue.put("second")
        assert [queue.get(timeout=5).payload for _ in range(2)] == ["first", "second"]
        queue.close()
    stranger = SharedCache(cluster.url.partition("?")[0], timeout_s=2)
    # Nobody whom the system knows has signed its certificate.
    assert stranger.run(lambda store: store.ping(), default=False) == (cluster.front is None)
    stranger.close()
    hints.close()
    gc.collect()


def test_a_gateway_and_its_worker_outlive_the_node(
    cluster: Cluster, start_gateway: StartGateway
) -> None:
    cluster.start(node_timeout_ms=1000)
    server = start_gateway(worker=True, redis_url=cluster.url)

    def is_whole() -> bool:
        checks = server.get("/readyz").json()["checks"]
        return bool(checks["hints"]["ok"] and checks["worker"]["queues"]["celery"])

    wait(is_whole, "hints and a worker")
    cluster.kill_primary()
    # What was noted there came along: the worker has to note it anew.
    wait(lambda: cluster.client(cluster.replica).flushall(), "an empty primary")
    wait(is_whole, "hints and a worker after the failover")


@pytest.mark.parametrize(
    ("url", "why"), [("a:1/2", "database 0"), ("a:1?ssl=1", "no such options"), ("a:1,:2", "odd")]
)
def test_an_odd_url_says_why(url: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_cluster_url(f"{CLUSTER_SCHEME}://{url}")


def test_a_url_of_nodes_is_read() -> None:
    assert read_cluster_url("redis://a:1/0") is None
    found = read_cluster_url(f"{CLUSTER_SCHEME}://u:{QUOTED_PASSWORD}@[::1]:5,b")
    assert found == ([("::1", 5), ("b", 6379)], "u", PASSWORD, {})
