"""A messages body: its blocks and messages, its top level, and the rules between its fields.

What a body says of tools is in `tools.py`."""

from typing import Annotated, Any, Final, Literal

from pydantic import Field, with_config
from typing_extensions import TypedDict

from gateway.http.jsonio import JsonObject
from gateway.http.validation import Issue, shorten
from routing.formats.chat.messages import CacheControl
from routing.formats.chat.schema import (
    SESSION_ID_CHARS_MAX,
    Trace,
    UnitShare,
    find_chat_issues,
)
from routing.formats.fields import (
    ONE_KIND,
    REQUIRED,
    WHOLE,
    Base64,
    Count,
    FileLocation,
    ImageLocation,
    NonEmpty,
    Tagged,
    Temperature,
    tolerant_checker,
)
from routing.formats.messages.tools import CUSTOM, Tool, ToolChoice
from routing.formats.plugins import Plugin
from routing.formats.provider_preferences import CLOSED, ProviderField
from routing.formats.server_tools import SERVER_PREFIX
from routing.formats.stop_conditions import StopConditions

ImageType = Literal["image/jpeg", "image/png", "image/gif", "image/webp"]


class Markable(TypedDict, total=False):
    """A block that may carry an explicit cache breakpoint."""

    cache_control: CacheControl | None


class TextBlock(Markable, total=False):
    type: Annotated[Literal["text"], REQUIRED]
    text: Annotated[str, REQUIRED]
    citations: list[JsonObject] | None


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


class ToolUseBlock(Markable, total=False):
    type: Annotated[Literal["tool_use"], REQUIRED]
    id: Annotated[str, REQUIRED]
    name: Annotated[str, REQUIRED]
    input: Any


class ToolResultBlock(Markable, total=False):
    type: Annotated[Literal["tool_result"], REQUIRED]
    tool_use_id: Annotated[str, REQUIRED]
    content: Annotated[str | list[ResultBlock], ONE_KIND]
    is_error: bool


class ThinkingBlock(TypedDict, total=False):
    type: Annotated[Literal["thinking"], REQUIRED]
    thinking: Annotated[str, REQUIRED]
    signature: Annotated[str, REQUIRED]


class RedactedThinkingBlock(TypedDict, total=False):
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
    content: Annotated[list[JsonObject] | JsonObject, ONE_KIND, REQUIRED]


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
    content: Annotated[JsonObject, REQUIRED]


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
    | ToolUseBlock
    | ToolResultBlock
    | ThinkingBlock
    | RedactedThinkingBlock
    | ServerToolUse
    | WebSearchResult
    | Compaction
    | OtherServerResult
    | ContainerUpload,
    Tagged("type"),
]
SystemBlock = Annotated[TextBlock | ToolChange, Tagged("type")]
SomeBlocks = Annotated[list[Block], Field(min_length=1)]


class UserBlocksMessage(TypedDict, total=False):
    role: Annotated[Literal["user"], REQUIRED]
    content: Annotated[str | SomeBlocks, ONE_KIND, REQUIRED]


class AssistantBlocksMessage(TypedDict, total=False):
    role: Annotated[Literal["assistant"], REQUIRED]
    content: Annotated[str | list[Block], ONE_KIND, REQUIRED]


class SystemBlocksMessage(TypedDict, total=False):
    role: Annotated[Literal["system"], REQUIRED]
    content: Annotated[str | list[SystemBlock], ONE_KIND, REQUIRED]


Message = Annotated[
    UserBlocksMessage | AssistantBlocksMessage | SystemBlocksMessage, Tagged("role")
]


USER_CHARS_MAX: Final = 256
THINKING_TOKENS_MIN: Final = 1024
TASK_TOKENS_MIN: Final = 20_000

WholeAmount = Annotated[int, Field(ge=0), WHOLE]
Display = Literal["summarized", "omitted", "updates"]


@with_config(CLOSED)
class Fallback(TypedDict, total=False):
    model: Annotated[str, REQUIRED]


class ThinkingOn(TypedDict, total=False):
    type: Annotated[Literal["enabled"], REQUIRED]
    budget_tokens: Annotated[int, Field(ge=THINKING_TOKENS_MIN), WHOLE, REQUIRED]
    display: Display | None


class ThinkingOtherwise(TypedDict, total=False):
    type: Annotated[Literal["disabled", "adaptive", "between_tools"], REQUIRED]
    display: Display | None


