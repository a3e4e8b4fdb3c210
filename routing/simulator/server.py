"""The simulated provider: which request gets which answer, and the control plane of tests.

Paths that begin with an underscore are the control plane; they are never logged."""

import asyncio
import json
import secrets
from collections.abc import Callable
from time import time
from typing import Any
from urllib.parse import parse_qsl

from routing.simulator import play
from routing.simulator.answer import AnswerSeed
from routing.simulator.connection import BadRequest, SimulatedConnection, SimulatedRequest
from routing.simulator.encoding import JsonObject, dumps, encode_text
from routing.simulator.exchange import FaultOptions, SimulatedCall, SimulatedExchange, write_error
from routing.simulator.faults import FAULTS
from routing.simulator.formats import CHAT, DECISIONS, FORMATS, Complaint, SimulatedFormat
from routing.simulator.formats.decisions import find_excess
from routing.simulator.judging import moderate
from routing.simulator.log import LoggedRequest, RequestLog
from routing.simulator.play import (
    DEFAULT,
    Personas,
    PersonaSettings,
    is_intern,
    play_intern,
)
from routing.simulator.prompt import PromptCache, read_prompt
from routing.simulator.script import EMPTY_STEP, Gates, ScriptError, Scripts, ScriptStep, Verdicts

WAIT_S_DEFAULT = 60.0

Query = dict[str, str]


class ControlRefused(Exception):
    """A control request that makes no sense, said in one sentence."""


def has_ended(entry: LoggedRequest) -> bool:
    return entry.ended_at is not None or entry.lifeline.closed_at is not None


# What `GET /_log?wait=` can wait for.
STATES: dict[str, Callable[[LoggedRequest], bool]] = {
    "received": lambda _entry: True,
    "closed": has_ended,
    "ended": has_ended,
    "disconnected": lambda entry: entry.lifeline.closed_at is not None,
}


async def read_log(simulator: "Simulator", query: Query) -> JsonObject:
    """The requests since a number, or one of them once it has come to a state."""
    if "wait" not in query:
        entries = simulator.log.since(int(query.get("since", "0")))
        persona = query.get("persona")
        return {"requests": [e.serialize() for e in entries if persona in (None, e.persona)]}
    state = STATES.get(query["wait"])
    if state is None or "n" not in query:
        raise ControlRefused(f"wait is one of {sorted(STATES)} and needs n")
    n = int(query["n"])

    def ready() -> bool:
        entry = simulator.log.find(n)
        return entry is not None and state(entry)

    done = await simulator.log.wait(ready, float(query.get("timeout", WAIT_S_DEFAULT)))
    found = simulator.log.find(n)
    return {"requests": [found.serialize()] if found else [], "timed_out": not done}


async def control(simulator: "Simulator", request: SimulatedRequest) -> JsonObject | None:
    """What one control request is answered with; None for an unknown path."""
    area, _, name = request.path[1:].partition("/")
    query = dict(parse_qsl(request.query))
    body: Any = json.loads(request.body) if request.body else None
    match request.method, area:
        case "GET", "_log":
            return await read_log(simulator, query)
        case "DELETE", "_log":
            return {"last_n": simulator.log.clear()}
        case "PUT", "_script":
            return {"persona": name, "steps": simulator.scripts.put(name, body)}
        case "DELETE", "_script":
            simulator.scripts.clear(name or None)
            simulator.verdicts.clear(name or None)
            if not name:
                simulator.gates.clear()
            return {}
        case "PUT", "_verdicts":
            return {"persona": name, "verdicts": simulator.verdicts.put(name, body)}
        case "POST", "_gate":
            simulator.gates.open(name)
            return simulator.gates.serialize(name)
        case "GET", "_gate":
            if "wait" in query:
                timeout_s = float(query.get("timeout", WAIT_S_DEFAULT))
                await simulator.gates.wait_until_reached(name, timeout_s)
            return simulator.gates.serialize(name)
        case "PUT", "_persona":
            simulator.personas.describe(name, PersonaSettings(**body))
            return {"persona": name, **body}
        case "PUT", "_outage":
            # The persona refuses every call for some seconds.
            seconds = float(body["seconds"])
            simulator.personas.begin_outage(name, seconds)
            return {"persona": name, "seconds": seconds}
        case "GET", "_health":
            return {"status": "ok"}
        case "GET", "_faults":
            return {"faults": {name: fault.description for name, fault in FAULTS.items()}}
    return None


