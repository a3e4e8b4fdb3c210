"""The control plane: paths that begin with an underscore, for tests and never logged."""

import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from routing.simulator.encoding import dumps, encoded
from routing.simulator.exchange import Exchange
from routing.simulator.faults import FAULTS
from routing.simulator.log import Entry
from routing.simulator.personas import Temper
from routing.simulator.script import ScriptError

if TYPE_CHECKING:
    from routing.simulator.http.server import Simulator

WAIT_S_DEFAULT = 5.0

Query = dict[str, str]
Handler = Callable[["Simulator", str, Query, Any], Awaitable[Any]]


class Refused(Exception):
    """A control request that makes no sense, said in one sentence."""


def has_ended(entry: Entry) -> bool:
    return entry.ended_at is not None or entry.lifeline.closed_at is not None


# What `GET /_log?wait=` can wait for.
STATES: dict[str, Callable[[Entry], bool]] = {
    "received": lambda _entry: True,
    "closed": has_ended,
    "ended": has_ended,
    "disconnected": lambda entry: entry.lifeline.closed_at is not None,
}


async def read_log(simulator: "Simulator", _name: str, query: Query, _body: Any) -> Any:
    if "wait" in query:
        return await _waited(simulator, query)
    entries = simulator.log.since(int(query.get("since", "0")))
    persona = query.get("persona")
    return {"requests": [e.shown() for e in entries if persona in (None, e.persona)]}


async def _waited(simulator: "Simulator", query: Query) -> Any:
    state = STATES.get(query["wait"])
    if state is None or "n" not in query:
        raise Refused(f"wait is one of {sorted(STATES)} and needs n")
    n = int(query["n"])

    def ready() -> bool:
        entry = simulator.log.find(n)
        return entry is not None and state(entry)

    done = await simulator.log.wait(ready, float(query.get("timeout", WAIT_S_DEFAULT)))
    found = simulator.log.find(n)
    return {"requests": [found.shown()] if found else [], "timed_out": not done}


async def clear_log(simulator: "Simulator", _name: str, _query: Query, _body: Any) -> Any:
    return {"last_n": simulator.log.clear()}


async def put_script(simulator: "Simulator", name: str, _query: Query, body: Any) -> Any:
    return {"persona": name, "steps": simulator.scripts.put(name, body)}


async def clear_script(simulator: "Simulator", name: str, _query: Query, _body: Any) -> Any:
    simulator.scripts.clear(name or None)
    simulator.verdicts.clear(name or None)
    if not name:
        simulator.gates.clear()
    return {}


async def put_verdicts(simulator: "Simulator", name: str, _query: Query, body: Any) -> Any:
    return {"persona": name, "verdicts": simulator.verdicts.put(name, body)}


async def open_gate(simulator: "Simulator", name: str, _query: Query, _body: Any) -> Any:
    simulator.gates.open(name)
    return simulator.gates.shown(name)


async def read_gate(simulator: "Simulator", name: str, query: Query, _body: Any) -> Any:
    if "wait" in query:
        await simulator.gates.reached(name, float(query.get("timeout", WAIT_S_DEFAULT)))
    return simulator.gates.shown(name)


async def put_persona(simulator: "Simulator", name: str, _query: Query, body: Any) -> Any:
    simulator.personas.describe(name, Temper(**body))
    return {"persona": name, **body}


async def health(_simulator: "Simulator", _name: str, _query: Query, _body: Any) -> Any:
    return {"status": "ok"}


async def faults(_simulator: "Simulator", _name: str, _query: Query, _body: Any) -> Any:
    return {"faults": {name: fault.description for name, fault in FAULTS.items()}}


HANDLERS: dict[tuple[str, str], Handler] = {
    ("GET", "_log"): read_log,
    ("DELETE", "_log"): clear_log,
    ("PUT", "_script"): put_script,
    ("DELETE", "_script"): clear_script,
    ("PUT", "_verdicts"): put_verdicts,
    ("POST", "_gate"): open_gate,
    ("GET", "_gate"): read_gate,
    ("PUT", "_persona"): put_persona,
    ("GET", "_health"): health,
    ("GET", "_faults"): faults,
}


async def control(simulator: "Simulator", exchange: Exchange) -> None:
    """Answer one control request with JSON: 200, 400 for nonsense, 404 for unknown paths."""
    request = exchange.request
    area, _, name = request.path[1:].partition("/")
    handler = HANDLERS.get((request.method, area))
    status, answer = 404, {"error": f"no control path {request.method} {request.path}"}
    if handler is not None:
        try:
            body = json.loads(request.body) if request.body else None
            answer = await handler(simulator, name, dict(parse_qsl(request.query)), body)
            status = 200
        except (ScriptError, Refused, ValueError, TypeError) as error:
            status, answer = 400, {"error": str(error)}
    exchange.answer(status, encoded(dumps(answer)))
