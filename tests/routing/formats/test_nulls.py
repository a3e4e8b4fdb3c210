"""A null of any optional field asks for the very same thing as its absence."""

import re
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

import orjson
import pytest
from pydantic import TypeAdapter

from gateway.http.validation import UNDEFINED, Issue
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
from tests.routing.formats.messages.bodies import USE, said
from tests.routing.formats.responses.bodies import CALL

Body = dict[str, Any]
Pair = tuple[Any, Any]
_WORDS: Final = ("f", "https://x.example/", "UTC", "1", "data:image/png;base64,AAAA")

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


class Walk:
    """For each optional field of each object in a schema a pair of values that differ in nothing
    but that field: absent in the one, null in the other."""

    def __init__(self, schema: Any) -> None:
        self._schema = TypeAdapter(schema).core_schema
        self._named: dict[str, Any] = {}
        self._seen: set[int] = set()

    def pairs(self) -> Iterator[Pair]:
        return self._pairs(self._schema)

    def _pairs(self, schema: Any) -> Iterator[Pair]:
        least, schema = self._least(schema), self._plain(schema)
        kind = schema["type"]
        if kind == "list":
            yield from (([one], [other]) for one, other in self._pairs(schema["items_schema"]))
        elif kind == "dict" and "values_schema" in schema:
            inner = self._pairs(schema["values_schema"])
            yield from ((least | {"k": one}, least | {"k": other}) for one, other in inner)
        elif kind == "tagged-union":
            for choice in schema["choices"].values():
                yield from self._pairs(choice)
        elif kind == "typed-dict" and id(schema) not in self._seen:
            self._seen.add(id(schema))
            for name, field in schema["fields"].items():
                if name not in least:
                    yield least, {**least, name: None}
                for one, other in self._pairs(field["schema"]):
                    yield {**least, name: one}, {**least, name: other}

    def _least(self, schema: Any) -> Any:
        """A small value that passes."""
        plain = self._plain(schema)
        least = self._least_by_kind(plain)
        if plain["type"] == "str":
            return next(word for word in _WORDS if _passes(schema, word))
        if plain["type"] != "typed-dict" or _passes(schema, least):
            return least
        more = ({**least, name: _WORDS[1]} for name in plain["fields"] if name not in least)
        return next((each for each in more if _passes(schema, each)), least)

    def _least_by_kind(self, schema: Any) -> Any:
        kind = schema["type"]
        if kind == "typed-dict":
            fields = {name: field["schema"] for name, field in schema["fields"].items()}
            return {
                name: self._least(field)
                for name, field in fields.items()
                if field.get("default") is UNDEFINED
            }
        if kind == "tagged-union":
            return self._least(next(iter(schema["choices"].values())))
        if kind == "literal":
            return schema["expected"][0]
        if kind == "list":
            return [self._least(schema["items_schema"])] if schema.get("min_length") else []
        if kind == "dict":
            names = "klmn"[: schema.get("min_length", 0)]
            return {name: self._least(schema["values_schema"]) for name in names}
        return {"bool": False, "any": None}.get(kind, schema.get("ge", 1))

    def _plain(self, schema: Any) -> Any:
        """Without what only judges, or names another schema."""
        while schema["type"] == "definition-ref" or "schema" in schema:
            if schema["type"] == "definitions":
                self._named |= {each["ref"]: each for each in schema["definitions"]}
            name = schema.get("schema_ref")
            schema = self._named[name] if name else schema["schema"]
        return schema


def _passes(schema: Any, value: Any) -> bool:
    """Whether the checks of our own that stand around a value take it, and a text's pattern."""
    while "schema" in schema:
        if schema["type"] == "function-after":
            try:
                schema["function"]["function"](value)
            except ValueError:
                return False
        schema = schema["schema"]
    return re.search(schema.get("pattern") or "", str(value)) is not None


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
    for absent, null in Walk(SCHEMAS[format]).pairs():
        expected = meaning(format, absent)
        assert meaning(format, null) == expected, null
        # Only a choice among tools that are not there is refused, and a tool of the gateway's where
        # none may stand: the test is not empty.
        assert not isinstance(expected, Refused) or "tool_choice" in null or _adds_own(null)
