"""Content parts of chat messages (inference reference 1.3)."""

from typing import Annotated, Literal

from pydantic import AfterValidator
from typing_extensions import TypedDict

from routing.formats.fields import (
    REQUIRED,
    Base64,
    FileLocation,
    ImageLocation,
    NonEmpty,
    Tagged,
    WebOrDataUrl,
)


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


class InputAudio(TypedDict, total=False):
    data: Annotated[Base64, REQUIRED]
    format: Annotated[NonEmpty, REQUIRED]


class AudioPart(TypedDict, total=False):
    type: Annotated[Literal["input_audio"], REQUIRED]
    input_audio: Annotated[InputAudio, REQUIRED]
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


class AnsweredImageUrl(TypedDict, total=False):
    url: Annotated[WebOrDataUrl, REQUIRED]


class AnsweredImage(TypedDict, total=False):
    """An image that some upstream made: what it answered with may come back, whatever its type."""

    type: Annotated[Literal["image_url"], REQUIRED]
    image_url: Annotated[AnsweredImageUrl, REQUIRED]
