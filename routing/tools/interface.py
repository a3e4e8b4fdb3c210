"""The interface of server tools: offered to a model as functions, run by the gateway."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

from accounts.caller import Caller
from gateway.http.jsonio import JsonObject

NO_COST = Fraction(0)


class ToolFailed(Exception):
    """A call that failed. The text goes to the model, which continues."""


class Definition(NamedTuple):
    """The function that the model sees. If a function of the caller has the same `name`, the tool
    gets another one. `parameters` is the JSON schema of the arguments."""

    name: str
    description: str
    parameters: JsonObject


@dataclass(slots=True)
class Result:
    """The result of a call.

    For the model: `text`. For the caller, `item` has the tool's own fields of the output item in
    responses. `block` and `block_type` make the result block in messages. `annotations` and
    `images` (chat-shaped) are added to the answer. For the record: `web_searches` (priced by the
    endpoint that asked), `search_results`, `search_engine`, `fetches`. `cost_nano` is the tool's
    own fee in nano-USD, charged whatever becomes of the answer. The cost of models that the tool
    asked is not in it. `calls` are calls of the caller's functions that the tool waits for. The
    caller of the tool sets its type as `tool`, and `started` and `ended`, in monotonic seconds.
    """

    text: str
    item: JsonObject = field(default_factory=dict)
    block_type: str | None = None
    block: Any = None
    annotations: list[JsonObject] = field(default_factory=list)
    images: list[JsonObject] = field(default_factory=list)
    web_searches: int = 0
    search_results: int = 0
    search_engine: str | None = None
    fetches: int = 0
    cost_nano: Fraction = NO_COST
    failed: bool = False
    calls: list[JsonObject] = field(default_factory=list)
    tool: str = ""
    started: float | None = None
    ended: float | None = None


class ModelAnswer(NamedTuple):
    """Another model's answer: a chat message, and the model's id. If it called functions,
    `messages` is its conversation up to their results."""

    message: JsonObject
    model: str
    messages: list[JsonObject] | None = None

    @property
    def text(self) -> str:
        content = self.message.get("content")
        return content if isinstance(content, str) else ""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool may know of the request, and how it asks models.

    `deadline` is in monotonic seconds. `messages` is the conversation up to the call, chat-shaped,
    not to be changed. `model` is the id of the model that called, `had_to_call` whether
    `tool_choice` made it. `ask` sends a chat body to another model, or to the same one where it
    names none; it raises `ToolFailed` where there is no answer.
    """

    caller: Caller
    messages: list[JsonObject]
    model: str
    deadline: float
    now: Callable[[], datetime]
    ask: Callable[[JsonObject], ModelAnswer]
    had_to_call: bool = False


class Tool(Protocol):
    """One tool of one request; it may count how often it was used.

    `time_s` is how long a call may take, None for the setting; the request's deadline ends it in
    any case.
    """

    definition: Definition
    time_s: float | None

    def run(self, arguments: JsonObject, context: ToolContext) -> Result:
        """Carry out one call. Calls of one turn run side by side. Raises `ToolFailed`."""


# From the caller's checked `parameters`.
Maker = Callable[[JsonObject], Tool]
