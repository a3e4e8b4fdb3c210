"""Connections that end when they should not."""

from routing.simulator.call import Call
from routing.simulator.faults.base import Fault, begin, content_type


async def reset(call: Call) -> None:
    call.exchange.reset()


async def reset_after_headers(call: Call) -> None:
    call.exchange.head(200, content_type(call))
    await call.exchange.drain()
    call.exchange.reset()


async def close_without_answer(call: Call) -> None:
    call.exchange.cut()


async def die_after_first(call: Call) -> None:
    begin(call, 1)
    call.exchange.cut()


async def die_mid_stream(call: Call) -> None:
    begin(call, 2)
    call.exchange.cut()


async def no_keepalive(call: Call) -> None:
    call.exchange.keep_alive = False
    call.reply()


async def die_idle(call: Call) -> None:
    call.reply()
    call.exchange.connection.close()


async def die_on_reuse(call: Call) -> None:
    call.exchange.connection.dies_on_reuse = True
    call.reply()


FAULTS = {
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
