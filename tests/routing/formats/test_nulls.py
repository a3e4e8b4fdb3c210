"""A null of any optional field asks for the very same thing as its absence."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

import orjson
import pytest

from gateway.http.validation import Issue
from routing.exchange import Prompt, Terms
from routing.formats.caller import CallerFormat
from routing.formats.chat.format import CHAT
from routing.formats.chat.forward import forwarded_body
from routing.formats.chat.request import PARAMETER_VOCABULARY, ChatInvalid, ChatRequest
from routing.formats.chat.schema import ChatBody
from routing.formats.decisions.format import DECISIONS
from routing.formats.decisions.request import questions_of
from routing.formats.decisions.schema import DecisionsBody
from routing.formats.messages.format import MESSAGES
from routing.formats.messages.schema import MessagesBody
from routing.formats.responses.format import RESPONSES
from routing.formats.responses.schema import ResponsesBody
from routing.upstreams.wires import CHAT_KINDS, wire_of
from tests.routing.formats.messages.bodies import USE, said
from tests.routing.formats.responses.bodies import CALL
from tests.routing.formats.schema_walk import Walk

Body = dict[str, Any]

SCHEMAS: Final[dict[CallerFormat, Any]] = {
    CHAT: ChatBody,
    MESSAGES: MessagesBody,
    RESPONSES: ResponsesBody,
    DECISIONS: DecisionsBody,
}
WIRES: Final = {format.name: format.wire for format in SCHEMAS}
# An endpoint that takes whatever a caller can say.
_TAKEN: Final = PARAMETER_VOCABULARY.union(
    {"developer"}, *(schema.__annotations__ for schema in SCHEMAS.values())
)
_TERMS: Final = Terms("up-1", _TAKEN, None, None, None, 4096)
# They are counted over the JSON as it came.
_SIZES: Final = ("text_bytes", "prompt_text_chars")
# What stands before the conversation, for results that answer a call and items that say nothing.
_BEFORE: Final[dict[str, tuple[str, list[Body]]]] = {
    "chat": ("messages", [{"role": "assistant", "function_call": {"name": "f", "arguments": ""}}]),
    "messages": ("messages", [said("assistant", {**USE, "id": "f"})]),
    "responses": ("input", [{"role": "user", "content": "f"}, {**CALL, "call_id": "f"}]),
}


class Refused(list[Issue]):
    """Why a body was refused."""


def completed(format: CallerFormat, body: Body) -> Body:
    name, before = _BEFORE.get(format.name, ("", []))
    if not isinstance(body.get(name), list):
        return body
    return {**body, name: before + body[name]}


def meaning(format: CallerFormat, body: Body) -> Any:
    """All that a body asks for, or why it is refused."""
    try:
        request = format.parse(completed(format, body), session_header=None, models_max=3)
    except ChatInvalid as refusal:
        return Refused(refusal.issues)
    asked = asdict(request)
    for name in ("body", "original", *_SIZES):
        del asked[name]
    return without_nulls([asked, *_sent(request)])


def _sent(request: ChatRequest) -> Iterator[Any]:
    """What upstreams of every kind are sent."""
    if request.decides:
        assert request.original is not None
        yield [request.original["state"], questions_of(request.original)]
        return
    for kind in sorted(CHAT_KINDS):
        body = request.body
        if kind == CHAT.wire:
            limits: dict[str, Any] = {"user_hash": None, "max_tokens_cap": None}
            body = forwarded_body(
                request, upstream_model="up-1", supported=_TAKEN, stream_usage=True, **limits
            )
        original = request.original if kind == WIRES[request.format] else None
        cap = request.max_output_tokens
        prompt = Prompt(body, original, request.stream, cap, None, None, False)
        yield orjson.loads(wire_of(kind).request(prompt, _TERMS).body)


def without_nulls(value: Any) -> Any:
    """A null that the format itself knows may reach its upstream, for which it is absence too."""
    if isinstance(value, dict):
        return {name: without_nulls(each) for name, each in value.items() if each is not None}
    if isinstance(value, list):
        return [without_nulls(each) for each in value]
    return value


def _adds_own(body: Body) -> bool:
    return "additional_tools" in str(body) and "'router:" in str(body)


@pytest.mark.parametrize("format", SCHEMAS, ids=lambda format: format.name)
def test_a_null_is_absence_everywhere(format: CallerFormat) -> None:
    for absent, null in Walk(SCHEMAS[format]).pairs():
        expected = meaning(format, absent)
        assert meaning(format, null) == expected, null
        # Only a choice among tools that are not there is refused, and a tool of the gateway's where
        # none may stand: the test is not empty.
        assert not isinstance(expected, Refused) or "tool_choice" in null or _adds_own(null)
