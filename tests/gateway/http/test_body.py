"""A body arrives in time or not at all, and a refused caller gets to read why."""

import gzip
import zlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import gevent
import pytest
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpRequest
from django.test import RequestFactory
from gevent import socket
from gevent.event import Event
from gunicorn.http.body import Body, ChunkedReader, LengthReader
from gunicorn.http.unreader import SocketUnreader

from gateway.http import body
from gateway.http.body import memory, read_body, read_form
from gateway.http.errors import InvalidRequest, PayloadTooLarge, UnsupportedEncoding
from gateway.server import connection

PACE_S = 0.005
BYTES_MAX = 1_000_000


class Peer:
    """A caller's end of a connection, and the request as gunicorn hands it on."""

    def __init__(self) -> None:
        self.end, self.server = socket.socketpair()  # type: ignore[attr-defined]  # Not in its stubs.
        self.left = Event()

    def request(self, *, length: int | None) -> HttpRequest:
        unreader = SocketUnreader(self.server)
        limits = SimpleNamespace(limit_request_field_size=8190, max_buffer_headers=8190)
        reader: Any = ChunkedReader(limits, unreader)
        if length is not None:
            reader = LengthReader(unreader, length)
        request = RequestFactory().post("/")
        request.META["CONTENT_LENGTH"] = "" if length is None else str(length)
        request.META["wsgi.input"] = Body(reader)
        request.META["gunicorn.socket"] = self.server
        return request

    def trickle(self) -> None:
        """A byte now and then, each well before any silence could be noticed."""
        gevent.spawn(self._trickle)

    def _trickle(self) -> None:
        try:
            while not self.left.wait(PACE_S):
                self.end.sendall(b"1")
        except OSError:
            return

    def hears_the_end(self) -> bool:
        """Whether the server has ended its side."""
        with gevent.Timeout(5):
            try:
                return self.end.recv(1) == b""
            except ConnectionResetError:
                return True


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[Peer]:
    monkeypatch.setattr(body, "under_gevent", lambda: True)
    monkeypatch.setattr(connection, "_DRAIN_WITHIN_S", 0.1)
    settings.ROUTER_BODY_TIMEOUT = 0.1
    peer = Peer()
    yield peer
    peer.left.set()
    peer.end.close()
    peer.server.close()


def refuse(request: HttpRequest) -> str:
    with pytest.raises(InvalidRequest) as caught:
        read_body(request, bytes_max=BYTES_MAX)
    return caught.value.text


def can_go_on(request: HttpRequest) -> bool:
    """Whether another request may follow once this one has its answer."""
    return connection.drain_body(request.META["gunicorn.socket"], request.META["wsgi.input"])


def compress(data: bytes, coding: str) -> bytes:
    """The data as some client would compress it."""
    if coding == "gzip":
        # A file may be several, one behind the other.
        return gzip.compress(data[:1000]) + gzip.compress(data[1000:])
    squeezer = zlib.compressobj(wbits=-zlib.MAX_WBITS if coding == "raw" else zlib.MAX_WBITS)
    return squeezer.compress(data) + squeezer.flush()


def compress_request(data: bytes, coding: str) -> HttpRequest:
    named = "deflate" if coding == "raw" else coding
    headers = {"Content-Encoding": named, "Content-Length": str(len(data))}
    return RequestFactory().post("/", data, content_type="application/json", headers=headers)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "raw"])
@pytest.mark.parametrize("size", [0, 10, BYTES_MAX])
def test_a_compressed_body_is_read_as_what_it_was(coding: str, size: int) -> None:
    data = b"0123456789" * (size // 10)
    heard = bytearray()
    request = compress_request(compress(data, coding) if data else b"", coding)

    assert read_body(request, bytes_max=BYTES_MAX, hear=heard.extend) == data == heard
    assert memory.taken_bytes == (len(data) if size == BYTES_MAX else 0)
    request.close()
    assert memory.taken_bytes == 0


@pytest.mark.parametrize("coding", ["gzip", "deflate", "raw"])
def test_a_bomb_takes_no_more_than_the_cap_and_what_breaks_off_is_malformed(coding: str) -> None:
    request = compress_request(compress(b" " * 50 * BYTES_MAX, coding), coding)
    with pytest.raises(PayloadTooLarge):
        read_body(request, bytes_max=BYTES_MAX)
    assert memory.taken_bytes <= BYTES_MAX
    request.close()

    whole = compress(b"some text, some text and another text" * 100, coding)
    for broken in (whole[:-1], b"\xff" * 20, whole + b"x"):
        assert (
            refuse(compress_request(broken, coding)) == "The compressed request body is malformed"
        )


def test_another_coding_is_named_unsupported() -> None:
    for coding in ("br", "gzip, gzip", "zstd", "chunked"):
        with pytest.raises(UnsupportedEncoding) as caught:
            read_body(compress_request(b"{}", coding), bytes_max=BYTES_MAX)
        assert caught.value.headers == {"Accept-Encoding": "gzip, deflate"}


@pytest.mark.parametrize("length", [100_000, None])
@pytest.mark.parametrize("goes_on", [False, True])
def test_a_late_body_is_refused_and_behind_it_the_connection_ends(
    peer: Peer, length: int | None, goes_on: bool
) -> None:
    request = peer.request(length=length)
    peer.end.sendall(b"fffff\r\n")
    if goes_on:  # A trickle does not extend the limit.
        peer.trickle()

    with gevent.Timeout(5):
        assert refuse(request) == "The request body took too long"
        assert not can_go_on(request)
    assert peer.hears_the_end()


def test_a_form_that_trickles_is_given_up(peer: Peer) -> None:
    peer.trickle()

    with gevent.Timeout(5):
        assert not read_form(WSGIRequest(peer.request(length=100_000).META))


def test_a_body_in_time_is_read_whole_and_the_socket_waits_as_before(peer: Peer) -> None:
    request = peer.request(length=5)
    peer.end.sendall(b"hello")
    assert read_body(request, bytes_max=BYTES_MAX) == b"hello"
    assert peer.server.gettimeout() is None


def test_who_never_finishes_is_cut_off(peer: Peer) -> None:
    request = peer.request(length=100_000)
    peer.trickle()
    with gevent.Timeout(5):
        assert not can_go_on(request)
    assert peer.hears_the_end()


def test_who_sends_too_much_is_cut_off(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_DRAIN_BYTES_MAX", 10)
    request = peer.request(length=100)
    peer.end.sendall(b"x" * 100)
    assert not can_go_on(request)
    assert peer.hears_the_end()


@pytest.mark.parametrize(
    ("length", "sent"), [(100, b"x" * 100), (None, b"3\r\nabc\r\n0\r\n\r\n"), (0, b"")]
)
def test_who_finishes_keeps_the_connection(peer: Peer, length: int | None, sent: bytes) -> None:
    request = peer.request(length=length)
    peer.end.sendall(sent)
    assert can_go_on(request)
    peer.server.sendall(b"next")
    assert peer.end.recv(4) == b"next"
