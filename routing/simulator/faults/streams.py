"""Event streams in odd shapes, legal and not. Where no stream was asked for, a good answer."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from routing.simulator.encoding import dumps, encode_text
from routing.simulator.exchange import SSE, SimulatedCall
from routing.simulator.faults.base import CUT_TEXT, Fault
from routing.simulator.formats import SimulatedStream

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
