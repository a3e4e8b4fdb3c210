"""Bodies that lie, break off, or are packed (U5, U6)."""

import gzip
import subprocess
import sys
import zlib
from collections.abc import Callable

import pytest

from routing.upstreams.door import Reply
from routing.upstreams.door_errors import BodyTooLarge, Disconnected, MalformedReply
from tests.routing.upstreams.conftest import Caller, Serve, read_in_pieces, socket_of
from tests.routing.upstreams.raw_upstream import (
    Peer,
    answer,
    chunk,
    chunked_head,
    endless,
    lasting,
    turns,
)

TEXT = b'{"choices": ["' + bytes(range(32, 127)) * 20_000 + b'"]}'


def _raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def _in_pieces(reply: Reply) -> bytes:
    return b"".join(read_in_pieces(reply))


ENCODINGS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("X-GZip", gzip.compress),
    "deflate": ("deflate", zlib.compress),
    "raw deflate": ("deflate", _raw_deflate),
    "identity": ("identity", bytes),
}


@pytest.mark.parametrize(("name", "pack"), ENCODINGS.values(), ids=ENCODINGS)
def test_an_encoded_body_is_decoded(
    name: str, pack: Callable[[bytes], bytes], serve: Serve, call: Caller
) -> None:
    upstream = serve(turns(answer(pack(TEXT), f"Content-Encoding: {name}")))
    assert call(upstream).read_all() == TEXT
    assert _in_pieces(call(upstream)) == TEXT


def test_reading_some_and_then_all_gives_each_byte_turns(serve: Serve, call: Caller) -> None:
    long = TEXT * 3
    upstream = serve(turns(answer(gzip.compress(long), "Content-Encoding: gzip")))
    reply = call(upstream)
    assert (reply.read_some() or b"") + reply.read_all() == long


def test_encoded_bytes_that_come_one_by_one_decode_as_well(serve: Serve, call: Caller) -> None:
    pieces = [chunk(bytes([byte])) for byte in _raw_deflate(b"hello " * 50)]
    said = [chunked_head("Content-Encoding: deflate"), *pieces, b"0\r\n\r\n"]
    assert call(serve(turns(b"".join(said)))).read_all() == b"hello " * 50


@pytest.mark.parametrize("name", ["gzip", "deflate"])
def test_no_body_needs_no_decoding(name: str, serve: Serve, call: Caller) -> None:
    upstream = serve(turns(answer(b"", f"Content-Encoding: {name}")))
    assert call(upstream).read_all() == b""


PACKED = gzip.compress(TEXT)
BAD_ENCODINGS = {
    "unknown": ("br", b"anything"),
    "stacked": ("gzip, gzip", gzip.compress(PACKED)),
    "not what it says": ("gzip", b"plain text"),
    "bad deflate": ("deflate", b"\xff\xff\xff\xff"),
    "cut short": ("gzip", PACKED[:-20]),
    "bad checksum": ("gzip", PACKED[:-8] + b"12345678"),
    "bytes behind it": ("gzip", PACKED + b"junk"),
}


@pytest.mark.parametrize(("name", "body"), BAD_ENCODINGS.values(), ids=BAD_ENCODINGS)
@pytest.mark.parametrize("read", [Reply.read_all, _in_pieces])
def test_a_bad_encoding_is_a_malformed_reply(
    name: str, body: bytes, read: Callable[[Reply], bytes], serve: Serve, call: Caller
) -> None:
    reply = call(serve(turns(answer(body, f"Content-Encoding: {name}"))))
    assert reply.status == 200
    with pytest.raises(MalformedReply):
        read(reply)


def _bomb() -> bytes:
    """One gigabyte of zeros in about a megabyte; blocks after a full flush stand on their own."""
    packer = zlib.compressobj(9, wbits=16 + zlib.MAX_WBITS)
    head = packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(1024 * 1024)) + packer.flush(zlib.Z_FULL_FLUSH)
    return head + block * 1024


READ_A_BOMB = """
import re, sys, time
from pathlib import Path
from routing.upstreams.door import Door, Limits, Origin
from routing.upstreams.door import Reply
from routing.upstreams.door_errors import BodyTooLarge

def peak_kib():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

door = Door()
def call():
    return door.send(Origin.parse(sys.argv[1]), method="POST", path="/", headers=[], body=b"{}",
        limits=Limits(5, 5, 5), deadline=time.monotonic() + 30)

call().close()
before = peak_kib()
try:
    with call() as reply:
        if sys.argv[2] == "all":
            reply.read_all()
        while reply.read_some():
            pass
except BodyTooLarge:
    print(peak_kib() - before)
"""


