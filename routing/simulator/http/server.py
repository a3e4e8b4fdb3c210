"""The simulated provider: which request gets which answer."""

import asyncio
import json
import secrets
from time import time
from typing import Any
from urllib.parse import parse_qsl

from routing.simulator import play
from routing.simulator.cache import PromptCache
from routing.simulator.call import Call, Options, error_body
from routing.simulator.encoding import dumps, encoded
from routing.simulator.exchange import Exchange
from routing.simulator.faults import FAULTS
from routing.simulator.formats import CHAT, DECISIONS, FORMATS, Complaint, Format
from routing.simulator.formats.decisions.request_rules import over_limits
from routing.simulator.http.connection import Connection
from routing.simulator.http.control import control
from routing.simulator.http.request import BadRequest, Request
from routing.simulator.intern import acts_as_intern, next_step
from routing.simulator.log import Entry, Log
from routing.simulator.personas import DEFAULT, Personas
from routing.simulator.prompt import read_prompt
from routing.simulator.script import EMPTY_STEP, Gates, Scripts, Step
from routing.simulator.verdicts import Verdicts
from routing.simulator.wire import Identity

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
        self.log = Log()
        self.scripts = Scripts()
        self.verdicts = Verdicts()
        self.gates = Gates()
        self.personas = Personas(self.seed)
        self._connections: set[Connection] = set()
        self._cache = PromptCache()
        self._answers = 0

    async def listen(self, host: str, port: int) -> asyncio.Server:
        """Accept connections; port 0 picks a free one. Raises OSError when the port is taken."""
        loop = asyncio.get_running_loop()
        return await loop.create_server(self._connection, host, port, backlog=4096)

    def disconnect_all(self) -> None:
        for connection in tuple(self._connections):
            connection.transport.abort()

    def _connection(self) -> Connection:
        return Connection(
            serve=self._serve,
            refuse=self._refuse,
            closed=self.log.changed,
            living=self._connections,
        )

    def _serve(self, connection: Connection, request: Request) -> None:
        if request.path.startswith("/_"):
            unlogged = Entry(0, "", request, connection.lifeline)
            exchange = Exchange(connection, request, unlogged, self.log)
            connection.run(control(self, exchange))
            return
        persona, resource = split_path(request.path)
        entry = self.log.add(persona, request, connection.lifeline)
        exchange = Exchange(connection, request, entry, self.log)
        if connection.dies_on_reuse:
            exchange.cut()
        elif resource in FORMATS and request.method == "POST":
            self._respond(exchange, persona, FORMATS[resource])
        elif resource == COUNT_TOKENS and request.method == "POST":
            self._count(exchange, persona)
        elif resource == "models" and request.method == "GET":
            exchange.answer(200, model_list())
        elif resource == "redirect-target":
            exchange.answer(200, encoded(dumps({"simulated": "a redirect was followed"})))
        else:
            message = f"Unknown request URL: {request.method} {request.path}"
            exchange.answer(404, error_body(Complaint(404, message)))

    def _refuse(self, connection: Connection, refusal: BadRequest) -> None:
        request = Request("", "", "", {}, keep_alive=False)
        entry = self.log.add("", request, connection.lifeline)
        exchange = Exchange(connection, request, entry, self.log)
        exchange.answer(refusal.status, error_body(Complaint(refusal.status, str(refusal))))

    def _respond(self, exchange: Exchange, persona: str, format: Format) -> None:
        body = read_object(exchange.request.body)
        complaint = self._complaint(exchange.request, persona, format, body)
        if body is None or complaint is not None:
            complaint = complaint or Complaint(400, NO_OBJECT)
            exchange.answer(complaint.status, error_body(complaint, format))
            return
        asked = format.asked(body)
        otherwise, judged = self._judged(persona, format, body, asked)
        step = self.scripts.take(persona) or otherwise
        model, _, suffix = str(body.get("model")).partition("?")
        fault = step.fault if step.names_the_answer else fault_named(model)
        exchange.entry.fault = fault
        query = exchange.request.query
        plays = not step.override and acts_as_intern(asked)
        call = Call(
            exchange,
            persona,
            format,
            body,
            asked,
            self._identity(),
            Options(step.options, dict(parse_qsl(suffix)), dict(parse_qsl(query))),
            judged,
            next_step(asked) if plays else step.override,
            format.cached(self._cache, persona, body),
        )
        self._answer(call, step, fault)

    def _complaint(
        self, request: Request, persona: str, format: Format, body: dict[str, Any] | None
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
        return over_limits(
            body["questions"],
            questions_max=temper.questions_max,
            options_max=temper.options_max,
            levels_max=temper.levels_max,
        )

    def _judged(
        self, persona: str, format: Format, body: dict[str, Any], asked: dict[str, Any]
    ) -> tuple[Step, dict[str, Any]]:
        """The step that a verdict wants played, and the parts of the answer that verdicts say."""
        if format is DECISIONS:
            return self.verdicts.of_questions(persona, body.get("questions"))
        return self.verdicts.of_chat(persona, asked)

    def _count(self, exchange: Exchange, persona: str) -> None:
        """Count the tokens of a prompt in the messages format, which then needs no limit."""
        format = FORMATS["messages"]
        body = read_object(exchange.request.body)
        given = None if body is None else {"max_tokens": 1, **body}
        complaint = self._complaint(exchange.request, persona, format, given)
        if given is None or complaint is not None:
            complaint = complaint or Complaint(400, NO_OBJECT)
            exchange.answer(complaint.status, error_body(complaint, format))
            return
        tokens = read_prompt(format.asked(given)["messages"]).tokens
        exchange.answer(200, encoded(dumps({"input_tokens": tokens})))

    def _answer(self, call: Call, step: Step, fault: str | None) -> None:
        temper = self.personas.temper(call.persona)
        normal = fault is None and step is EMPTY_STEP
        if normal and self.personas.fails_now(call.persona):
            play.refuse_as_flaky(call)
        elif normal and temper.is_instant:
            # No task for the plain case: this is the path that benchmarks take.
            play.speak_at_once(call)
        else:
            work = play.play(call, step, fault, temper, self.gates)
            call.exchange.connection.run(work)

    def _identity(self) -> Identity:
        self._answers += 1
        n = self._answers
        created = SEEDED_CREATED + n if self.seeded else int(time())
        return Identity(f"chatcmpl-{self.seed % 2**32:08x}{n:08d}", created)


def split_path(path: str) -> tuple[str, str]:
    """`/{persona}/v1/{resource}` as (persona, resource); any other path has no resource."""
    before, found, resource = path.partition("/v1/")
    persona = before.lstrip("/") or DEFAULT
    if not found or "/" in persona:
        return persona.partition("/")[0], ""
    return persona, resource


def read_object(data: bytes) -> dict[str, Any] | None:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def fault_named(model: str) -> str | None:
    name = model.removeprefix(FAULT_PREFIX)
    return name if name in FAULTS else None


def model_list() -> bytes:
    models = [
        {"id": f"{FAULT_PREFIX}{name}", "object": "model", "created": 0, "owned_by": "simulated"}
        for name in MODELS
    ]
    return encoded(dumps({"object": "list", "data": models}))
