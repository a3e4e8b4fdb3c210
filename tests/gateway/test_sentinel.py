"""Redis as sentinels have it: two servers, and whoever is the primary now."""

import gc
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis
from kombu import Connection

from gateway.environment.redis_url import SCHEME, TLS_SCHEME, build_broker, read_sentinel_url
from gateway.shared_cache import SharedCache
from tests.support import processes
from tests.support.certificates import write_certificate
from tests.support.gateways import StartGateway
from tests.support.postgres import free_port
from tests.support.tls_front import TlsFront
from tests.support.valkey import PASSWORD, QUOTED_PASSWORD, accepts, binary, wait


class Servers:
    """A primary, its replica and one sentinel of them. With a certificate a front does TLS for
    each, and is what they tell others of."""

    def __init__(self, folder: Path, stack: ExitStack, certificate: Path | None) -> None:
        self.ports = [free_port(), free_port()]
        self.sentinel_port = free_port()
        scheme, sentinel_port, query = SCHEME, self.sentinel_port, "?service=g"
        self.front: TlsFront | None = None
        if certificate:
            self.front = TlsFront(certificate, [*self.ports, self.sentinel_port])
            stack.enter_context(self.front)
            scheme, sentinel_port = TLS_SCHEME, self.front.ports[self.sentinel_port]
            query += f"&ssl_ca_certs={certificate}"
        place = f"127.0.0.1:1,127.0.0.1:{sentinel_port}"
        self.url = f"{scheme}://:{QUOTED_PASSWORD}@{place}/3{query}"
        self._folder, self._stack = folder, stack
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        auth = ["--requirepass", PASSWORD, "--masterauth", PASSWORD, "--save", ""]
        auth += ["--repl-diskless-sync-delay", "0"]
        known = self.front.ports if self.front else {port: port for port in self.ports}
        for port in self.ports:
            more = ["--replica-announce-port", str(known[port])]
            if port != self.ports[0]:
                more += ["--replicaof", "127.0.0.1", str(known[self.ports[0]])]
            self._spawn(port, ["--port", str(port), *auth, *more])
        # A sentinel that finds no replica looks again after ten seconds.
        with redis.Redis(port=self.ports[0], password=PASSWORD) as first:
            wait(lambda: len(first.role()[2]) == 1, "the replica")
        config = self._folder / "sentinel.conf"
        config.write_text(
            f"port {self.sentinel_port}\nsentinel monitor g 127.0.0.1 {known[self.ports[0]]} 1\n"
            f"sentinel auth-pass g {PASSWORD}\nsentinel down-after-milliseconds g 500\n"
        )
        self._spawn(self.sentinel_port, [config, "--sentinel"])
        wait(lambda: self.primary()["num-slaves"] == 1, "the sentinel")

    def _spawn(self, port: int, words: list[Any]) -> None:
        log = self._folder / f"{port}.log"
        process = processes.spawn([binary(), *words, "--dir", self._folder], log=log)
        self._running[port] = process
        self._stack.callback(processes.kill, process)
        wait(lambda: accepts(port), "a server")

    def sentinel(self) -> "redis.Redis":
        client = redis.Redis(port=self.sentinel_port, decode_responses=True)
        self._stack.callback(client.close)
        return client

    def primary(self) -> dict[str, Any]:
        """What the sentinel says of it."""
        masters: Any = self.sentinel().sentinel_masters()
        facts: dict[str, Any] = masters["g"]
        return facts

    def kill(self, port: int) -> None:
        processes.kill(self._running[port])

    def fail_over(self) -> None:
        """Make the replica the primary; what was it follows."""
        before = self.primary()["port"]
        self.sentinel().execute_command("SENTINEL", "FAILOVER", "g")
        wait(lambda: self.primary()["port"] != before, "the other primary")


@pytest.fixture(params=["clear", "tls"])
def servers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Servers]:
    certificate = write_certificate(tmp_path / "c.pem") if request.param == "tls" else None
    with ExitStack() as stack:
        servers = Servers(tmp_path, stack, certificate)
        servers.start()
        yield servers
        if servers.front:
            assert set(servers.front.encrypted) == {*servers.ports, servers.sentinel_port}


# The library leaves its connections to sentinels to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_hints_and_jobs_follow_the_primary(servers: Servers) -> None:
    hints = SharedCache(servers.url, timeout_s=2)
    # To try a sentinel that is gone takes Celery's transport long; a gateway does it below.
    url, options = build_broker(servers.url.replace("127.0.0.1:1,", ""))
    jobs = Connection(url, transport_options=options)

    def write(value: str) -> bool:
        return hints.run(lambda store: bool(store.set("hint", value)), default=False, knocks=True)

    assert write("one")
    jobs.SimpleQueue("jobs").put("first")
    # Both are in the URL's database, and told to the replica a moment later.
    other = redis.Redis(port=servers.ports[1], password=PASSWORD, db=3)
    wait(lambda: other.llen("jobs") == 1, "a job at the replica")
    servers.fail_over()

    # The first may still be heard by the one that was the primary.
    wait(lambda: write("two") and other.get("hint") == b"two", "a hint after the failover")
    assert other.llen("jobs") == 1
    jobs.close()
    again = Connection(url, transport_options=options)
    queue = again.SimpleQueue("jobs")
    queue.put("second")
    assert [queue.get(timeout=5).payload for _ in range(2)] == ["first", "second"]
    stranger = SharedCache(servers.url.partition("&ssl_ca_certs")[0], timeout_s=2)
    # Nobody whom the system knows has signed its certificate.
    assert stranger.run(lambda store: store.ping(), default=False) == (servers.front is None)
    for each in (again, hints, other, stranger):
        each.close()
    del jobs, again, queue
    gc.collect()


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("a:1", "names no service"),
        ("a:1/0?service=g&ssl=1", "knows no ssl"),
        ("a:1/x?service=g", "no number"),
        ("a:1,:2?service=g", "odd"),
        ("a:x?service=g", "odd"),
    ],
)
def test_an_odd_url_says_why(url: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_sentinel_url(f"{SCHEME}://{url}")


def test_a_plain_url_is_none_of_theirs() -> None:
    assert read_sentinel_url("redis://a:1/0") is None
    assert build_broker("unix:///x") == ("redis+socket:///x", {})
    found = read_sentinel_url(
        f"{SCHEME}://u:{QUOTED_PASSWORD}@[::1]:5,b/2?service=g&sentinel_password=s"
    )
    assert found == ([("::1", 5), ("b", 26379)], "g", "u", PASSWORD, 2, "s", {})


@pytest.mark.thorough
def test_a_gateway_and_its_worker_follow_the_primary(
    servers: Servers, start_gateway: StartGateway
) -> None:
    server = start_gateway(worker=True, redis_url=servers.url)

    def is_whole() -> bool:
        checks = server.get("/readyz").json()["checks"]
        return bool(checks["hints"]["ok"] and checks["worker"]["queues"]["celery"])

    wait(is_whole, "hints and a worker")
    servers.fail_over()
    servers.kill(servers.ports[0])
    # What was noted there came along: the worker has to note it anew.
    with redis.Redis(port=servers.ports[1], password=PASSWORD, db=3) as store:
        wait(lambda: store.role()[0] == b"master" and store.flushdb(), "an empty primary")
    wait(is_whole, "hints and a worker after the failover")
