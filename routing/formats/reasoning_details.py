"""`reasoning_details[]` (inference reference 1.5): what a client replays of an answer.

Items travel unedited in both directions, so only the fields without which an item means nothing
are asked for, and an item of a type not known here passes as it is.
"""

from typing import Annotated, Any, Literal

from typing_extensions import TypedDict

from routing.formats.fields import REQUIRED, Integer, Tagged


class _Detail(TypedDict, total=False):
    id: str | None
    format: str | None
    index: Integer


class TextDetail(_Detail, total=False):
    type: Annotated[Literal["reasoning.text"], REQUIRED]
    text: str | None
    signature: str | None


class SummaryDetail(_Detail, total=False):
    type: Annotated[Literal["reasoning.summary"], REQUIRED]
    summary: Annotated[str, REQUIRED]


class EncryptedDetail(_Detail, total=False):
    type: Annotated[Literal["reasoning.encrypted"], REQUIRED]
    data: Annotated[str, REQUIRED]


class ServerToolCallDetail(_Detail, total=False):
    type: Annotated[Literal["reasoning.server_tool_call"], REQUIRED]
    tool_name: Annotated[str, REQUIRED]
    arguments: Any
    result: Any
    tool_call_id: str | None


ReasoningDetail = Annotated[
    TextDetail | SummaryDetail | EncryptedDetail | ServerToolCallDetail,
    Tagged("type", opaque=True),
]