async def answer_control(simulator: "Simulator", exchange: SimulatedExchange) -> None:
    """Answer one control request with JSON: 200, 400 for nonsense, 404 for unknown paths."""
    request, status = exchange.request, 200
    try:
        answer = await control(simulator, request)
        if answer is None:
            status, answer = 404, {"error": f"no control path {request.method} {request.path}"}
    except (ScriptError, ControlRefused, ValueError, TypeError) as error:
        status, answer = 400, {"error": str(error)}
    exchange.answer(status, encode_text(dumps(answer)))


COUNT_TOKENS = "messages/count_tokens"
NO_OBJECT = "The body must be a JSON object."
MODELS = ("small", "large", "reasoner")
# With a seed the clock of the answers is made up too, so that a run can be repeated exactly.
SEEDED_CREATED = 1_700_000_000
FAULT_PREFIX = "sim/"


class Simulator:
    """All state of one simulated upstream, used from one event loop only."""

    def __init__(self, seed: int | None = None) -> None:
        self.seeded = seed is not None
        self.seed = secrets.randbits(32) if seed is None else seed
        self.log = RequestLog()
        self.scripts = Scripts()
        self.verdicts = Verdicts()
        self.gates = Gates()
        self.personas = Personas(self.seed)
        self._connections: set[SimulatedConnection] = set()
        self._cache = PromptCache()
        self._answers = 0

    async def listen(self, host: str, port: int) -> asyncio.Server:
        """Accept connections; port 0 picks a free one. Raises OSError when the port is taken."""
        loop = asyncio.get_running_loop()
        return await loop.create_server(self._connection, host, port, backlog=4096)

    def disconnect_all(self) -> None:
        for connection in tuple(self._connections):
            connection.transport.abort()

    def _connection(self) -> SimulatedConnection:
        return SimulatedConnection(
            serve=self._serve,
            refuse=self._refuse,
            closed=self.log.wake_waiting,
            living=self._connections,
        )

    def _serve(self, connection: SimulatedConnection, request: SimulatedRequest) -> None:
        if request.path.startswith("/_"):
            unlogged = LoggedRequest(0, "", request, connection.lifeline)
            exchange = SimulatedExchange(connection, request, unlogged, self.log)
            connection.run(answer_control(self, exchange))
            return
        persona, resource = split_path(request.path)
        entry = self.log.add(persona, request, connection.lifeline)
        exchange = SimulatedExchange(connection, request, entry, self.log)
        if connection.dies_on_reuse:
            exchange.cut()
        elif resource in FORMATS and request.method == "POST":
            self._respond(exchange, persona, FORMATS[resource])
        elif resource == COUNT_TOKENS and request.method == "POST":
            self._count(exchange, persona)
        elif resource == "models" and request.method == "GET":
            fields = {"object": "model", "created": 0, "owned_by": "simulated"}
            models = [{"id": f"{FAULT_PREFIX}{name}", **fields} for name in MODELS]
            exchange.answer(200, encode_text(dumps({"object": "list", "data": models})))
        elif resource == "moderations" and request.method == "POST":
            answer = moderate(read_object(request.body) or {})
            exchange.answer(200, encode_text(dumps(answer)))
        elif resource == "redirect-target":
            exchange.answer(200, encode_text(dumps({"simulated": "a redirect was followed"})))
        else:
            message = f"Unknown request URL: {request.method} {request.path}"
            exchange.answer(404, write_error(Complaint(404, message)))

    def _refuse(self, connection: SimulatedConnection, refusal: BadRequest) -> None:
        request = SimulatedRequest("", "", "", {}, keep_alive=False)
        entry = self.log.add("", request, connection.lifeline)
        exchange = SimulatedExchange(connection, request, entry, self.log)
        exchange.answer(refusal.status, write_error(Complaint(refusal.status, str(refusal))))

    def _respond(self, exchange: SimulatedExchange, persona: str, format: SimulatedFormat) -> None:
        body = read_object(exchange.request.body)
        complaint = self._complaint(exchange.request, persona, format, body)
        if body is None or complaint is not None:
            complaint = complaint or Complaint(400, NO_OBJECT)
            exchange.answer(complaint.status, write_error(complaint, format))
            return
        asked = format.read_request(body)
        # The step that a verdict wants played, and the parts of the answer that verdicts say.
        if format is DECISIONS:
            otherwise, judged = self.verdicts.of_questions(persona, body.get("questions"))
        else:
            otherwise, judged = self.verdicts.of_chat(persona, asked)
        step = self.scripts.take(persona) or otherwise
        model, _, suffix = str(body.get("model")).partition("?")
        named = model.removeprefix(FAULT_PREFIX)
        fault = named if named in FAULTS else None
        if step.names_the_answer:
            fault = step.fault
        exchange.entry.fault = fault
        query = exchange.request.query
        plays = not step.override and is_intern(asked)
        self._answers += 1
        created = SEEDED_CREATED + self._answers if self.seeded else int(time())
        call = SimulatedCall(
            exchange,
            persona,
            format,
            body,
            asked,
            AnswerSeed(f"chatcmpl-{self.seed % 2**32:08x}{self._answers:08d}", created),
            FaultOptions(step.options, dict(parse_qsl(suffix)), dict(parse_qsl(query))),
            judged,
            play_intern(asked) if plays else step.override,
            format.use_cache(self._cache, persona, body),
        )
        self._answer(call, step, fault)

    def _complaint(
        self,
        request: SimulatedRequest,
        persona: str,
        format: SimulatedFormat,
        body: JsonObject | None,
    ) -> Complaint | None:
        """Why the request is refused before anything else. A lenient persona reads anything."""
        if body is None:
            return Complaint(400, NO_OBJECT)
        if format is not CHAT and not self.personas.temper(persona).strict:
            return None
        complaint = format.complaint(request.headers, body)
        if complaint is not None or format is not DECISIONS:
            return complaint
        temper = self.personas.temper(persona)
        return find_excess(
            body["questions"],
            questions_max=temper.questions_max,
            options_max=temper.options_max,
            levels_max=temper.levels_max,
        )

    def _count(self, exchange: SimulatedExchange, persona: str) -> None:
        """Count the tokens of a prompt in the messages format, which then needs no limit."""
        format = FORMATS["messages"]
        body = read_object(exchange.request.body)
        given = None if body is None else {"max_tokens": 1, **body}
        complaint = self._complaint(exchange.request, persona, format, given)
        if given is None or complaint is not None:
            complaint = complaint or Complaint(400, NO_OBJECT)
            exchange.answer(complaint.status, write_error(complaint, format))
            return
        tokens = read_prompt(format.read_request(given)["messages"]).tokens
        exchange.answer(200, encode_text(dumps({"input_tokens": tokens})))

    def _answer(self, call: SimulatedCall, step: ScriptStep, fault: str | None) -> None:
        temper = self.personas.temper(call.persona)
        normal = fault is None and step is EMPTY_STEP
        if normal and self.personas.fails_now(call.persona):
            play.refuse_as_flaky(call)
        elif normal and temper.is_instant:
            # No task for the plain case: this is the path that benchmarks take.
            play.answer_at_once(call)
        else:
            work = play.play_step(call, step, fault, temper, self.gates)
            call.exchange.connection.run(work)


def split_path(path: str) -> tuple[str, str]:
    """`/{persona}/v1/{resource}` as (persona, resource); any other path has no resource."""
    before, found, resource = path.partition("/v1/")
    persona = before.lstrip("/") or DEFAULT
    if not found or "/" in persona:
        return persona.partition("/")[0], ""
    return persona, resource


def read_object(data: bytes) -> JsonObject | None:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None
