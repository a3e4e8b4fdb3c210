"""A head arrives in time and within its limits, or the connection ends."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import gevent
import pytest
from gevent import socket
from gunicorn.config import Config
from gunicorn.http.errors import (
    LimitRequestHeaders,
    LimitRequestLine,
    ParseException,
    UnsupportedTransferCoding,
)

from gateway.home import PROJECT
from gateway.server.connection import Connection, HeadTooSlow

HEADER_S = 0.1
REQUEST = b"GET /healthz HTTP/1.1\r\nHost: gateway\r\n\r\n"
# Far longer than anything here takes.
PATIENCE_S = 60


# Prints the scheme that gunicorn finds for peers on loopback and on a Unix socket.
SCHEMES = """
import runpy
read = runpy.run_path("gateway/gunicorn.conf.py")
from gunicorn.config import Config
from gunicorn.http.parser import RequestParser
cfg = Config()
cfg.set("forwarded_allow_ips", read["forwarded_allow_ips"])
sent = b"GET / HTTP/1.1\\r\\nHost: gateway\\r\\nX-Forwarded-Proto: https\\r\\n\\r\\n"
print(*[next(RequestParser(cfg, iter([sent]), peer)).scheme for peer in (("127.0.0.1", 1), "")])
"""


class Caller:
    """A caller's end of a connection, and the gateway's."""

    def __init__(self, **limits: float) -> None:
        self.end, self.server = socket.socketpair()  # type: ignore[attr-defined]  # Not in its stubs.
        cfg = Config()
        given = {"header_s": HEADER_S, "idle_s": PATIENCE_S, "busy_s": 30.0} | limits
        self.connection = Connection(cfg, self.server, ("127.0.0.1", 1), **given)

    def next_request(self) -> Any:
        with gevent.Timeout(PATIENCE_S):
            return self.connection.next_request()

    def trickle(self, data: bytes) -> None:
        gevent.spawn(self._trickle, data)

    def _trickle(self, data: bytes) -> None:
        for byte in data:
            self.end.sendall(bytes([byte]))
            gevent.sleep(HEADER_S / 4)


@pytest.fixture
def open_caller() -> Iterator[Callable[..., Caller]]:
    callers: list[Caller] = []

    def open_(**limits: float) -> Caller:
        callers.append(Caller(**limits))
        return callers[-1]

    yield open_
    for caller in callers:
        caller.end.close()
        caller.server.close()


@pytest.fixture
def caller(open_caller: Callable[..., Caller]) -> Caller:
    return open_caller()


def test_requests_of_one_connection_come_one_after_another_also_in_pieces(caller: Caller) -> None:
    caller.end.sendall(b"\r\n" + REQUEST + REQUEST.replace(b"healthz", b"readyz") + REQUEST[:-3])
    gevent.spawn_later(0.01, caller.end.sendall, REQUEST[-3:])

    paths = [caller.next_request().path for _ in range(3)]

    assert paths == ["/healthz", "/readyz", "/healthz"]
    # Within a request the socket waits as long as it is told.
    assert caller.server.gettimeout() == 30
    caller.end.close()
    assert caller.next_request() is None


def test_a_trickled_head_does_not_extend_its_deadline(caller: Caller) -> None:
    caller.trickle(REQUEST)
    with pytest.raises(HeadTooSlow):
        caller.next_request()


def test_a_later_head_has_its_own_deadline(open_caller: Callable[..., Caller]) -> None:
    caller = open_caller(idle_s=PATIENCE_S)
    caller.end.sendall(REQUEST)
    caller.next_request()
    gevent.spawn_later(2 * HEADER_S, caller.end.sendall, REQUEST)

    assert caller.next_request() is not None

    caller.end.sendall(REQUEST[:5])
    with pytest.raises(HeadTooSlow):
        caller.next_request()


@pytest.mark.parametrize("sent", [b"", b"\r\n"])
def test_who_begins_nothing_is_told_nothing(
    open_caller: Callable[..., Caller], sent: bytes
) -> None:
    caller = open_caller(idle_s=HEADER_S)
    caller.end.sendall(REQUEST + sent)
    caller.next_request()
    assert caller.next_request() is None


UNFINISHED: dict[str, tuple[bytes, type[ParseException]]] = {
    "a line without an end": (b"GET /" + b"a" * 5000, LimitRequestLine),
    "too many fields": (b"GET / HTTP/1.1\r\n" + b"a:\r\n" * 110, LimitRequestHeaders),
    "too many bytes": (b"GET / HTTP/1.1\r\nX: " + b"v" * 900_000, LimitRequestHeaders),
    "a bare line feed": (b"GET / HTTP/1.1\nHost: gateway\n\n", ParseException),
    "a bare line feed later": (b"GET / HTTP/1.1\r\nHost: gateway\n\n", ParseException),
}


@pytest.mark.parametrize(("sent", "error"), UNFINISHED.values(), ids=UNFINISHED.keys())
def test_a_head_that_can_only_be_refused_is_not_waited_for(
    open_caller: Callable[..., Caller], sent: bytes, error: type[ParseException]
) -> None:
    caller = open_caller(header_s=PATIENCE_S)
    gevent.spawn(caller.end.sendall, sent)
    with pytest.raises(error):
        caller.next_request()


def test_what_is_refused_behind_its_head_keeps_the_callers_own_id(caller: Caller) -> None:
    head = b"POST / HTTP/1.1\r\nHost: g\r\nX-Request-Id: mine-1\r\nTransfer-Encoding: gzip, chunked"
    caller.end.sendall(head + b"\r\n\r\n")
    with pytest.raises(UnsupportedTransferCoding):
        caller.next_request()
    assert caller.connection.find_request_id() == "mine-1"


def test_what_has_no_head_that_can_be_read_gets_a_new_id(caller: Caller) -> None:
    own = b"GET / HTTP/1.1\r\nHost: g\r\nX-Request-Id: former\r\n\r\n"
    caller.end.sendall(own + b"not http\r\n\r\n")
    caller.next_request()
    with pytest.raises(ParseException):
        caller.next_request()
    assert caller.connection.find_request_id().startswith("req-")


def test_gunicorn_believes_the_scheme_of_unix_sockets_alone() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCHEMES],
        cwd=PROJECT,
        env={**os.environ, "FORWARDED_ALLOW_IPS": "*"},
        capture_output=True,
        text=True,
        timeout=40,
    )

    assert done.stdout.split() == ["http", "https"], done.stderr
