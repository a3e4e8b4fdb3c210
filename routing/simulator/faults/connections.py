"""Connections that end when they should not, and answers that come too slowly or never end."""

import asyncio
from itertools import count

from routing.simulator.exchange import JSON, SimulatedCall
from routing.simulator.faults.base import Fault, begin_answer, content_type, wait_for_ever


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
