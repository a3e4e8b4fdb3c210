"""Answers one request as the script, the fault or the persona says: how fast and how reliably.

Here is what the model of an intern says, too."""

import asyncio
import json
import re
from dataclasses import dataclass
from random import Random
from time import monotonic

from routing.simulator.encoding import JsonObject, dumps, encode_text
from routing.simulator.exchange import JSON, SSE, Headers, SimulatedCall, write_error
from routing.simulator.faults import FAULTS
from routing.simulator.formats import Complaint, StreamSpeaker
from routing.simulator.prompt import list_functions, read_text
from routing.simulator.script import Gates, ScriptStep

DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class PersonaSettings:
    """`tokens_per_s` 0 means no pause between tokens; `error_rate` is the share of 503s, 0 to 1.

    One that is not `strict` takes messages and responses that a real provider would refuse. The
    maxima are how much a request for decisions may ask; None is no limit.
    """

    first_token_s: float = 0.0
    tokens_per_s: float = 0.0
    error_rate: float = 0.0
    strict: bool = True
    questions_max: int | None = None
    options_max: int | None = None
    levels_max: int | None = None

    @property
    def is_instant(self) -> bool:
        return not (self.first_token_s or self.tokens_per_s or self.error_rate)

    def token_s(self) -> float:
        return 1 / self.tokens_per_s if self.tokens_per_s else 0.0


BUILT_IN = {
    "swift": PersonaSettings(first_token_s=0.02, tokens_per_s=400),
    "steady": PersonaSettings(first_token_s=0.06, tokens_per_s=120),
    "thrifty": PersonaSettings(first_token_s=0.2, tokens_per_s=40, error_rate=0.05),
}
INSTANT = PersonaSettings()


class Personas:
    """The tempers by name. Any name is a persona; one that nobody described is instant."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._tempers = dict(BUILT_IN)
        self._dice: dict[str, Random] = {}
        self._outages: dict[str, float] = {}

    def temper(self, name: str) -> PersonaSettings:
        return self._tempers.get(name, INSTANT)

    def describe(self, name: str, temper: PersonaSettings) -> None:
        self._tempers[name] = temper

    def begin_outage(self, name: str, seconds: float) -> None:
        """Have it fail every call until then."""
        self._outages[name] = monotonic() + seconds

    def fails_now(self, name: str) -> bool:
        """Whether this call is one of the share that fails: the same calls under the same seed. In
        an outage each is."""
        if self._outages and self._outages.get(name, 0.0) > monotonic():
            return True
        rate = self.temper(name).error_rate
        if not rate:
            return False
        dice = self._dice.get(name)
        if dice is None:
            # A string seeds Random the same way in every process.
            dice = self._dice[name] = Random(f"{self._seed}:{name}")  # noqa: S311 - a simulation.
        return dice.random() < rate


DONE = b"data: [DONE]\n\n"
FLAKY_MESSAGE = "Simulated provider is busy. This persona refuses a share of its calls."


async def play_step(
    call: SimulatedCall, step: ScriptStep, fault: str | None, temper: PersonaSettings, gates: Gates
) -> None:
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
        await answer_at_pace(call, temper, step.headers.items())


def refuse_as_flaky(call: SimulatedCall) -> None:
    call.refuse(Complaint(503, FLAKY_MESSAGE, "server_error", "busy"))


def send_fixed(call: SimulatedCall, step: ScriptStep) -> None:
    """A status and a body, as spelled out in the step; an error status brings its own body."""
    status = step.status or 200
    if step.body is not None:
        content_type, body = "text/plain", encode_text(step.body)
    elif step.json is None and status >= 400:
        complaint = Complaint(status, f"Simulated {status}.", "simulated_error")
        content_type, body = JSON, write_error(complaint, call.format)
    else:
        content_type, body = JSON, encode_text(dumps(step.json))
    call.exchange.answer(status, body, step.content_type or content_type, step.headers.items())


async def send_events(call: SimulatedCall, step: ScriptStep, gates: Gates) -> None:
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
            exchange.send(*write_scripted_event(call, speaker, item))
    exchange.finish()


def write_scripted_event(
    call: SimulatedCall, speaker: StreamSpeaker, item: str | JsonObject
) -> list[bytes]:
    """The bytes of one scripted event."""
    if isinstance(item, str):
        return [DONE if item == "[DONE]" else encode_text(item)]
    if "json" in item:
        return [call.format.event(item["json"])]
    if "text" in item:
        return [speaker.text(item["text"])]
    if "failure" in item:
        return [speaker.failure(item["failure"])]
    ended = speaker.finish(item["finish"])
    return [*filter(None, ended), speaker.done] if speaker.done else list(filter(None, ended))


def answer_at_once(call: SimulatedCall, headers: Headers = ()) -> None:
    if call.stream:
        call.exchange.answer_stream(call.events().events(), headers)
    else:
        call.exchange.answer(200, call.json_body(), JSON, headers)


async def answer_at_pace(call: SimulatedCall, temper: PersonaSettings, headers: Headers) -> None:
    """A normal answer at the persona's pace."""
    if temper.is_instant:
        answer_at_once(call, headers)
        return
    if not call.stream:
        answer = call.answer()
        await asyncio.sleep(temper.first_token_s + len(answer.pieces) * temper.token_s())
        body = encode_text(dumps(call.format.document(call.body, answer)))
        call.exchange.answer(200, body, JSON, headers)
        return
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


# --- The model of an intern -----------------------------------------------------------------------
# It writes a file, asks its person one question and says so, where a request names a model with
# "intern" and offers an intern's tools. What it does next follows from the conversation since the
# last user message alone, so it keeps no state.

WRITE, READ, LIST, ASK = "write_file", "read_file", "list_files", "ask_person"
FILE = "notes.md"
ASKS_FOR_FILES = re.compile(r"\b(files?|list|still there)\b", re.IGNORECASE)
ASKS_TO_READ = re.compile(r"\bread (\S+)", re.IGNORECASE)
QUESTION = "Simulated question: which title shall the notes have?"


def is_intern(body: JsonObject) -> bool:
    names = {function.get("name") for function in list_functions(body)}
    return "intern" in str(body.get("model")) and {WRITE, ASK} <= names


def play_intern(body: JsonObject) -> JsonObject:
    """The next text or call, as an override of the answer."""
    # The last user text, and what tools returned after it.
    user_text = ""
    results: list[str] = []
    for message in body["messages"]:
        role = message.get("role") if isinstance(message, dict) else None
        if role == "user":
            user_text, results = read_text(message.get("content")), []
        elif role == "tool":
            results.append(read_text(message.get("content")))
    if found := ASKS_TO_READ.search(user_text):
        return _use_tool(READ, {"path": found[1].rstrip(".,?!")}, results, "The file says:")
    if ASKS_FOR_FILES.search(user_text):
        return _use_tool(LIST, {}, results, "These files are here:")
    if not results:
        return _call_tool(WRITE, {"path": FILE, "content": f"# Notes\n\n{user_text}\n"})
    if len(results) == 1:
        fields = [{"name": "title", "type": "string", "required": True}]
        return _call_tool(ASK, {"message": QUESTION, "fields": fields})
    return {"text": f"Simulated intern: {FILE} is written. You answered: {results[1]}"}


def _use_tool(tool: str, arguments: JsonObject, results: list[str], said: str) -> JsonObject:
    if results:
        return {"text": f"Simulated intern: {said} {results[0]}"}
    return _call_tool(tool, arguments)


def _call_tool(name: str, arguments: JsonObject) -> JsonObject:
    return {"tool_calls": [{"name": name, "arguments": json.dumps(arguments)}]}
