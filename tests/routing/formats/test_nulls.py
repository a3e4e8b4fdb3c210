"""A null of any optional field asks for the very same thing as its absence."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

import orjson
import pytest

from gateway.http.validation import Issue
from routing.entities.exchange import Prompt, Terms
from routing.formats.caller import CallerFormat
from routing.formats.chat.format import CHAT
from routing.formats.chat.forward import build_forwarded_body
from routing.formats.chat.request import PARAMETER_VOCABULARY, ChatInvalid, ChatRequest
from routing.formats.chat.schema import ChatBody
from routing.formats.decisions import DECISIONS, DecisionsBody, read_questions
from routing.formats.messages.format import MESSAGES
from routing.formats.messages.schema import MessagesBody
from routing.formats.responses.format import RESPONSES
from routing.formats.responses.schema import ResponsesBody
from routing.upstreams.wires import CHAT_KINDS, get_wire
from tests.routing.formats.schema_walk import Walk, complete_body

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


class Refused(list[Issue]):
    """Why a body was refused."""


def meaning(format: CallerFormat, body: Body) -> Any:
    """All that a body asks for, or why it is refused."""
    try:
        request = format.parse(complete_body(format, body), session_header=None, models_max=3)
    except ChatInvalid as refusal:
        return Refused(refusal.issues)
    asked = asdict(request)
    for name in ("body", "original", *_SIZES):
        del asked[name]
    return without_nulls([asked, *_upstream_bodies(request)])


def _upstream_bodies(request: ChatRequest) -> Iterator[Any]:
    """What upstreams of every kind are sent."""
    if request.decides:
        assert request.original is not None
        yield [request.original["state"], read_questions(request.original)]
        return
    for kind in sorted(CHAT_KINDS):
        body = request.body
        if kind == CHAT.wire:
            limits: dict[str, Any] = {"user_hash": None, "max_tokens_cap": None}
            body = build_forwarded_body(
                request, upstream_model="up-1", supported=_TAKEN, stream_usage=True, **limits
            )
        original = request.original if kind == WIRES[request.format] else None
        cap = request.max_output_tokens
        prompt = Prompt(body, original, request.stream, cap, None, None, False)
        yield orjson.loads(get_wire(kind).request(prompt, _TERMS).body)


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
    for absent, [null], _ in Walk(SCHEMAS[format]).changes():
        expected = meaning(format, absent)
        assert meaning(format, null) == expected, null
        # Two things alone are refused: a choice among tools that are not there, and a tool of the
        # gateway's where none may stand. So the test is not empty.
        assert not isinstance(expected, Refused) or "tool_choice" in null or _adds_own(null)