@pytest.mark.parametrize("way", ["all", "some"])
def test_a_gzip_bomb_costs_little_memory(way: str, serve: Serve) -> None:
    upstream = serve(turns(answer(_bomb(), "Content-Encoding: gzip")))
    command = [sys.executable, "-c", READ_A_BOMB, upstream.url, way]
    ran = subprocess.run(command, capture_output=True, check=True, timeout=30)
    assert int(ran.stdout) < 20 * 1024


def test_a_decoded_body_over_the_cap_is_too_large(serve: Serve, call: Caller) -> None:
    upstream = serve(turns(answer(gzip.compress(bytes(10_001)), "Content-Encoding: gzip")))
    for read in (Reply.read_all, Reply.read_some):
        with pytest.raises(BodyTooLarge):
            read(call(upstream, body_bytes_max=10_000))
    assert len(call(upstream, body_bytes_max=10_001).read_all()) == 10_001


def test_encoded_bytes_that_decode_to_nothing_are_bounded(serve: Serve, call: Caller) -> None:
    head = zlib.compressobj(wbits=16 + zlib.MAX_WBITS).flush(zlib.Z_SYNC_FLUSH)
    start = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + head
    empty_block = b"\x00\x00\x00\xff\xff"
    with pytest.raises(BodyTooLarge):
        call(serve(endless(start, empty_block * 1000)), body_bytes_max=100_000).read_some()


CUT_SHORT = {
    "content-length": b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
    "in a chunk": chunked_head() + b"a\r\nshort",
    "between chunks": chunked_head() + chunk(b"short"),
    "before the last line": chunked_head() + chunk(b"short") + b"0\r\n",
}


@pytest.mark.parametrize("sent", CUT_SHORT.values(), ids=CUT_SHORT)
def test_a_body_that_breaks_off_is_a_disconnect(sent: bytes, serve: Serve, call: Caller) -> None:
    reply = call(serve(turns(sent)))
    with pytest.raises(Disconnected) as caught:
        reply.read_all()
    assert (caught.value.phase, caught.value.bytes_received) == ("body", len(sent))


def test_a_head_that_breaks_off_is_a_disconnect(serve: Serve, call: Caller) -> None:
    upstream = serve(turns(b"HTTP/1.1 200 OK\r\nContent-"))
    assert call.fails(Disconnected, upstream).phase == "head"


def test_a_reset_in_mid_body_is_a_disconnect(serve: Serve, call: Caller) -> None:
    word = chunked_head() + chunk(b"word")
    reply = call(serve(turns(word, lambda peer: peer.sock.recv(1), Peer.reset)))
    assert reply.read_some() == b"word"
    socket_of(reply).sendall(b"!")
    with pytest.raises(Disconnected):
        reply.read_some()


NOT_HTTP = {
    "html": b"<html>",
    "http 0.9 text": b"hello there\r\n",
    "bad version": b"HTTP/9.9 200 OK\r\n\r\n",
    "status 1000": b"HTTP/1.1 1000 OK\r\n\r\n",
    "status 099": b"HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n",
    "switching protocols": b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    "bare 101": b"HTTP/1.1 101 Switching\r\n\r\n",
    "negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    "no number": b"HTTP/1.1 200 OK\r\nContent-Length: ten\r\n\r\n",
    "empty length": b"HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "huge length": b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n",
    "length and chunks": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n"
    b"\r\n0\r\n\r\n",
    "packed transfer": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "folded header": b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n",
    "NUL in a header": b"HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n",
}


@pytest.mark.parametrize("sent", NOT_HTTP.values(), ids=NOT_HTTP)
def test_a_head_that_is_not_http_is_malformed(sent: bytes, serve: Serve, call: Caller) -> None:
    assert call.fails(MalformedReply, serve(lasting(sent))).phase == "head"


@pytest.mark.parametrize("framing", [b"zz\r\n", b"-1\r\n", b"fffffffffffffffff\r\n", b"2\r\nabc"])
def test_bad_chunk_framing_is_malformed(framing: bytes, serve: Serve, call: Caller) -> None:
    upstream = serve(lasting(chunked_head(), chunk(b"word"), framing))
    with pytest.raises(MalformedReply):
        call(upstream).read_all()


def test_errors_hold_no_header_values_and_no_bodies(serve: Serve, call: Caller) -> None:
    secret = "canary-7c1f"
    sent = f"HTTP/1.1 200 OK\r\nX-{secret}: {secret}\r\n{secret}\r\n\r\n{secret}".encode()
    headers = [("Authorization", secret)]
    error = call.fails(MalformedReply, serve(turns(sent)), headers=headers, body=secret.encode())
    assert secret not in str(error)
    assert secret not in repr(error.__cause__)
