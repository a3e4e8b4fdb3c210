"""Answers that come too slowly, or never end."""

import asyncio
from itertools import count

from routing.simulator.call import Call
from routing.simulator.exchange import JSON
from routing.simulator.faults.base import Fault, begin, content_type, for_ever

FILLER = b"x" * 16_384
LAST_EVENT = b"event: "


async def hang(_call: Call) -> None:
    await for_ever()


async def headers_then_silence(call: Call) -> None:
    call.exchange.head(200, content_type(call))
    await for_ever()


async def silence_mid_stream(call: Call) -> None:
    begin(call, 2)
    await for_ever()


async def drip(call: Call) -> None:
    call.exchange.head(200, content_type(call))
    await _drip(call, b'data: {"id":"' if call.stream else b'{"id":"')


async def drip_headers(call: Call) -> None:
    await _drip(call, b"HTTP/1.1 200 OK\r\nX-Filler: ")


async def _drip(call: Call, start: bytes) -> None:
    interval_s = call.options.number("interval_s", 1.0)
    for n in count():
        call.exchange.send(start[n : n + 1] or b"x")
        await asyncio.sleep(interval_s)


async def slow_stream(call: Call) -> None:
    pause_s = call.options.number("pause_s", 25.0)
    if not call.stream:
        await asyncio.sleep(pause_s)
        call.reply()
        return
    events = begin(call, 1)
    await asyncio.sleep(pause_s)
    call.exchange.send(*events.content[1:], *events.ending())
    call.exchange.finish()


async def endless_headers(call: Call) -> None:
    call.exchange.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
    for n in count():
        call.exchange.raw(b"X-Filler-%d: %b\r\n" % (n, FILLER[:1000]))
        await call.exchange.drain()


async def endless_body(call: Call) -> None:
    exchange = call.exchange
    if call.stream:
        content = begin(call, 1).content[0]
        # Only the delta: what opened the block before it is said once.
        filler = content[content.rindex(LAST_EVENT) :] if LAST_EVENT in content else content
        filler *= max(1, len(FILLER) // len(filler))
    else:
        exchange.head(200, JSON)
        exchange.send(b'{"id":"')
        filler = FILLER
    while True:
        exchange.send(filler)
        await exchange.drain()


FAULTS = {
    "hang": Fault("reads the request and never answers", hang),
    "headers-then-silence": Fault("200 and headers, then nothing", headers_then_silence),
    "silence-mid-stream": Fault("two content chunks, then nothing", silence_mid_stream),
    "drip": Fault("headers, then one body byte per interval_s (1) for ever", drip),
    "drip-headers": Fault("one header byte per interval_s (1) for ever", drip_headers),
    "slow-stream": Fault("one content chunk, a pause_s (25), then ends well", slow_stream),
    "endless-headers": Fault("200 and header lines without end", endless_headers),
    "endless-body": Fault("well-formed content without end", endless_body),
}
