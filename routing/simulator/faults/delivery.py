"""How an answer arrives: connections that end too early, answers that stall, streams in odd shapes.

Where a fault is of streams and no stream was asked for, the answer is a good one."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from itertools import count

from routing.simulator.encoding import dumps, encode_text
from routing.simulator.exchange import JSON, SSE, SimulatedCall
from routing.simulator.faults.base import (
    CUT_TEXT,
    Fault,
    begin_answer,
    content_type,
    wait_for_ever,
)
from routing.simulator.formats import SimulatedStream


async def reset(call: SimulatedCall) -> None:
    call.exchange.reset()


async def reset_after_headers(call: SimulatedCall) -> None:
    call.exchange.head(200, content_type(call))
    await call.exchange.drain()
    call.exchange.reset()


async def close_without_answer(call: SimulatedCall) -> None:
    call.exchange.cut()


async def die_after_first(call: SimulatedCall) -> None:
    begin_answer(call, 1)
    call.exchange.cut()


async def die_mid_stream(call: SimulatedCall) -> None:
    begin_answer(call, 2)
    call.exchange.cut()


async def no_keepalive(call: SimulatedCall) -> None:
    call.exchange.keep_alive = False
    call.reply()


async def die_idle(call: SimulatedCall) -> None:
    call.reply()
    call.exchange.connection.close()


async def die_on_reuse(call: SimulatedCall) -> None:
    call.exchange.connection.dies_on_reuse = True
    call.reply()


CUT_FAULTS = {
    "reset": Fault("resets the connection (RST) once the request is read", reset),
    "reset-after-headers": Fault("sends 200 and headers, then resets", reset_after_headers),
    "close": Fault("closes the connection (FIN) without a byte of answer", close_without_answer),
    "die-after-first": Fault("one content chunk, then closes without an end", die_after_first),
    "die-mid-stream": Fault("two content chunks, then closes without an end", die_mid_stream),
    "no-keepalive": Fault("answers well with Connection: close, and closes", no_keepalive),
    "die-idle": Fault("answers well with keep-alive, then closes the idle connection", die_idle),
    "die-on-reuse": Fault(
        "answers well, then closes without a byte when the connection is used again", die_on_reuse
    ),
}


FILLER = b"x" * 16_384
LAST_EVENT = b"event: "


async def hang(_call: SimulatedCall) -> None:
    await wait_for_ever()


async def headers_then_silence(call: SimulatedCall) -> None:
    call.exchange.head(200, content_type(call))
    await wait_for_ever()


async def silence_mid_stream(call: SimulatedCall) -> None:
    begin_answer(call, 2)
    await wait_for_ever()


async def drip(call: SimulatedCall) -> None:
    call.exchange.head(200, content_type(call))
    await _drip(call, b'data: {"id":"' if call.stream else b'{"id":"')


async def drip_headers(call: SimulatedCall) -> None:
    await _drip(call, b"HTTP/1.1 200 OK\r\nX-Filler: ")


async def _drip(call: SimulatedCall, start: bytes) -> None:
    interval_s = call.options.number("interval_s", 1.0)
    for n in count():
        call.exchange.send(start[n : n + 1] or b"x")
        await asyncio.sleep(interval_s)


async def slow_stream(call: SimulatedCall) -> None:
    pause_s = call.options.number("pause_s", 25.0)
    if not call.stream:
        await asyncio.sleep(pause_s)
        call.reply()
        return
    events = begin_answer(call, 1)
    await asyncio.sleep(pause_s)
    call.exchange.send(*events.content[1:], *events.ending())
    call.exchange.finish()


async def endless_headers(call: SimulatedCall) -> None:
    call.exchange.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
    for n in count():
        call.exchange.raw(b"X-Filler-%d: %b\r\n" % (n, FILLER[:1000]))
        await call.exchange.drain()


async def endless_body(call: SimulatedCall) -> None:
    exchange = call.exchange
    if call.stream:
        content = begin_answer(call, 1).content[0]
        # Only the delta: the opening of the block before it comes once.
        filler = content[content.rindex(LAST_EVENT) :] if LAST_EVENT in content else content
        filler *= max(1, len(FILLER) // len(filler))
    else:
        exchange.head(200, JSON)
        exchange.send(b'{"id":"')
        filler = FILLER
    while True:
        exchange.send(filler)
        await exchange.drain()


STALL_FAULTS = {
    "hang": Fault("reads the request and never answers", hang),
    "headers-then-silence": Fault("200 and headers, then nothing", headers_then_silence),
    "silence-mid-stream": Fault("two content chunks, then nothing", silence_mid_stream),
    "drip": Fault("headers, then one body byte per interval_s (1) for ever", drip),
    "drip-headers": Fault("one header byte per interval_s (1) for ever", drip_headers),
    "slow-stream": Fault("one content chunk, a pause_s (25), then ends well", slow_stream),
    "endless-headers": Fault("200 and header lines without end", endless_headers),
    "endless-body": Fault("well-formed content without end", endless_body),
}


MULTIBYTE_TEXT = "Simulated: Gr\u00fc\u00dfe \u65e5\u672c\u8a9e \U0001f98a \u20ac"
# Apart enough in time for the kernel to send each byte in a segment of its own.
WRITE_GAP_S = 0.001
SLICE_BYTES = 65_536
FAILURE = "Simulated failure inside the stream."

Shape = Callable[[SimulatedStream], Iterable[bytes]]


def reshape_stream(shape: Shape) -> Callable[[SimulatedCall], Awaitable[None]]:
    """A fault that sends the events of a good stream in another shape."""

    async def run(call: SimulatedCall) -> None:
        if call.stream:
            call.exchange.answer_stream(shape(call.events()))
        else:
            call.reply()

    return run


def replace_everywhere(old: bytes, new: bytes) -> Shape:
    return lambda stream: [item.replace(old, new) for item in stream.events()]


def no_done(stream: SimulatedStream) -> Iterable[bytes]:
    return stream.events()[:-1]


def comments(stream: SimulatedStream) -> Iterable[bytes]:
    for item in stream.events():
        yield b": simulated keep-alive\n\n"
        yield b":\nevent: message\nid: 7\nretry: 1000\n" + item


def garbage(stream: SimulatedStream) -> Iterable[bytes]:
    return [stream.opening, stream.content[0], b"data: {this is no JSON\n\n", *stream.content[1:]]


def after_done(stream: SimulatedStream) -> Iterable[bytes]:
    return [*stream.events(), stream.content[0], *stream.closing]


def bom(stream: SimulatedStream) -> Iterable[bytes]:
    return [b"\xef\xbb\xbf" + stream.opening, *stream.events()[1:]]


def multi_line(stream: SimulatedStream) -> Iterable[bytes]:
    """One JSON document over two data lines, as the event-stream format allows."""
    return [item.replace(b',"', b'\ndata: ,"', 1) for item in stream.events()]


def drop_last_newline(stream: SimulatedStream) -> Iterable[bytes]:
    *whole, last = stream.events()
    return [*whole, last.rstrip(b"\n")]


def not_objects(stream: SimulatedStream) -> Iterable[bytes]:
    odd = [b"data: null\n\n", b"data: []\n\n", b"data:\n\n", b'data: "x"\n\n']
    return [stream.opening, *odd, stream.events()[-1]]


def one_write(stream: SimulatedStream) -> Iterable[bytes]:
    return [b"".join(stream.events())]


async def error_inside(call: SimulatedCall) -> None:
    if call.stream:
        call.exchange.answer_stream([call.speaker().failure(FAILURE)])
    else:
        broken = call.format.build_broken(call.body, call.answer())
        call.exchange.answer(200, encode_text(dumps(broken)))


async def error_mid(call: SimulatedCall) -> None:
    if not call.stream:
        call.reply(text="Simulated answer", finish_reason="error")
        return
    speaker, (first, second, *_) = call.speaker(), CUT_TEXT.split(" ")
    said = [speaker.opening(), speaker.text(first), speaker.text(f" {second}")]
    call.exchange.answer_stream([*said, speaker.failure(FAILURE)])


async def split_utf8(call: SimulatedCall) -> None:
    """Every byte outside ASCII travels in a TCP segment and an HTTP chunk of its own."""
    if not call.stream:
        call.reply(text=MULTIBYTE_TEXT)
        return
    call.exchange.head(200, SSE)
    for item in call.events(text=MULTIBYTE_TEXT).events():
        for part in _split_outside_ascii(item):
            call.exchange.send(part)
            await asyncio.sleep(WRITE_GAP_S)
    call.exchange.finish()


def _split_outside_ascii(data: bytes) -> Iterable[bytes]:
    start = 0
    for at, byte in enumerate(data):
        if byte >= 0x80:
            if at > start:
                yield data[start:at]
            yield data[at : at + 1]
            start = at + 1
    yield data[start:]


def one_large_event(text_bytes: int) -> Callable[[SimulatedCall], Awaitable[None]]:
    async def run(call: SimulatedCall) -> None:
        if not call.stream:
            call.reply()
            return
        events = call.events(text="x" * text_bytes)
        call.exchange.head(200, SSE)
        for item in events.events():
            for at in range(0, len(item), SLICE_BYTES):
                call.exchange.send(item[at : at + SLICE_BYTES])
                await call.exchange.drain()
        call.exchange.finish()

    return run


STREAM_FAULTS = {
    "sse-no-done": Fault("a good stream without [DONE]", reshape_stream(no_done)),
    "sse-no-space": Fault(
        "data: without the space", reshape_stream(replace_everywhere(b"data: ", b"data:"))
    ),
    "sse-crlf": Fault(
        "lines that end in CR LF", reshape_stream(replace_everywhere(b"\n", b"\r\n"))
    ),
    "sse-cr": Fault("lines that end in CR alone", reshape_stream(replace_everywhere(b"\n", b"\r"))),
    "sse-comments": Fault("comments and event, id, retry lines between", reshape_stream(comments)),
    "sse-bom": Fault("a byte-order mark before the first event", reshape_stream(bom)),
    "sse-multi-line": Fault("each document over two data lines", reshape_stream(multi_line)),
    "sse-one-write": Fault("all events in one chunk", reshape_stream(one_write)),
    "sse-unended": Fault("no blank line after the last event", reshape_stream(drop_last_newline)),
    "sse-not-objects": Fault(
        "data lines that are JSON but no objects", reshape_stream(not_objects)
    ),
    "sse-garbage": Fault("a data line that is no JSON, after one chunk", reshape_stream(garbage)),
    "sse-after-done": Fault("more chunks after [DONE]", reshape_stream(after_done)),
    "sse-split-utf8": Fault("multi-byte characters split over TCP writes", split_utf8),
    "sse-error-inside": Fault("an error object in a 200, before any content", error_inside),
    "sse-error-mid": Fault("an error object after two chunks", error_mid),
    "sse-big-event": Fault("one event of 5 MB", one_large_event(5_000_000)),
    "sse-huge-event": Fault("one event of 20 MB", one_large_event(20_000_000)),
}
