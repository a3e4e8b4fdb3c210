"""Small values that pass a schema, one for each field of each object in it."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from pydantic import TypeAdapter

from gateway.http.validation import UNDEFINED
from routing.formats.caller import CallerFormat
from tests.routing.formats.messages.bodies import USE, message_by
from tests.routing.formats.responses.bodies import CALL

Body = dict[str, Any]
# A value, the same with each of some values in one field, and where that is.
Change = tuple[Any, list[Any], str]
_WORDS: Final = ("f", "https://x.example/", "UTC", "1", "data:image/png;base64,AAAA")
# What stands before the conversation, for results that answer a call and items that say nothing.
_BEFORE: Final[dict[str, tuple[str, list[Body]]]] = {
    "chat": ("messages", [{"role": "assistant", "function_call": {"name": "f", "arguments": ""}}]),
    "messages": ("messages", [message_by("assistant", {**USE, "id": "f"})]),
    "responses": ("input", [{"role": "user", "content": "f"}, {**CALL, "call_id": "f"}]),
}


class Walk:
    """Changes of each object in a schema. They are a small value without a field, and the same with
    null there, for each optional field. Given several values, they are one with each of them, for
    every field."""

    def __init__(self, schema: Any, values: Sequence[Any] = (None,)) -> None:
        self._schema = TypeAdapter(schema).core_schema
        self._values = values
        self._named: dict[str, Any] = {}
        self._seen: set[int] = set()

    def changes(self) -> Iterator[Change]:
        return self._changes(self._schema, "")

    def _changes(self, schema: Any, path: str) -> Iterator[Change]:
        least, schema = self._least(schema), self._plain(schema)
        kind = schema["type"]
        if kind == "list":
            inner = self._changes(schema["items_schema"], f"{path}.0")
            yield from (([one], [[each] for each in others], at) for one, others, at in inner)
        elif kind == "dict" and "values_schema" in schema:
            inner = self._changes(schema["values_schema"], f"{path}.k")
            for one, others, at in inner:
                yield least | {"k": one}, [least | {"k": each} for each in others], at
        elif kind == "tagged-union":
            for choice in schema["choices"].values():
                yield from self._changes(choice, path)
        elif kind == "typed-dict" and id(schema) not in self._seen:
            self._seen.add(id(schema))
            for name, field in schema["fields"].items():
                at = f"{path}.{name}".removeprefix(".")
                if name not in least or len(self._values) > 1:
                    yield least, [{**least, name: value} for value in self._values], at
                for one, others, inside in self._changes(field["schema"], at):
                    yield {**least, name: one}, [{**least, name: each} for each in others], inside

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


def complete_path(format: CallerFormat, path: str) -> str:
    """Where in the completed body stands what was at the path."""
    name, before = _BEFORE[format.name]
    return path.replace(f"{name}.0.", f"{name}.{len(before)}.", 1)
