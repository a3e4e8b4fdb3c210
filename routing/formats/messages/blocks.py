"""Input messages and their blocks (inference reference 4.2)."""

from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypedDict

from routing.formats.fields import ONE_KIND, REQUIRED, Tagged
from routing.formats.messages.sources import (
    DocumentBlock,
    ImageBlock,
    Markable,
    ResultBlock,
    SearchResultBlock,
    TextBlock,
)


class ToolUse(Markable, total=False):
    type: Annotated[Literal["tool_use"], REQUIRED]
    id: Annotated[str, REQUIRED]
    name: Annotated[str, REQUIRED]
    input: Any


class ToolResult(Markable, total=False):
    type: Annotated[Literal["tool_result"], REQUIRED]
    tool_use_id: Annotated[str, REQUIRED]
    content: Annotated[str | list[ResultBlock], ONE_KIND]
    is_error: bool


class Thinking(TypedDict, total=False):
    type: Annotated[Literal["thinking"], REQUIRED]
    thinking: Annotated[str, REQUIRED]
    signature: Annotated[str, REQUIRED]


class RedactedThinking(TypedDict, total=False):
    type: Annotated[Literal["redacted_thinking"], REQUIRED]
    data: Annotated[str, REQUIRED]


class ServerToolUse(Markable, total=False):
    type: Annotated[Literal["server_tool_use"], REQUIRED]
    id: Annotated[str, REQUIRED]
    name: Annotated[str, REQUIRED]
    input: Any


class WebSearchResult(Markable, total=False):
    type: Annotated[Literal["web_search_tool_result"], REQUIRED]
    tool_use_id: Annotated[str, REQUIRED]
    content: Annotated[list[dict[str, Any]] | dict[str, Any], ONE_KIND, REQUIRED]


class Compaction(Markable, total=False):
    type: Annotated[Literal["compaction"], REQUIRED]
    content: Annotated[str | None, REQUIRED]
    encrypted_content: str | None


class OtherServerResult(Markable, total=False):
    """What a server tool gave back. Beside the variants of the reference, those that an answer may
    bring (4.3.1), because clients send answers back as they got them."""

    type: Annotated[
        Literal[
            "advisor_tool_result",
            "router_shell_tool_result",
            "router_bash_tool_result",
            "web_fetch_tool_result",
            "code_execution_tool_result",
            "bash_code_execution_tool_result",
            "text_editor_code_execution_tool_result",
            "tool_search_tool_result",
        ],
        REQUIRED,
    ]
    tool_use_id: Annotated[str, REQUIRED]
    content: Annotated[dict[str, Any], REQUIRED]


class ContainerUpload(Markable, total=False):
    type: Annotated[Literal["container_upload"], REQUIRED]
    file_id: Annotated[str, REQUIRED]


class NamedTool(TypedDict, total=False):
    type: Annotated[Literal["tool_reference"], REQUIRED]
    name: Annotated[str, REQUIRED]


class ToolChange(Markable, total=False):
    type: Annotated[Literal["tool_addition", "tool_removal"], REQUIRED]
    tool: Annotated[NamedTool, Tagged("type", opaque=True), REQUIRED]


Block = Annotated[
    TextBlock
    | ImageBlock
    | DocumentBlock
    | SearchResultBlock
    | ToolUse
    | ToolResult
    | Thinking
    | RedactedThinking
    | ServerToolUse
    | WebSearchResult
    | Compaction
    | OtherServerResult
    | ContainerUpload,
    Tagged("type"),
]
SystemBlock = Annotated[TextBlock | ToolChange, Tagged("type")]
SomeBlocks = Annotated[list[Block], Field(min_length=1)]


class UserMessage(TypedDict, total=False):
    role: Annotated[Literal["user"], REQUIRED]
    content: Annotated[str | SomeBlocks, ONE_KIND, REQUIRED]


class AssistantMessage(TypedDict, total=False):
    role: Annotated[Literal["assistant"], REQUIRED]
    content: Annotated[str | list[Block], ONE_KIND, REQUIRED]


class SystemMessage(TypedDict, total=False):
    role: Annotated[Literal["system"], REQUIRED]
    content: Annotated[str | list[SystemBlock], ONE_KIND, REQUIRED]


Message = Annotated[UserMessage | AssistantMessage | SystemMessage, Tagged("role")]
