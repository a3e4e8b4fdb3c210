"""B5: bytes that two servers could read differently, or nobody can read, are refused in the API's
JSON, and no second request hides."""

import socket
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from routing.simulator.testing import RawConnection
from tests.support.server import GatewayServer
from tests.support.wires import CHAT, HOST, answer_to, envelope, head_bytes

POST = b"POST /api/v1/chat/completions HTTP/1.1\r\n" + HOST
HIDDEN = b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n"
TE = b"Transfer-Encoding: chunked\r\n"

AMBIGUOUS = {
    "CL.TE": POST + b"Content-Length: 6\r\n" + TE + b"\r\n0\r\n\r\n" + HIDDEN,
    "TE.CL": POST + TE + b"Content-Length: 4\r\n\r\n5c\r\n" + HIDDEN + b"\r\n0\r\n\r\n",
    "two lengths": POST + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcd" + HIDDEN,
    "a list of lengths": POST + b"Content-Length: 4, 4\r\n\r\nabcd" + HIDDEN,
    "a signed length": POST + b"Content-Length: +4\r\n\r\nabcd" + HIDDEN,
    "a length in other digits": POST + "Content-Length: ²\r\n\r\n".encode("latin-1") + HIDDEN,
    "space before the colon": POST + b"Content-Length : 4\r\n\r\nabcd" + HIDDEN,
    "tab before the colon": POST + b"Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n" + HIDDEN,
    "a field folded first": b"GET /healthz HTTP/1.1\r\n X: y\r\n" + HOST + b"\r\n",
    "chunked twice": POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n" + HIDDEN,
    "a coding before it": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + HIDDEN,
    "one bare line feed": POST + b"X: y\nContent-Length: 4\r\n\r\nabcd" + HIDDEN,
    "a bare carriage return": POST + b"X: y\rContent-Length: 4\r\n\r\nabcd" + HIDDEN,
    "a folded field": POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" + HIDDEN,
    "chunked not last": POST + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n" + HIDDEN,
    "identity only": POST + b"Transfer-Encoding: identity\r\n\r\n" + HIDDEN,
    "a vertical tab in it": POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n" + HIDDEN,
    "chunks in HTTP/1.0": POST.replace(b"1.1", b"1.0") + TE + b"\r\n0\r\n\r\n" + HIDDEN,
    "bare line feeds": POST.replace(b"\r\n", b"\n") + b"\n",
    "two hosts": POST + HOST + b"\r\n",
    "a NUL in a field": POST + b"X: a\x00b\r\n\r\n",
    "an absolute form without one": b"GET healthz HTTP/1.1\r\n" + HOST + b"\r\n",
    "HTTP/2's preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "an odd expectation": POST + b"Expect: 200-ok\r\nContent-Length: 0\r\n\r\n" + HIDDEN,
    "no request line": b"\x00\x01\x02\r\n\r\n",
    "a line of one word": b"HELLO\r\n\r\n",
    "an odd version": HIDDEN.replace(b"1.1", b"9.9"),
    "an odd method": HIDDEN.replace(b"GET", b"G\x01T"),
    "a field without a colon": b"GET /healthz HTTP/1.1\r\nHost gateway\r\n\r\n",
    "a long line": b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
}


@pytest.mark.parametrize("request_", AMBIGUOUS.values(), ids=AMBIGUOUS.keys())
def test_what_can_be_read_in_two_ways_is_refused_and_ends_the_connection(
    gateway: GatewayServer, request_: bytes
) -> None:
    with closing(RawConnection(int(gateway.env["PORT"]))) as wire:
        wire.send(request_)

        assert envelope(wire)[0] in {400, 501}
        assert wire.to_end() == b""


UNKNOWN = [
    *("/api/v1/chat/completions/extra", "/api/v1//chat/completions", "/api/v2/models", "/%ff%fe"),
    *("/api/v1/models/..%2f..%2fsecret/x/endpoints", "/api/v1/model/a/b/c", "/" + "a/" * 500),
    # A slash that is hidden parts nothing.
    *("/api%2fv1%2fkey", "/api/v1%2Fkey", "/admin%2Flogin/"),
]


@pytest.mark.parametrize("path", UNKNOWN)
def test_unknown_paths_are_a_json_404(gateway: GatewayServer, account: Any, path: str) -> None:
    status, error = answer_to(gateway, head_bytes(method="GET", path=path, key=account().api_key))

    assert (status, error["metadata"]["error_type"]) == (404, "not_found")


def test_nobody_is_asked_for_a_body_that_is_too_large(gateway: GatewayServer, account: Any) -> None:
    fields = f"Content-Length: {33 << 20}\r\nExpect: 100-continue"
    assert answer_to(gateway, head_bytes(fields, key=account().api_key))[0] == 413


