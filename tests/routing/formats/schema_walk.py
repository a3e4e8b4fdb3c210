"""Small values that pass a schema, one for each field of each object in it."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from pydantic import TypeAdapter

from gateway.http.validation import UNDEFINED
from routing.formats.caller import CallerFormat
from tests.routing.formats.messages.bodies import USE, said
from tests.routing.formats.responses.bodies import CALL

Body = dict[str, Any]
Pair = tuple[Any, Any]
_WORDS: Final = ("f", "https://x.example/", "UTC", "1", "data:image/png;base64,AAAA")
# What stands before the conversation, for results that answer a call and items that say nothing.
_BEFORE: Final[dict[str, tuple[str, list[Body]]]] = {
    "chat": ("messages", [{"role": "assistant", "function_call": {"name": "f", "arguments": ""}}]),
    "messages": ("messages", [said("assistant", {**USE, "id": "f"})]),
    "responses": ("input", [{"role": "user", "content": "f"}, {**CALL, "call_id": "f"}]),
}


class Walk:
    """For each optional field of each object in a schema a pair of values that differ in nothing
    but that field: absent in the one, null in the other. Or, with other values, for every field
    a pair with each of these."""

    def __init__(self, schema: Any, values: Sequence[Any] = (None,)) -> None:
        self._schema = TypeAdapter(schema).core_schema
        self._values = values
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
                if name not in least or len(self._values) > 1:
                    yield from ((least, {**least, name: value}) for value in self._values)
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


def complete_body(format: CallerFormat, body: Body) -> Body:
    """The body with what stands before its conversation."""
    name, before = _BEFORE.get(format.name, ("", []))
    if not isinstance(body.get(name), list):
        return body
    return {**body, name: before + body[name]}
