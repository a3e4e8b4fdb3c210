"""What a run asks its person, and which answers are taken."""

import json
from dataclasses import dataclass
from typing import Any, Literal

PERMISSION_OPTIONS = ("allow_once", "allow_always", "reject_once", "reject_always")
DISMISSED = "cancel"
FIELD_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
}
FIELDS_MAX = 20
MESSAGE_CHARS_MAX = 4000


class NotAcceptable(Exception):
    """An answer that the question does not offer; it stays open."""


@dataclass(frozen=True)
class Answered:
    """An answer that was taken: a yes or a no, whether it holds for later, what was filled in."""

    accepted: bool
    always: bool = False
    content: Any = None
    dismissed: bool = False


@dataclass(frozen=True)
class Permission:
    """Whether `operation` may be done."""

    operation: str

    def shown(self) -> dict[str, Any]:
        """The question as the caller sees it."""
        options = list(PERMISSION_OPTIONS)
        return {"kind": "permission", "operation": self.operation, "options": options}

    def read(self, answer: str) -> Answered:
        """Raises `NotAcceptable`."""
        if answer == DISMISSED:
            return Answered(accepted=False, dismissed=True)
        if answer not in PERMISSION_OPTIONS:
            raise NotAcceptable(f"answer with one of {', '.join(PERMISSION_OPTIONS)}, cancel")
        verb, _, how_long = answer.partition("_")
        return Answered(accepted=verb == "allow", always=how_long == "always")


@dataclass(frozen=True)
class Field:
    """One thing to fill in. `options`, where there are any, are the only values taken."""

    name: str
    type: Literal["string", "number", "integer", "boolean"] = "string"
    required: bool = True
    options: list[str] | None = None

    def shown(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"name": self.name, "type": self.type, "required": self.required}
        return shown if self.options is None else shown | {"options": self.options}

    def check(self, value: Any) -> None:
        """Raises `NotAcceptable`."""
        is_odd_bool = isinstance(value, bool) and self.type != "boolean"
        if is_odd_bool or not isinstance(value, FIELD_TYPES[self.type]):
            raise NotAcceptable(f"{self.name} must be of type {self.type}")
        if self.options is not None and str(value) not in self.options:
            raise NotAcceptable(f"{self.name} must be one of {', '.join(self.options)}")


@dataclass(frozen=True)
class Elicitation:
    """Something only the person can say."""

    message: str
    fields: tuple[Field, ...]

    def shown(self) -> dict[str, Any]:
        """The question as the caller sees it."""
        fields = [one.shown() for one in self.fields]
        return {"kind": "elicitation", "message": self.message, "fields": fields}

    def read(self, answer: str) -> Answered:
        """Raises `NotAcceptable`."""
        given = _object(answer)
        action = given.get("action")
        if action in ("decline", DISMISSED):
            return Answered(accepted=False, dismissed=action == DISMISSED)
        if action != "accept":
            raise NotAcceptable("action must be accept, decline or cancel")
        return Answered(accepted=True, content=self._content(given.get("content")))

    def _content(self, content: Any) -> dict[str, Any]:
        if not isinstance(content, dict):
            raise NotAcceptable("content must be an object")
        if unknown := sorted(content.keys() - {one.name for one in self.fields}):
            raise NotAcceptable(f"unknown fields: {', '.join(unknown)}")
        for one in self.fields:
            if content.get(one.name) is not None:
                one.check(content[one.name])
            elif one.required:
                raise NotAcceptable(f"{one.name} is required")
        return content


def _object(answer: str) -> dict[str, Any]:
    try:
        given = json.loads(answer)
    except ValueError as error:
        raise NotAcceptable("the answer must be a JSON object") from error
    if not isinstance(given, dict):
        raise NotAcceptable("the answer must be a JSON object")
    return given