class JsonOutput(TypedDict, total=False):
    type: Annotated[Literal["json_schema"], REQUIRED]
    schema: Annotated[JsonObject, REQUIRED]


class TaskBudget(TypedDict, total=False):
    type: Annotated[Literal["tokens"], REQUIRED]
    total: Annotated[int, Field(ge=TASK_TOKENS_MIN), WHOLE, REQUIRED]
    remaining: WholeAmount | None


class OutputConfig(TypedDict, total=False):
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None
    format: Annotated[JsonOutput, Tagged("type")] | None
    task_budget: Annotated[TaskBudget, Tagged("type")] | None


class ContextEdit(TypedDict, total=False):
    type: Annotated[
        Literal["clear_tool_uses_20250919", "clear_thinking_20251015", "compact_20260112"],
        REQUIRED,
    ]


class ContextManagement(TypedDict, total=False):
    edits: list[Annotated[ContextEdit, Tagged("type")]]


class Metadata(TypedDict, total=False):
    user_id: str | None


class MessagesBody(TypedDict, total=False):
    """Every named parameter; keys without a rule are allowed and stay in the original body."""

    model: Annotated[str, REQUIRED]
    messages: Annotated[list[Message], Field(min_length=1), REQUIRED]
    max_tokens: Count
    system: Annotated[str | list[OnlyTextBlock], ONE_KIND]
    models: list[str]
    fallbacks: list[Fallback] | None
    stream: bool
    temperature: Temperature
    top_p: UnitShare
    top_k: WholeAmount
    stop_sequences: list[str]
    tools: list[Tool]
    tool_choice: ToolChoice
    thinking: Annotated[ThinkingOn | ThinkingOtherwise, Tagged("type")]
    output_config: OutputConfig
    cache_control: CacheControl
    context_management: ContextManagement | None
    metadata: Metadata
    service_tier: Literal["auto", "default", "fast", "flex", "priority", "scale", "standard_only"]
    speed: Literal["fast", "standard"] | None
    stop_server_tools_when: StopConditions
    plugins: list[Plugin]
    provider: ProviderField | None
    route: Literal["fallback", "sort"] | None
    preset: str
    session_id: Annotated[str, Field(max_length=SESSION_ID_CHARS_MAX)]
    trace: Trace
    user: Annotated[str, Field(max_length=USER_CHARS_MAX)]


check_messages = tolerant_checker(MessagesBody)


def find_messages_issues(checked: MessagesBody, models_max: int) -> list[Issue]:
    """What is wrong between the fields; empty when nothing is."""
    issues: list[Issue] = []
    models, fallbacks = checked.get("models"), checked.get("fallbacks")
    for field, entries in (("models", models), ("fallbacks", fallbacks)):
        if entries and len(entries) > models_max:
            issues.append(Issue(field, f"Too big: expected array to have <={models_max} items"))
    if models and fallbacks:
        issues.append(Issue("fallbacks", "Invalid input: cannot be combined with models"))
    choice: Any = checked.get("tool_choice", {"type": "auto"})
    tools: list[Any] = checked.get("tools", [])
    if choice["type"] == "any" and not tools:
        issues.append(Issue("tool_choice", "Invalid input: any needs at least one tool"))
    elif choice["type"] == "tool" and choice["name"] not in map(_tool_name, tools):
        text = f'Invalid input: no tool named "{shorten(choice["name"])}" in tools'
        issues.append(Issue("tool_choice.name", text))
    thinking: Any = checked.get("thinking", {})
    cap = checked.get("max_tokens")
    if cap is not None and thinking.get("budget_tokens", 0) >= cap:
        text = f"Too big: expected number to be <{cap} (max_tokens)"
        issues.append(Issue("thinking.budget_tokens", text))
    return issues


def find_agent_issues(body: JsonObject) -> list[Issue]:
    """What is wrong with the tools that are models of their own. The checked body has lost the
    settings that are not for this format, so this one is the caller's."""
    tools: list[Any] = body.get("tools", [])
    return find_chat_issues(
        {
            "tools": [
                {"type": tool.get("type") or CUSTOM, "parameters": tool.get("parameters", {})}
                for tool in tools
            ]
        }
    )


def _tool_name(tool: JsonObject) -> str | None:
    kind = tool.get("type") or ""
    server_tool = kind.removeprefix(SERVER_PREFIX) if kind.startswith(SERVER_PREFIX) else None
    return tool.get("name") or server_tool
