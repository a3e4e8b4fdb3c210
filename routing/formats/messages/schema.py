"""The top level of a messages body (inference reference 4.1)."""

from typing import Annotated, Any, Final, Literal

from pydantic import Field, with_config
from typing_extensions import TypedDict

from routing.formats.chat.parts import CacheControl
from routing.formats.chat.schema import SESSION_ID_CHARS_MAX, Trace, UnitShare
from routing.formats.fields import (
    ONE_KIND,
    REQUIRED,
    WHOLE,
    Count,
    Tagged,
    Temperature,
    tolerant_checker,
)
from routing.formats.messages.blocks import Message
from routing.formats.messages.sources import OnlyTextBlock
from routing.formats.messages.tools import Tool, ToolChoice
from routing.formats.plugins import Plugin
from routing.formats.provider_preferences import CLOSED, ProviderField
from routing.formats.stop_conditions import StopConditions

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
    schema: Annotated[dict[str, Any], REQUIRED]


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
