"""Answers whose body is not what the headers or the format promise."""

import struct
import zlib

from routing.simulator.call import Call
from routing.simulator.encoding import dumps, encoded
from routing.simulator.exchange import JSON, SSE
from routing.simulator.faults.base import Fault, content_type

HTML = b"<!doctype html><title>Simulated</title><h1>502 Bad Gateway</h1><p>A proxy's page.</p>"
LENGTH_LIE_BYTES = 1000
UNCLOSED_BYTES = 4
DATA = b"data: "
MIB = 1024 * 1024
GZIP_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
GZIP_WINDOW_BITS = 31
GZIPPED = [("Content-Encoding", "gzip")]


async def html(call: Call) -> None:
    call.exchange.answer(200, HTML, "text/html; charset=utf-8")


async def wrong_content_type(call: Call) -> None:
    call.exchange.answer(200, call.payload(), "text/plain")


async def bad_utf8(call: Call) -> None:
    body = call.payload(text="Gr\u00fc\u00dfe aus dem Simulator")
    call.exchange.answer(200, body.decode().encode("latin-1"), content_type(call))


async def truncated_json(call: Call) -> None:
    if not call.stream:
        body = call.json_body()
        call.exchange.answer(200, body[: len(body) // 2])
        return
    events = call.events()
    first = events.content[0].rstrip()
    call.exchange.answer_stream([events.opening, first[:-UNCLOSED_BYTES] + b"\n\n"])


async def null_body(call: Call) -> None:
    call.exchange.answer(200, b"null")


async def empty_body(call: Call) -> None:
    call.exchange.answer(200, b"", content_type(call))


async def empty_choices(call: Call) -> None:
    document, events = call.format.hollow(call.body, call.answer())
    if call.stream:
        call.exchange.answer_stream(events)
    else:
        call.exchange.answer(200, encoded(dumps(document)))


async def long_content_length(call: Call) -> None:
    body = call.payload()
    call.exchange.head(200, content_type(call), length=len(body) + LENGTH_LIE_BYTES)
    call.exchange.send(body)
    call.exchange.cut()


async def short_content_length(call: Call) -> None:
    body = call.payload()
    call.exchange.head(200, content_type(call), length=len(body) // 2)
    call.exchange.send(body)
    call.exchange.cut()


async def gzipped(call: Call) -> None:
    compressor = zlib.compressobj(wbits=GZIP_WINDOW_BITS)
    if not call.stream:
        body = compressor.compress(call.json_body()) + compressor.flush()
        call.exchange.answer(200, body, JSON, GZIPPED)
        return
    call.exchange.head(200, SSE, GZIPPED)
    for item in call.events().events():
        call.exchange.send(compressor.compress(item) + compressor.flush(zlib.Z_SYNC_FLUSH))
    call.exchange.send(compressor.flush())
    call.exchange.finish()


async def gzip_bomb(call: Call) -> None:
    """A valid answer behind `decoded_mib` MiB of spaces, at one KiB on the wire for each MiB.

    A full flush makes the compressed form of a block independent of what stood before it, so one
    block is compressed once and sent again and again.
    """
    exchange, payload = call.exchange, call.payload()
    at = payload.index(DATA) + len(DATA) if call.stream else 0
    start, rest = payload[:at] or b" ", payload[at:]
    spaces, blocks = b" " * MIB, int(call.options.number("decoded_mib", 1024))
    compressor = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    exchange.head(200, content_type(call), GZIPPED)
    opening = compressor.compress(start) + compressor.flush(zlib.Z_FULL_FLUSH)
    exchange.send(GZIP_HEADER + opening)
    checksum = zlib.crc32(start)
    block = compressor.compress(spaces) + compressor.flush(zlib.Z_FULL_FLUSH)
    for _ in range(blocks):
        checksum = zlib.crc32(spaces, checksum)
        exchange.send(block)
        await exchange.drain()
    checksum = zlib.crc32(rest, checksum)
    size = (len(start) + blocks * MIB + len(rest)) % 2**32
    exchange.send(compressor.compress(rest) + compressor.flush(zlib.Z_FINISH))
    exchange.send(struct.pack("<II", checksum, size))
    exchange.finish()


FAULTS = {
    "html": Fault("an HTML page with 200", html),
    "wrong-content-type": Fault("a good body labelled text/plain", wrong_content_type),
    "bad-utf8": Fault("a good body in Latin-1, which is not UTF-8", bad_utf8),
    "truncated-json": Fault("JSON that stops half-way in a complete response", truncated_json),
    "null-body": Fault("the JSON document null with 200", null_body),
    "empty-body": Fault("200 with no body at all", empty_body),
    "empty-choices": Fault(
        "a good answer but for its answering part: choices: [], no content, no output",
        empty_choices,
    ),
    "long-content-length": Fault("Content-Length larger than the body", long_content_length),
    "short-content-length": Fault("Content-Length half the body", short_content_length),
    "gzip": Fault("a good answer, gzip-encoded", gzipped),
    "gzip-bomb": Fault("a small gzip body that decodes to decoded_mib (1024)", gzip_bomb),
}
