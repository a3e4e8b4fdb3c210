"""Bodies that are packed, or say that they are (U5, U6)."""

import gzip
import tracemalloc
import zlib
from collections.abc import Callable

import pytest

from gateway.outbound.errors import BodyTooLarge, MalformedReply
from gateway.outbound.http_client import Reply
from tests.gateway.outbound.conftest import Caller, read_in_pieces
from tests.gateway.outbound.raw_upstream import answer, chunk, chunked_head, endless, turns

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
    name: str, pack: Callable[[bytes], bytes], call: Caller
) -> None:
    upstream = call.serve(turns(answer(pack(TEXT), f"Content-Encoding: {name}")))
    assert call(upstream).read_all() == TEXT
    assert _in_pieces(call(upstream)) == TEXT


def test_reading_some_and_then_all_gives_each_byte_turns(call: Caller) -> None:
    long = TEXT * 3
    upstream = call.serve(turns(answer(gzip.compress(long), "Content-Encoding: gzip")))
    reply = call(upstream)
    assert (reply.read_some() or b"") + reply.read_all() == long


def test_encoded_bytes_that_come_one_by_one_decode_as_well(call: Caller) -> None:
    pieces = [chunk(bytes([byte])) for byte in _raw_deflate(b"hello " * 50)]
    said = [chunked_head("Content-Encoding: deflate"), *pieces, b"0\r\n\r\n"]
    assert call(call.serve(turns(b"".join(said)))).read_all() == b"hello " * 50


@pytest.mark.parametrize("name", ["gzip", "deflate"])
def test_no_body_needs_no_decoding(name: str, call: Caller) -> None:
    upstream = call.serve(turns(answer(b"", f"Content-Encoding: {name}")))
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
    name: str, body: bytes, read: Callable[[Reply], bytes], call: Caller
) -> None:
    reply = call(call.serve(turns(answer(body, f"Content-Encoding: {name}"))))
    assert reply.status == 200
    with pytest.raises(MalformedReply):
        read(reply)


def _bomb() -> bytes:
    """One gigabyte of zeros in about a megabyte; blocks after a full flush stand on their own."""
    packer = zlib.compressobj(9, wbits=16 + zlib.MAX_WBITS)
    head = packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(1024 * 1024)) + packer.flush(zlib.Z_FULL_FLUSH)
    return head + block * 1024


@pytest.mark.parametrize("way", ["all", "some"])
def test_a_gzip_bomb_costs_little_memory(way: str, call: Caller) -> None:
    reply = call(call.serve(turns(answer(_bomb(), "Content-Encoding: gzip"))))
    tracemalloc.start()
    with pytest.raises(BodyTooLarge):
        reply.read_all() if way == "all" else any(not piece for piece in read_in_pieces(reply))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 20 * 1024 * 1024


def test_a_decoded_body_over_the_cap_is_too_large(call: Caller) -> None:
    upstream = call.serve(turns(answer(gzip.compress(bytes(10_001)), "Content-Encoding: gzip")))
    for read in (Reply.read_all, Reply.read_some):
        with pytest.raises(BodyTooLarge):
            read(call(upstream, body_bytes_max=10_000))
    assert len(call(upstream, body_bytes_max=10_001).read_all()) == 10_001


def test_encoded_bytes_that_decode_to_nothing_are_bounded(call: Caller) -> None:
    head = zlib.compressobj(wbits=16 + zlib.MAX_WBITS).flush(zlib.Z_SYNC_FLUSH)
    start = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + head
    empty_block = b"\x00\x00\x00\xff\xff"
    with pytest.raises(BodyTooLarge):
        call(call.serve(endless(start, empty_block * 1000)), body_bytes_max=100_000).read_some()
