"""The same client in a process patched by gevent, as web workers are."""

import select
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from tests.gateway.outbound.conftest import Serve
from tests.gateway.outbound.raw_upstream import Peer, answer, chunk, chunked_head

CALL = """
from gevent import monkey
monkey.patch_all()
import ssl, sys, time, gevent
from gateway.outbound.http_client import HttpClient, Limits, Origin
from gateway.outbound.errors import Aborted, OutboundError

client = HttpClient()
certificate, *urls = sys.argv[1:]
trusting = ssl.create_default_context(cafile=certificate)

def call(to, path="/", body=b"{}", deadline_s=20, **limits):
    limits = Limits(**{"connect_s": 10, "first_byte_s": 10, "idle_s": 10} | limits)
    return client.send(to, method="POST", path=path, headers=[], body=body, limits=limits,
        deadline=time.monotonic() + deadline_s)

def fail(*args, **options):
    began = time.monotonic()
    try:
        with call(*args, **options) as reply:
            while reply.read_some() != b"":
                pass
    except OutboundError as error:
        print(error.kind, time.monotonic() - began < 2)
"""
FIFTY_CALLS = """
origin, untrusted, unread, silent = map(Origin.parse, urls)

def echo(number):
    with call(origin, "/meet", b"%08d" % number) as reply:
        return reply.read_all() == b"%08d" % number

# All fifty must be in flight at once, or the upstream answers none of them.
jobs = [gevent.spawn(echo, number) for number in range(50)]
gevent.joinall(jobs, timeout=20)
assert all(job.value for job in jobs)
with call(origin, "/echo") as reply:
    assert reply.reused

fail(origin, "/hang", first_byte_s=0.2)
fail(unread, body=bytes(20_000_000), deadline_s=0.3)
killed = gevent.spawn(call, origin, "/hang")
gevent.sleep(0.05)
killed.kill()
fail(untrusted)
fail(silent, connect_s=0.2)

trusted = Origin.parse(urls[1], tls_context=trusting)
for turn in range(2):
    with call(trusted, body=b"x" * 100_000) as reply:
        assert reply.read_all() == b"xxxxxxxx"
    assert reply.reused == (turn > 0)
for to in (origin, trusted):
    reply = call(to, "/stream")
    assert reply.read_some() == b"word"
    assert reply.read_some(0.05) is None
    gevent.spawn_later(0.05, reply.abort)
    try:
        reply.read_some()
    except Aborted:
        print("aborted")

client.close_idle()
print("done")
"""
DRIPS = """
origin = Origin.parse(urls[0], tls_context=trusting)
fail(origin, "/head", first_byte_s=0.3)
fail(origin, "/body", idle_s=0.3)
fail(origin, "/body", deadline_s=0.6)
"""
# As pages on SQLite, which run in native threads of a pool.
THREADS = """
from gevent.threadpool import ThreadPool
from gateway.outbound import connection
connection._LONG_S = 0.1
origin = Origin.parse(urls[0])

def ask():
    with call(origin) as reply:
        reply.read_all()
        return reply.reused

first, second = ThreadPool(1), ThreadPool(1)
print([each.apply(ask) for each in (first, second, first, second)], ask(), ask())
first.apply(fail, (origin, "/hang"), {"first_byte_s": 0.3})
fail(origin, "/hang", first_byte_s=0.3)

# A name that is looked up where nobody waits any more is looked up anew elsewhere.
from gateway.outbound import dialing
look_up, dialing._getaddrinfo = dialing._getaddrinfo, lambda *_: gevent.sleep(60)
named = Origin.parse(urls[0].replace("127.0.0.1", "localhost"))
first.apply(fail, (named,), {"connect_s": 0.3})
dialing._getaddrinfo = look_up
with call(named, connect_s=2) as reply:
    print(reply.status)
client.close_idle()
"""


def _run(calls: str, certificate: Path, *urls: str) -> list[str]:
    command = [sys.executable, "-W", "error", "-c", CALL + calls, str(certificate), *urls]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=90)
    assert ran.stderr == ""
    return ran.stdout.splitlines()


def test_fifty_calls_at_once_and_each_way_to_end_one(
    serve: Serve, server_tls: ssl.SSLContext, certificate: Path
) -> None:
    barrier = threading.Barrier(50, timeout=90)

    def script(peer: Peer) -> None:
        while (request := peer.read_request()) is not None:
            if b"/hang" in request:
                peer.wait_gone()
            elif b"/stream" in request:
                peer.send(chunked_head() + chunk(b"word"))
                peer.wait_gone()
            if b"/meet" in request:
                barrier.wait()
            peer.send(answer(request[-8:]))

    plain, over_tls = serve(script), serve(script, tls_context=server_tls)
    unread = serve(Peer.hold).url
    urls = [plain.url, over_tls.url, unread, unread.replace("http", "https")]
    ended = ["first_byte_timeout", "deadline_exceeded", "tls_failed", "connect_timeout"]
    told = [f"{kind} True" for kind in ended]
    assert _run(FIFTY_CALLS, certificate, *urls) == [*told, "aborted", "aborted", "done"]
    assert plain.gone.wait(60)


def _dripping_tls(context: ssl.SSLContext) -> Callable[[Peer], None]:
    """Shakes hands, then sends a record's bytes one by one: for /body after a whole head."""

    def script(peer: Peer) -> None:
        came, going = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(came, going, server_side=True)

        def pump(step: Callable[[], object]) -> object:
            while True:
                try:
                    return step()
                except ssl.SSLWantReadError:
                    if going.pending:
                        peer.send(going.read())
                    if not (data := peer.sock.recv(65_536)):
                        raise ConnectionResetError from None
                    came.write(data)

        pump(tls.do_handshake)
        peer.send(going.read())
        request = pump(lambda: tls.read(65_536))
        assert isinstance(request, bytes)
        head = b"HTTP/1.1 200 OK\r\n\r\n"
        if request.startswith(b"POST /body"):
            tls.write(head)
            peer.send(going.read())
        tls.write(head + b"x" * 10_000)
        record = going.read()
        for start in range(len(record) - 1):
            peer.send(record[start : start + 1])
            # A pace, until the gateway leaves and the next byte cannot be sent.
            select.select([], [], [], 0.02)

    return script


def test_a_tls_record_that_drips_is_ended_by_the_limits(
    serve: Serve, server_tls: ssl.SSLContext, certificate: Path
) -> None:
    url = serve(_dripping_tls(server_tls)).url.replace("http://", "https://")
    ended = ["first_byte_timeout True", "idle_timeout True", "deadline_exceeded True"]
    assert _run(DRIPS, certificate, url) == ended


def test_each_thread_has_connections_of_its_own(serve: Serve, certificate: Path) -> None:
    """What waits for a socket belongs to the event loop of the thread that made it."""

    def script(peer: Peer) -> None:
        while (request := peer.read_request()) is not None:
            if b"/hang" in request:
                peer.wait_gone()
            peer.send(answer(b"ok"))

    reused = "[False, False, True, True] False True"
    ended = [*["first_byte_timeout True"] * 2, "connect_timeout True", "200"]
    assert _run(THREADS, certificate, serve(script).url) == [reused, *ended]
