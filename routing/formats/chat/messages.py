"""Chat messages and their content parts."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from typing_extensions import TypedDict

from gateway.http.jsonio import JsonObject
from routing.formats.fields import (
    ONE_KIND,
    REQUIRED,
    Base64,
    FileLocation,
    ImageLocation,
    NonEmpty,
    Tagged,
    WebOrDataUrl,
)
from routing.formats.reasoning import ReasoningDetail


class CacheControl(TypedDict, total=False):
    type: Annotated[Literal["ephemeral"], REQUIRED]
    ttl: Literal["5m", "1h"]


class CacheBreakpoint(TypedDict, total=False):
    mode: Annotated[Literal["explicit"], REQUIRED]


class TextPart(TypedDict, total=False):
    type: Annotated[Literal["text"], REQUIRED]
    text: Annotated[str, REQUIRED]
    cache_control: CacheControl
    prompt_cache_breakpoint: CacheBreakpoint | None


class ImageUrl(TypedDict, total=False):
    url: Annotated[ImageLocation, REQUIRED]
    detail: Literal["auto", "low", "high", "original"]


class ImagePart(TypedDict, total=False):
    type: Annotated[Literal["image_url"], REQUIRED]
    image_url: Annotated[ImageUrl, REQUIRED]
    cache_control: CacheControl


class AudioContent(TypedDict, total=False):
    data: Annotated[Base64, REQUIRED]
    format: Annotated[NonEmpty, REQUIRED]


class AudioPart(TypedDict, total=False):
    type: Annotated[Literal["input_audio"], REQUIRED]
    input_audio: Annotated[AudioContent, REQUIRED]
    cache_control: CacheControl


class VideoUrl(TypedDict, total=False):
    url: Annotated[WebOrDataUrl, REQUIRED]


class VideoPart(TypedDict, total=False):
    type: Annotated[Literal["video_url", "input_video"], REQUIRED]
    video_url: Annotated[VideoUrl, REQUIRED]
    cache_control: CacheControl


class FileContent(TypedDict, total=False):
    file_data: FileLocation
    file_id: str
    filename: str


def _has_a_source(file: FileContent) -> FileContent:
    if "file_data" not in file and "file_id" not in file:
        raise ValueError("Invalid input: expected file_data or file_id")
    return file


class FilePart(TypedDict, total=False):
    type: Annotated[Literal["file"], REQUIRED]
    file: Annotated[FileContent, AfterValidator(_has_a_source), REQUIRED]
    cache_control: CacheControl


Part = Annotated[TextPart | ImagePart | AudioPart | VideoPart | FilePart, Tagged("type")]
OnlyTextPart = Annotated[TextPart, Tagged("type")]


class GeneratedImageUrl(TypedDict, total=False):
    url: Annotated[WebOrDataUrl, REQUIRED]


class GeneratedImage(TypedDict, total=False):
    """An image that some upstream made: what it answered with may come back, whatever its type."""

    type: Annotated[Literal["image_url"], REQUIRED]
    image_url: Annotated[GeneratedImageUrl, REQUIRED]


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


class FunctionToolCall(TypedDict, total=False):
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
    tool_calls: list[FunctionToolCall] | None
    # As calls were written before there were tools.
    function_call: CalledFunction | None
    images: list[Annotated[GeneratedImage, Tagged("type")]] | None
    audio: JsonObject | None
    annotations: list[JsonObject] | None
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