BAD_CHUNKS = {
    "a size that is none": b"ZZ\r\nabc\r\n0\r\n\r\n",
    "a size in 0x": b"0x3\r\nabc\r\n0\r\n\r\n",
    "a size with underscores": b"0_3\r\nabc\r\n0\r\n\r\n",
    "space before the size": b" 3\r\nabc\r\n0\r\n\r\n",
    "an endless size": b"0" * 20_000 + b"3\r\nabc\r\n0\r\n\r\n",
    "a size beyond all": b"f" * 40 + b"\r\nabc\r\n0\r\n\r\n",
    "more than its size": b"3\r\nabcdef\r\n0\r\n\r\n",
    "bare line feeds": b"3\nabc\n0\n\n",
    "a line feed in an extension": b"3;x\ny\r\nabc\r\n0\r\n\r\n",
    "a forbidden trailer": b"3\r\nabc\r\n0\r\nContent-Length: 5\r\n\r\n",
    "endless trailers": b"3\r\nabc\r\n0\r\n" + b"X: y\r\n" * 200_000 + b"\r\n",
    "a trailer that is none": b"3\r\nabc\r\n0\r\nX y\r\n\r\n",
}


# Only their end, or the deadline for bodies, shows that these are none.
ENDLESS = [BAD_CHUNKS["a size beyond all"], BAD_CHUNKS["bare line feeds"]]


@pytest.mark.parametrize("chunks", BAD_CHUNKS.values(), ids=BAD_CHUNKS.keys())
def test_bad_chunks_are_refused_and_end_the_connection(
    gateway: GatewayServer, account: Any, chunks: bytes
) -> None:
    head = head_bytes("Transfer-Encoding: chunked", key=account().api_key)
    with closing(RawConnection(int(gateway.env["PORT"]))) as wire:
        wire.send(head + chunks)
        if chunks in ENDLESS:
            wire.socket.shutdown(socket.SHUT_WR)

        assert envelope(wire)[0] == 400
        if chunks not in ENDLESS:
            wire.send(HIDDEN)
        assert b"HTTP/1.1" not in to_the_end(wire)


def to_the_end(wire: RawConnection) -> bytes:
    """What still comes; a reset ends it too."""
    try:
        return wire.to_end()
    except ConnectionResetError:
        return bytes(wire.received)


UNREAD = {
    "an unknown path": ("POST", "/api/v1/nothing", 404),
    "a GET with a body": ("GET", "/healthz", 200),
    "another method": ("PUT", CHAT, 405),
    "no key": ("POST", CHAT, 401),
    "a page": ("POST", "/console/sign-in", 403),
}


@pytest.mark.parametrize(("method", "path", "status"), UNREAD.values(), ids=UNREAD.keys())
@pytest.mark.parametrize("framing", ["Content-Length: 100000", "Transfer-Encoding: chunked"])
def test_a_body_nobody_reads_hides_no_request(
    gateway: GatewayServer, method: str, path: str, status: int, framing: str
) -> None:
    body = HIDDEN * (100_000 // len(HIDDEN) + 1)
    body = body[:100_000] if "Length" in framing else b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    with closing(RawConnection(int(gateway.env["PORT"]))) as wire:
        wire.send(head_bytes(framing, method=method, path=path) + body)
        answered, headers = wire.head()
        wire.body(headers)

        assert answered == status
        wire.send(head_bytes(method="GET", path="/api/v1/nothing-else", close=True))
        assert envelope(wire)[0] == 404
        assert wire.to_end() == b""


def test_a_caller_cannot_move_the_paths_that_are_served(gateway: GatewayServer) -> None:
    for field in ("SCRIPT_NAME: /api", "PATH_INFO: /healthz", "Script-Name: /api"):
        status, error = answer_to(gateway, head_bytes(field, path="/api/v1/nothing"))

        assert (status, error["metadata"]["error_type"]) == (404, "not_found")


def test_no_code_trusts_an_address_that_a_caller_names() -> None:
    """The socket decides on the address of a caller. A forwarding header does so only where the
    socket's is one of the operator's own proxies, which one module looks at."""
    root = Path(__file__).parents[2]
    apps = ("gateway", "accounts", "routing", "interns")
    sources = [file for app in apps for file in (root / app).rglob("*.py")]
    named = ("X_FORWARDED_FOR", "X-Forwarded-For", "X_REAL_IP", "HTTP_FORWARDED")

    assert sources
    reading = [f.name for f in sources if any(name in f.read_text() for name in named)]
    assert reading == ["address.py"]


def test_the_server_listens_nowhere_else(gateway: GatewayServer) -> None:
    """No control socket: every Unix socket of ours would be in GATEWAY_HOME."""
    children = Path(f"/proc/{gateway.pid}/task/{gateway.pid}/children").read_text().split()
    inodes = set()
    for pid in (str(gateway.pid), *children):
        for fd in Path(f"/proc/{pid}/fd").iterdir():
            target = str(fd.readlink())
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    rows = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    ours = [row[7] for row in rows if row[6] in inodes and len(row) > 7]
    listening = [path for path in ours if "gunicorn" in path]

    assert inodes
    assert [path for path in listening if not path.startswith(gateway.env["GATEWAY_HOME"])] == []
