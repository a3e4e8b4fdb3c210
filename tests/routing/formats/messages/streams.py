"""Streams and endings for the tests here."""

from typing import Any

from routing.entities.exchange import Native
from routing.formats.caller import AnswerIdentity, Ending
from routing.formats.messages.format import MessagesStream
from tests.routing.formats.messages.bodies import parse_fields

SERVED = AnswerIdentity("gen-1-x", 1, "acme/small", "Acme")
USAGE: dict[str, Any] = {
    "prompt_tokens": 10,
    "completion_tokens": 5,
    "total_tokens": 15,
    "prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 2},
    "completion_tokens_details": {"reasoning_tokens": 4},
    "cost": 0.25,
    "cost_details": {"upstream_inference_cost": None},
    "is_byok": False,
}


def ending(finish: str = "stop", native_finish: str | None = None, **fields: Any) -> Ending:
    return Ending(finish, native_finish, USAGE, None, None, None, None, None)._replace(**fields)


def stream(**fields: Any) -> MessagesStream:
    return MessagesStream(SERVED, parse_fields(**fields))


def write_stream(*deltas: dict[str, Any], end: Ending | None = None, **fields: Any) -> bytes:
    """All of one stream."""
    writer = stream(**fields)
    said = writer.write_opening() + b"".join(writer.delta(delta) for delta in deltas)
    return said + writer.write_ending(end or ending())


def native(name: str, raw: bytes, value: dict[str, Any]) -> Native:
    return Native("anthropic", name, raw, value)


def call(index: int, arguments: str = "", **names: Any) -> dict[str, Any]:
    """A delta with one piece of a tool call; `id` and `name` begin it."""
    function = {"arguments": arguments, **{key: names[key] for key in ("name",) if key in names}}
    begun = {"id": names["id"], "type": "function"} if "id" in names else {}
    return {"tool_calls": [{"index": index, "function": function, **begun}]}
