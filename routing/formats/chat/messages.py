"""Chat messages (inference reference 1.2 and 1.4)."""

from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypedDict

from routing.formats.chat.parts import AnsweredImage, OnlyTextPart, Part
from routing.formats.fields import ONE_KIND, REQUIRED, Tagged
from routing.formats.reasoning_details import ReasoningDetail

AnyParts = Annotated[list[Part], Field(min_length=1)]
AnyContent = Annotated[str | AnyParts, ONE_KIND]


class InstructionMessage(TypedDict, total=False):
    role: Annotated[Literal["system", "developer"], REQUIRED]
    content: Annotated[str | list[OnlyTextPart], ONE_KIND, REQUIRED]
    name: str


class UserMessage(TypedDict, total=False):
    role: Annotated[Literal["user"], REQUIRED]
    content: Annotated[AnyContent, REQUIRED]
    name: str


class CalledFunction(TypedDict, total=False):
    name: Annotated[str, REQUIRED]
    arguments: Annotated[str, REQUIRED]


class ToolCall(TypedDict, total=False):
    id: Annotated[str, REQUIRED]
    type: Annotated[Literal["function"], REQUIRED]
    function: Annotated[CalledFunction, REQUIRED]


class AssistantMessage(TypedDict, total=False):
    """An earlier answer. Clients replay answers as they got them, so every field may be null."""

    role: Annotated[Literal["assistant"], REQUIRED]
    content: Annotated[str | list[Part], ONE_KIND] | None
    name: str | None
    refusal: str | None
    reasoning: str | None
    reasoning_content: str | None
    reasoning_details: list[ReasoningDetail] | None
    tool_calls: list[ToolCall] | None
    # As calls were written before there were tools.
    function_call: CalledFunction | None
    images: list[Annotated[AnsweredImage, Tagged("type")]] | None
    audio: dict[str, Any] | None
    annotations: list[dict[str, Any]] | None
    model: str | None


class ToolMessage(TypedDict, total=False):
    role: Annotated[Literal["tool"], REQUIRED]
    content: Annotated[AnyContent, REQUIRED]
    tool_call_id: Annotated[str, REQUIRED]


class FunctionMessage(TypedDict, total=False):
    """The result of a `function_call`."""

    role: Annotated[Literal["function"], REQUIRED]
    name: Annotated[str, REQUIRED]
    content: str | None


Message = Annotated[
    InstructionMessage | UserMessage | AssistantMessage | ToolMessage | FunctionMessage,
    Tagged("role"),
]
