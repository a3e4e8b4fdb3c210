"""The top level of a responses body (inference reference 5.1)."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field
from typing_extensions import TypedDict

from routing.formats.chat.parts import CacheControl
from routing.formats.chat.schema import (
    SESSION_ID_CHARS_MAX,
    DebugOptions,
    LogitBias,
    Penalty,
    PromptCacheOptions,
    StopStrings,
    Trace,
    UnitShare,
)
from routing.formats.fields import (
    INT64_MAX,
    INT64_MIN,
    ONE_KIND,
    REQUIRED,
    WHOLE,
    Amount,
    Count,
    Integer,
    SchemaName,
    Tagged,
    Temperature,
    tolerant_checker,
)
from routing.formats.plugins import Plugin
from routing.formats.provider_preferences import ProviderField
from routing.formats.reasoning import Effort, ReasoningBudget
from routing.formats.responses.items import Input
from routing.formats.responses.tools import Tool, ToolChoice
from routing.formats.server_tools import ImageSetting
from routing.formats.stop_conditions import StopConditions

USER_CHARS_MAX = 256

Metadata = Annotated[
    dict[
        Annotated[str, Field(max_length=64, pattern=r"^[^\[\]]*$")],
        Annotated[str, Field(max_length=512)],
    ],
    Field(max_length=16),
]


class PlainFormat(TypedDict, total=False):
    type: Annotated[Literal["text", "json_object"], REQUIRED]


class JsonSchemaFormat(TypedDict, total=False):
    type: Annotated[Literal["json_schema"], REQUIRED]
    name: Annotated[SchemaName, REQUIRED]
    schema: Annotated[dict[str, Any], REQUIRED]
    strict: bool | None
    description: str


TextFormat = Annotated[PlainFormat | JsonSchemaFormat, Tagged("type")]


class TextField(TypedDict, total=False):
    format: TextFormat
    verbosity: Literal["low", "medium", "high", "xhigh", "max"] | None


class ReasoningField(TypedDict, total=False):
    effort: Effort | None
    summary: Literal["auto", "concise", "detailed"] | None
    enabled: bool | None
    max_tokens: ReasoningBudget | None
    context: Literal["auto", "all_turns", "current_turn"] | None
    mode: Literal["standard", "pro"] | None


Includable = Literal[
    "file_search_call.results",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "reasoning.encrypted_content",
    "code_interpreter_call.outputs",
    "message.output_text.logprobs",
    "web_search_call.action.sources",
    "web_search_call.results",
]


def _no_earlier_response(value: Any) -> Any:
    if value is not None:
        raise ValueError("Invalid input: nothing is stored, send the whole conversation as input")
    return value


def _not_stored(value: bool) -> bool:
    if value:
        raise ValueError("Invalid input: nothing is stored, expected false")
    return value


def _not_in_background(value: bool | None) -> bool | None:
    if value:
        raise ValueError("Invalid input: background responses are not offered, expected false")
    return value


def _no_stored_prompt(value: Any) -> Any:
    if value is not None:
        raise ValueError("Invalid input: stored prompts are not offered, send instructions")
    return value


class ResponsesBody(TypedDict, total=False):
    """Every named parameter; keys without a rule are allowed and stay in the original body. The
    sampling parameters that only chat names are here too, because endpoints may take them."""

    input: Annotated[Input, REQUIRED]
    model: str
    models: list[str]
    route: Literal["fallback", "sort"] | None
    provider: ProviderField | None
    preset: str
    plugins: list[Plugin]
    stream: bool
    instructions: str | None
    max_output_tokens: Count | None
    max_tool_calls: Integer | None
    stop_server_tools_when: StopConditions
    temperature: Temperature | None
    top_p: UnitShare | None
    top_k: Integer
    frequency_penalty: Penalty | None
    presence_penalty: Penalty | None
    top_logprobs: Annotated[int, Field(ge=0, le=20), WHOLE] | None
    tools: list[Tool]
    tool_choice: ToolChoice
    parallel_tool_calls: bool | None
    text: TextField
    reasoning: ReasoningField | None
    modalities: list[Literal["text", "image"]]
    image_config: dict[str, ImageSetting]
    include: list[Includable] | None
    metadata: Metadata | None
    previous_response_id: Annotated[Any, AfterValidator(_no_earlier_response)]
    conversation: Annotated[Any, AfterValidator(_no_earlier_response)]
    store: Annotated[bool, AfterValidator(_not_stored)]
    background: Annotated[bool | None, AfterValidator(_not_in_background)]
    prompt: Annotated[Any, AfterValidator(_no_stored_prompt)]
    truncation: Literal["auto", "disabled"] | None
    cache_control: CacheControl
    prompt_cache_key: str | None
    prompt_cache_options: PromptCacheOptions | None
    service_tier: Literal["auto", "default", "fast", "flex", "priority", "scale"] | None
    safety_identifier: str | None
    user: Annotated[str, Field(max_length=USER_CHARS_MAX)]
    session_id: Annotated[str, Field(max_length=SESSION_ID_CHARS_MAX)]
    trace: Trace
    debug: DebugOptions
    min_p: Amount | None
    top_a: UnitShare | None
    repetition_penalty: Temperature | None
    logit_bias: LogitBias | None
    seed: Annotated[int, Field(ge=INT64_MIN, le=INT64_MAX), WHOLE] | None
    stop: Annotated[str | StopStrings, ONE_KIND] | None


check_body = tolerant_checker(ResponsesBody)
