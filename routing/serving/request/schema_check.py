"""Structured answers that are held to the schema of their request."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from gateway.http.jsonio import JsonObject, usd
from routing.formats.chat.answer import read_text
from routing.formats.chat.request import ChatRequest
from routing.guarding.stream_guard import Keeps
from routing.serving.request.legs import Leg

if TYPE_CHECKING:
    from routing.serving.request.context import RequestContext

TEXT_CHARS_MAX: Final = 65_536
Result = Literal["valid", "mended", "repaired", "invalid", "unchecked"]


@dataclass
class SchemaCheck:
    """What became of one answer. `legs` is the answer that was paid for and not given, `problem`
    what was wrong with the one that was given, or with that one. `prompt_text_chars` are those that
    the answer's endpoint was asked with, where it is the second; else None.

    It hears what a stream says (`add`), and passes it on to `kept`.
    """

    schema: JsonObject
    kept: Keeps | None = None
    result: Result = "unchecked"
    problem: str = ""
    legs: list[Leg] = field(default_factory=list)
    prompt_text_chars: int | None = None
    _pieces: list[str] = field(default_factory=list)
    _chars: int = 0

    def add(self, delta: JsonObject) -> None:
        if self.kept is not None:
            self.kept.add(delta)
        text = read_text(delta.get("content"))
        # Of what is too long, as much is kept as tells that.
        if text and self._chars <= TEXT_CHARS_MAX:
            self._pieces.append(text)
            self._chars += len(text)

    @property
    def text(self) -> str:
        """What the stream said."""
        return "".join(self._pieces)

    def describe(self) -> JsonObject:
        """As records and stages tell it."""
        record: JsonObject = {"result": self.result}
        if self.problem:
            record["problem"] = self.problem
        if self.legs:
            record["unused"] = [leg.describe() for leg in self.legs]
        return record

    def build_stage(self) -> JsonObject:
        """For `router_metadata.pipeline`."""
        cost_nano = sum(leg.cost.total_nano for leg in self.legs)
        data = {name: value for name, value in self.describe().items() if name != "unused"}
        return {
            "type": "response_healing",
            "name": "schema",
            "summary": f"The answer's schema: {self.result}",
            "data": {**data, "calls": 1 + len(self.legs)},
            "cost_usd": usd(cost_nano),
        }


def start_schema_check(context: "RequestContext", kept: Keeps | None) -> SchemaCheck | None:
    """The check of a request with a schema, where its answers are to be held to it; else None."""
    chat: ChatRequest = context.chat
    if context.refusal is not None:
        return None
    guard = context.caller.guard
    is_wanted = guard is not None and guard.enforces_schema
    if not (is_wanted or any(each.enforces_schema() for each in context.plugins)):
        return None
    wanted = chat.body["response_format"]["json_schema"]
    schema = wanted.get("schema")
    if not isinstance(schema, dict) or wanted.get("strict") is False:
        return None
    return SchemaCheck(schema, kept)
