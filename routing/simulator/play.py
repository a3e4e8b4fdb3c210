"""Answering one request: as the script, the fault or the persona's temper says."""

import asyncio
from typing import Any

from routing.simulator.call import Call, error_body
from routing.simulator.encoding import dumps, encoded
from routing.simulator.exchange import JSON, SSE, Headers
from routing.simulator.faults import FAULTS
from routing.simulator.formats import Complaint, Speaker
from routing.simulator.personas import Temper
from routing.simulator.script import Gates, Step

DONE = b"data: [DONE]\n\n"
FLAKY_MESSAGE = "Simulated provider is busy. This persona refuses a share of its calls."


async def play(call: Call, step: Step, fault: str | None, temper: Temper, gates: Gates) -> None:
    """Answer one request, held back as the step says."""
    if step.delay_s:
        await asyncio.sleep(step.delay_s)
    if step.gate is not None:
        await gates.wait(step.gate)
    if fault is not None:
        await FAULTS[fault].run(call)
    elif step.events is not None:
        await send_events(call, step, gates)
    elif step.is_fixed:
        send_fixed(call, step)
    else:
        await speak(call, temper, step.headers.items())


def refuse_as_flaky(call: Call) -> None:
    call.refuse(Complaint(503, FLAKY_MESSAGE, "server_error", "busy"))


def send_fixed(call: Call, step: Step) -> None:
    """A status and a body, as spelled out in the step; an error status brings its own body."""
    status = step.status or 200
    if step.body is not None:
        content_type, body = "text/plain", encoded(step.body)
    elif step.json is None and status >= 400:
        complaint = Complaint(status, f"Simulated {status}.", "simulated_error")
        content_type, body = JSON, error_body(complaint, call.format)
    else:
        content_type, body = JSON, encoded(dumps(step.json))
    call.exchange.answer(status, body, step.content_type or content_type, step.headers.items())


async def send_events(call: Call, step: Step, gates: Gates) -> None:
    """An event stream, item by item, as spelled out in the step."""
    exchange = call.exchange
    content_type = step.content_type or SSE
    exchange.head(step.status or 200, content_type, step.headers.items())
    speaker = call.speaker()
    for item in step.events or []:
        if isinstance(item, dict) and "pause_s" in item:
            await asyncio.sleep(item["pause_s"])
        elif isinstance(item, dict) and "gate" in item:
            await gates.wait(item["gate"])
        elif isinstance(item, dict) and "cut" in item:
            await exchange.drain()
            (exchange.reset if item["cut"] == "reset" else exchange.cut)()
            return
        else:
            exchange.send(*said(call, speaker, item))
    exchange.finish()


def said(call: Call, speaker: Speaker, item: str | dict[str, Any]) -> list[bytes]:
    """The bytes of one scripted event."""
    if isinstance(item, str):
        return [DONE if item == "[DONE]" else encoded(item)]
    if "json" in item:
        return [call.format.event(item["json"])]
    if "text" in item:
        return [speaker.text(item["text"])]
    if "failure" in item:
        return [speaker.failure(item["failure"])]
    ended = speaker.finish(item["finish"])
    return [*filter(None, ended), speaker.done] if speaker.done else list(filter(None, ended))


def speak_at_once(call: Call, headers: Headers = ()) -> None:
    if call.stream:
        call.exchange.answer_stream(call.events().events(), headers)
    else:
        call.exchange.answer(200, call.json_body(), JSON, headers)


async def speak(call: Call, temper: Temper, headers: Headers) -> None:
    """A normal answer at the persona's pace."""
    if temper.is_instant:
        speak_at_once(call, headers)
    elif call.stream:
        await _speak_in_chunks(call, temper, headers)
    else:
        answer = call.answer()
        await asyncio.sleep(temper.first_token_s + len(answer.pieces) * temper.token_s())
        body = encoded(dumps(call.format.document(call.body, answer)))
        call.exchange.answer(200, body, JSON, headers)


async def _speak_in_chunks(call: Call, temper: Temper, headers: Headers) -> None:
    exchange, events = call.exchange, call.events()
    now = asyncio.get_running_loop().time
    exchange.head(200, SSE, headers)
    await asyncio.sleep(temper.first_token_s)
    exchange.send(events.opening)
    # Each token has its own due time, so that late wake-ups do not add up.
    started, token_s = now(), temper.token_s()
    for n, item in enumerate(events.content):
        await asyncio.sleep(max(0.0, started + n * token_s - now()))
        exchange.send(item)
        await exchange.drain()
    exchange.send(*events.ending())
    exchange.finish()
