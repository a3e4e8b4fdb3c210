"""The top level of a chat-completions body (inference reference 1.1)."""

from typing import Annotated, Any, Final, Literal

from pydantic import Field
from typing_extensions import TypedDict

from routing.formats.chat.messages import Message
from routing.formats.chat.parts import CacheControl
from routing.formats.chat.response_format import ResponseFormat
from routing.formats.chat.tools import FunctionCall, FunctionDefinition, Tool, ToolChoice
from routing.formats.fields import (
    INT64_MAX,
    INT64_MIN,
    ONE_KIND,
    REQUIRED,
    WHOLE,
    Amount,
    Count,
    Integer,
    Tagged,
    Temperature,
    tolerant_checker,
)
from routing.formats.plugins import Plugin
from routing.formats.provider_preferences import ProviderField
from routing.formats.reasoning import Effort, ReasoningField
from routing.formats.server_tools import ContextSize, ImageSetting
from routing.formats.stop_conditions import StopConditions

SESSION_ID_CHARS_MAX: Final = 256

UnitShare = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Penalty = Annotated[float, Field(ge=-2, le=2, allow_inf_nan=False)]
LogitBias = dict[str, Annotated[float, Field(ge=-100, le=100, allow_inf_nan=False)]]
StopStrings = Annotated[list[str], Field(max_length=4)]
Metadata = Annotated[
    dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]],
    Field(max_length=16),
]


class StreamOptions(TypedDict, total=False):
    include_usage: bool


class UsageOptions(TypedDict, total=False):
    include: bool


class AudioOutput(TypedDict, total=False):
    voice: Annotated[str, REQUIRED]
    format: Annotated[str, REQUIRED]


class PredictedText(TypedDict, total=False):
    type: Annotated[Literal["text"], REQUIRED]
    text: Annotated[str, REQUIRED]


PredictedParts = list[Annotated[PredictedText, Tagged("type")]]


class Prediction(TypedDict, total=False):
    type: Annotated[Literal["content"], REQUIRED]
    content: Annotated[str | PredictedParts, ONE_KIND, REQUIRED]


class PromptCacheOptions(TypedDict, total=False):
    mode: Annotated[Literal["explicit"], REQUIRED]
    ttl: str | None


class DebugOptions(TypedDict, total=False):
    echo_upstream_body: bool


class WebSearchOptions(TypedDict, total=False):
    search_context_size: ContextSize
    user_location: dict[str, Any] | None


class Trace(TypedDict, total=False):
    trace_id: str
    trace_name: str
    span_name: str
    generation_name: str
    parent_span_id: str


class ChatBody(TypedDict, total=False):
    """Every named parameter; keys without a rule are allowed and stay in the original body."""

    messages: Annotated[list[Message], Field(min_length=1), REQUIRED]
    model: str
    models: list[str]
    route: Literal["fallback", "sort"] | None
    provider: ProviderField | None
    preset: str
    plugins: list[Plugin]
    stream: bool
    stream_options: StreamOptions | None
    usage: UsageOptions | None
    max_completion_tokens: Count | None
    max_tokens: Count | None
    temperature: Temperature | None
    top_p: UnitShare | None
    top_k: Integer | None
    min_p: Amount | None
    top_a: UnitShare | None
    frequency_penalty: Penalty | None
    presence_penalty: Penalty | None
    repetition_penalty: Temperature | None
    logit_bias: LogitBias | None
    logprobs: bool | None
    top_logprobs: Annotated[int, Field(ge=0, le=20), WHOLE] | None
    seed: Annotated[int, Field(ge=INT64_MIN, le=INT64_MAX), WHOLE] | None
    stop: Annotated[str | StopStrings, ONE_KIND] | None
    n: Annotated[int, Field(ge=1, le=1), WHOLE] | None
    tools: list[Tool]
    tool_choice: ToolChoice
    functions: list[FunctionDefinition]
    function_call: FunctionCall
    parallel_tool_calls: bool | None
    max_tool_calls: Integer | None
    stop_server_tools_when: StopConditions
    response_format: ResponseFormat
    structured_outputs: bool | None
    reasoning: ReasoningField
    reasoning_effort: Effort | None
    include_reasoning: bool | None
    verbosity: Literal["low", "medium", "high", "xhigh", "max"] | None
    modalities: list[Literal["text", "image", "audio"]]
    audio: AudioOutput
    image_config: dict[str, ImageSetting]
    prediction: Prediction | None
    cache_control: CacheControl
    prompt_cache_key: str | None
    prompt_cache_options: PromptCacheOptions | None
    service_tier: Literal["auto", "default", "fast", "flex", "priority", "scale"] | None
    debug: DebugOptions
    metadata: Metadata
    session_id: Annotated[str, Field(max_length=SESSION_ID_CHARS_MAX)]
    trace: Trace
    user: str
    transforms: list[str]
    web_search_options: WebSearchOptions


check_body = tolerant_checker(ChatBody)
