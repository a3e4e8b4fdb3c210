"""TLS records that come a byte at a time, under gevent: the limits of a call hold all the same."""

import select
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.routing.upstreams.conftest import Serve
from tests.routing.upstreams.raw_upstream import Peer

CALLS = """
from gevent import monkey
monkey.patch_all()
import ssl, sys, time
from routing.upstreams.door import Door, Limits, Origin
from routing.upstreams.door_errors import DoorError

door = Door()
trusting = ssl.create_default_context(cafile=sys.argv[2])
origin = Origin.parse(sys.argv[1], tls_context=trusting)

def call(path, deadline_s=20, **limits):
    limits = Limits(**{"connect_s": 10, "first_byte_s": 10, "idle_s": 10} | limits)
    began = time.monotonic()
    try:
        with door.send(origin, method="POST", path=path, headers=[], body=b"{}", limits=limits,
                       deadline=began + deadline_s) as reply:
            while reply.read_some() != b"":
                pass
    except DoorError as error:
        print(error.kind, time.monotonic() - began < 2)

call("/head", first_byte_s=0.3)
call("/body", idle_s=0.3)
call("/body", deadline_s=0.6)
"""


def dripping_tls(context: ssl.SSLContext) -> Callable[[Peer], None]:
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


def test_a_record_that_drips_is_ended_by_the_limits(
    serve: Serve, server_tls: ssl.SSLContext, certificate: Path
) -> None:
    upstream = serve(dripping_tls(server_tls))
    url = upstream.url.replace("http://", "https://")

    done = subprocess.run(
        [sys.executable, "-c", CALLS, url, str(certificate)],
        capture_output=True,
        text=True,
        timeout=30,
    )

    assert done.stderr == ""
    assert done.stdout.split("\n")[:3] == [
        "first_byte_timeout True",
        "idle_timeout True",
        "deadline_exceeded True",
    ]
