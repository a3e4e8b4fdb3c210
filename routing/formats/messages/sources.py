"""What input blocks of a message are made of (inference reference 4.2): text, images, documents."""

from typing import Annotated, Any, Literal

from typing_extensions import TypedDict

from routing.formats.chat.parts import CacheControl
from routing.formats.fields import (
    ONE_KIND,
    REQUIRED,
    Base64,
    FileLocation,
    ImageLocation,
    NonEmpty,
    Tagged,
)

ImageType = Literal["image/jpeg", "image/png", "image/gif", "image/webp"]


class Markable(TypedDict, total=False):
    """A block that may carry an explicit cache breakpoint."""

    cache_control: CacheControl | None


class TextBlock(Markable, total=False):
    type: Annotated[Literal["text"], REQUIRED]
    text: Annotated[str, REQUIRED]
    citations: list[dict[str, Any]] | None


class Base64Image(TypedDict, total=False):
    type: Annotated[Literal["base64"], REQUIRED]
    media_type: Annotated[ImageType, REQUIRED]
    data: Annotated[Base64, REQUIRED]


class ImageUrlSource(TypedDict, total=False):
    type: Annotated[Literal["url"], REQUIRED]
    url: Annotated[ImageLocation, REQUIRED]


class UrlSource(TypedDict, total=False):
    type: Annotated[Literal["url"], REQUIRED]
    url: Annotated[FileLocation, REQUIRED]


class ImageBlock(Markable, total=False):
    type: Annotated[Literal["image"], REQUIRED]
    source: Annotated[Base64Image | ImageUrlSource, Tagged("type"), REQUIRED]


class Base64Pdf(TypedDict, total=False):
    type: Annotated[Literal["base64"], REQUIRED]
    media_type: Annotated[Literal["application/pdf"], REQUIRED]
    data: Annotated[Base64, REQUIRED]


class PlainText(TypedDict, total=False):
    type: Annotated[Literal["text"], REQUIRED]
    media_type: Annotated[Literal["text/plain"], REQUIRED]
    data: Annotated[str, REQUIRED]


InnerBlock = Annotated[TextBlock | ImageBlock, Tagged("type")]


class ContentSource(TypedDict, total=False):
    type: Annotated[Literal["content"], REQUIRED]
    content: Annotated[str | list[InnerBlock], ONE_KIND, REQUIRED]


class FileSource(TypedDict, total=False):
    type: Annotated[Literal["file"], REQUIRED]
    file_id: Annotated[NonEmpty, REQUIRED]


class CitationsSwitch(TypedDict, total=False):
    enabled: bool


class DocumentBlock(Markable, total=False):
    type: Annotated[Literal["document"], REQUIRED]
    source: Annotated[
        Base64Pdf | PlainText | ContentSource | UrlSource | FileSource, Tagged("type"), REQUIRED
    ]
    title: str | None
    context: str | None
    citations: CitationsSwitch | None


OnlyTextBlock = Annotated[TextBlock, Tagged("type")]


class SearchResultBlock(Markable, total=False):
    type: Annotated[Literal["search_result"], REQUIRED]
    source: Annotated[str, REQUIRED]
    title: Annotated[str, REQUIRED]
    content: Annotated[list[OnlyTextBlock], REQUIRED]
    citations: CitationsSwitch | None


class ToolReference(Markable, total=False):
    type: Annotated[Literal["tool_reference"], REQUIRED]
    tool_name: Annotated[str, REQUIRED]


ResultBlock = Annotated[
    TextBlock | ImageBlock | DocumentBlock | SearchResultBlock | ToolReference, Tagged("type")
]
