"""What a run asks its person, and which answers are taken."""

import json
from dataclasses import dataclass
from typing import Any, Literal

from interns.agent.events import JsonObject

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


class AnswerNotOffered(Exception):
    """An answer that the question does not offer; it stays open."""


@dataclass(frozen=True)
class GivenAnswer:
    """An answer that was taken: a yes or a no, whether it holds for later, what was filled in."""

    accepted: bool
    always: bool = False
    content: Any = None
    dismissed: bool = False


@dataclass(frozen=True)
class AskPermission:
    """Whether `operation` may be done."""

    operation: str

    def serialize(self) -> JsonObject:
        """The question as the caller sees it."""
        options = list(PERMISSION_OPTIONS)
        return {"kind": "permission", "operation": self.operation, "options": options}

    def read(self, answer: str) -> GivenAnswer:
        """Raises `AnswerNotOffered`."""
        if answer == DISMISSED:
            return GivenAnswer(accepted=False, dismissed=True)
        if answer not in PERMISSION_OPTIONS:
            raise AnswerNotOffered(f"answer with one of {', '.join(PERMISSION_OPTIONS)}, cancel")
        verb, _, how_long = answer.partition("_")
        return GivenAnswer(accepted=verb == "allow", always=how_long == "always")


@dataclass(frozen=True)
class FormField:
    """One thing to fill in. `options`, where there are any, are the only values taken."""

    name: str
    type: Literal["string", "number", "integer", "boolean"] = "string"
    required: bool = True
    options: list[str] | None = None

    def serialize(self) -> JsonObject:
        shown: JsonObject = {"name": self.name, "type": self.type, "required": self.required}
        return shown if self.options is None else shown | {"options": self.options}

    def check(self, value: object) -> None:
        """Raises `AnswerNotOffered`."""
        is_odd_bool = isinstance(value, bool) and self.type != "boolean"
        if is_odd_bool or not isinstance(value, FIELD_TYPES[self.type]):
            raise AnswerNotOffered(f"{self.name} must be of type {self.type}")
        if self.options is not None and str(value) not in self.options:
            raise AnswerNotOffered(f"{self.name} must be one of {', '.join(self.options)}")


@dataclass(frozen=True)
class AskForm:
    """Something only the person can say."""

    message: str
    fields: tuple[FormField, ...]

    def serialize(self) -> JsonObject:
        """The question as the caller sees it."""
        fields = [one.serialize() for one in self.fields]
        return {"kind": "elicitation", "message": self.message, "fields": fields}

    def read(self, answer: str) -> GivenAnswer:
        """Raises `AnswerNotOffered`."""
        try:
            given = json.loads(answer)
        except ValueError as error:
            raise AnswerNotOffered("the answer must be a JSON object") from error
        if not isinstance(given, dict):
            raise AnswerNotOffered("the answer must be a JSON object")
        action = given.get("action")
        if action in ("decline", DISMISSED):
            return GivenAnswer(accepted=False, dismissed=action == DISMISSED)
        if action != "accept":
            raise AnswerNotOffered("action must be accept, decline or cancel")
        return GivenAnswer(accepted=True, content=self._check_content(given.get("content")))

    def _check_content(self, content: object) -> JsonObject:
        if not isinstance(content, dict):
            raise AnswerNotOffered("content must be an object")
        if unknown := sorted(content.keys() - {one.name for one in self.fields}):
            raise AnswerNotOffered(f"unknown fields: {', '.join(unknown)}")
        for one in self.fields:
            if content.get(one.name) is not None:
                one.check(content[one.name])
            elif one.required:
                raise AnswerNotOffered(f"{one.name} is required")
        return content
