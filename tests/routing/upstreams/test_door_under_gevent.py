"""The same door in a process patched by gevent, as web workers are."""

import ssl
import subprocess
import sys
import threading
from pathlib import Path

from tests.routing.upstreams.conftest import Serve
from tests.routing.upstreams.raw_upstream import Peer, answer, chunk, chunked_head

FIFTY_CALLS = """
from gevent import monkey
monkey.patch_all()
import ssl, sys, time, gevent
from routing.upstreams.door import Door, Limits, Origin
from routing.upstreams.door_errors import (
    Aborted, ConnectTimeout, DeadlineExceeded, FirstByteTimeout, TlsFailed
)

door = Door()
origin = Origin.parse(sys.argv[1])

def call(path="/", body=b"{}", deadline_s=20, to=origin, **limits):
    limits = Limits(**{"connect_s": 10, "first_byte_s": 10, "idle_s": 10} | limits)
    return door.send(to, method="POST", path=path, headers=[], body=body, limits=limits,
        deadline=time.monotonic() + deadline_s)

def echo(number):
    with call("/meet", b"%08d" % number) as reply:
        return reply.read_all() == b"%08d" % number

# All fifty must be in flight at once, or the upstream answers none of them.
jobs = [gevent.spawn(echo, number) for number in range(50)]
gevent.joinall(jobs, timeout=20)
assert all(job.value for job in jobs)
with call("/echo") as reply:
    assert reply.reused

try:
    call("/hang", first_byte_s=0.2)
except FirstByteTimeout as error:
    print(error.kind)

try:
    call(body=bytes(20_000_000), deadline_s=0.3, to=Origin.parse(sys.argv[3]))
except DeadlineExceeded:
    print("deadline")

reply = call("/stream")
assert reply.read_some() == b"word"
assert reply.read_some(0.05) is None
gevent.spawn_later(0.05, reply.abort)
try:
    reply.read_some()
except Aborted:
    print("aborted")

killed = gevent.spawn(call, "/hang")
gevent.sleep(0.05)
killed.kill()

try:
    call(to=Origin.parse(sys.argv[2]))
except TlsFailed:
    print("tls failed")

trusting = ssl.create_default_context(cafile=sys.argv[4])
trusted = Origin.parse(sys.argv[2], tls_context=trusting)
for turn in range(2):
    with call(body=b"x" * 100_000, to=trusted) as reply:
        assert reply.read_all() == b"xxxxxxxx"
    assert reply.reused == (turn > 0)
reply = call("/stream", to=trusted)
assert reply.read_some() == b"word"
assert reply.read_some(0.05) is None
gevent.spawn_later(0.05, reply.abort)
try:
    reply.read_some()
except Aborted:
    print("aborted over tls")

silent = Origin.parse(sys.argv[3].replace("http", "https"))
try:
    call(connect_s=0.2, to=silent)
except ConnectTimeout:
    print("connect timeout")

door.close_idle()
print("done")
"""


def test_fifty_calls_at_once_and_each_way_to_end_one(
    serve: Serve, server_tls: ssl.SSLContext, certificate: Path
) -> None:
    barrier = threading.Barrier(50, timeout=20)

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

    plain = serve(script)
    over_tls = serve(script, tls_context=server_tls)
    unread = serve(Peer.hold)
    urls = [plain.url, over_tls.url, unread.url]
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", FIFTY_CALLS, *urls, str(certificate)],
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert ran.stderr == ""
    assert ran.stdout.split("\n") == [
        "first_byte_timeout",
        "deadline",
        "aborted",
        "tls failed",
        "aborted over tls",
        "connect timeout",
        "done",
        "",
    ]
    assert plain.gone.wait(5)
