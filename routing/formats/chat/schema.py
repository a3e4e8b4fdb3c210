"""The top level of a chat-completions body, and the rules that span several of its fields."""

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, TypeAlias, Union

from pydantic import Field
from typing_extensions import TypedDict

from gateway.http.jsonio import JsonObject
from gateway.http.validation import Issue, shorten
from routing.entities.efforts import Effort
from routing.formats.chat.messages import CacheControl, Message
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
from routing.formats.reasoning import ReasoningField
from routing.formats.server_tools import (
    ADVISOR,
    FUNCTIONS,
    INHERITING,
    SHORTHAND_NAMES,
    SUBAGENT,
    WAITING,
    ContextSize,
    ImageSetting,
    WebSearchShorthand,
    canonical_tool,
    tool_names,
    tool_schemas,
)
from routing.formats.stop_conditions import StopConditions


class FunctionDefinition(TypedDict, total=False):
    name: Annotated[SchemaName, REQUIRED]
    description: str
    parameters: JsonObject
    strict: bool | None


class FunctionTool(TypedDict, total=False):
    type: Annotated[Literal["function"], REQUIRED]
    function: Annotated[FunctionDefinition, REQUIRED]
    cache_control: CacheControl


Tool: TypeAlias = Annotated[  # type: ignore[valid-type]  # Built from the specs of server tools.
    Union[(FunctionTool, *tool_schemas("chat"), WebSearchShorthand)],
    Tagged("type"),
]


class NamedFunction(TypedDict, total=False):
    name: Annotated[str, REQUIRED]


class FunctionChoice(TypedDict, total=False):
    type: Annotated[Literal["function"], REQUIRED]
    function: Annotated[NamedFunction, REQUIRED]


class ServerToolChoice(TypedDict, total=False):
    type: Annotated[Literal[(*tool_names("chat"), *SHORTHAND_NAMES)], REQUIRED]  # type: ignore[valid-type]  # Built from the specs.


NamedChoice = Annotated[FunctionChoice | ServerToolChoice, Tagged("type")]
ToolChoice = Annotated[Literal["none", "auto", "required"] | NamedChoice, ONE_KIND]
FunctionCall = Annotated[Literal["none", "auto"] | NamedFunction, ONE_KIND]


class PlainFormat(TypedDict, total=False):
    type: Annotated[Literal["text", "json_object", "python"], REQUIRED]


class JsonSchema(TypedDict, total=False):
    name: Annotated[SchemaName, REQUIRED]
    schema: JsonObject
    strict: bool | None
    description: str


class JsonSchemaFormat(TypedDict, total=False):
    type: Annotated[Literal["json_schema"], REQUIRED]
    json_schema: Annotated[JsonSchema, REQUIRED]


class GrammarFormat(TypedDict, total=False):
    type: Annotated[Literal["grammar"], REQUIRED]
    grammar: Annotated[str, REQUIRED]


ResponseFormat = Annotated[PlainFormat | JsonSchemaFormat | GrammarFormat, Tagged("type")]


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
    user_location: JsonObject | None


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


check_chat = tolerant_checker(ChatBody)


TOOL_STEPS_MAX: Final = 30


def find_chat_issues(body: JsonObject) -> list[Issue]:
    """The rules that span several fields and are broken, in the documented order of the fields."""
    issues: list[Issue] = []
    if tools := body.get("tools"):
        issues += _tool_issues(tools)
    if "tool_choice" in body:
        issues += _choice_issues(body["tool_choice"], tools or ())
    if "function_call" in body:
        if "tool_choice" in body:
            text = "Invalid input: send either tool_choice or function_call"
            issues.append(Issue("function_call", text))
        elif isinstance(choice := body["function_call"], dict):
            name = choice["name"]
            if not any(each["name"] == name for each in body.get("functions", ())):
                text = f'Invalid input: no function named "{shorten(name)}" in functions'
                issues.append(Issue("function_call.name", text))
    if body.get("max_tool_calls") is not None and "stop_server_tools_when" not in body:
        steps = body["max_tool_calls"]
        if steps < 1:
            issues.append(Issue("max_tool_calls", "Too small: expected number to be >=1"))
        elif steps > TOOL_STEPS_MAX:
            issues.append(
                Issue("max_tool_calls", f"Too big: expected number to be <={TOOL_STEPS_MAX}")
            )
    if body.get("reasoning_effort") is not None:
        effort = body.get("reasoning", {}).get("effort")
        if effort is not None and effort != body["reasoning_effort"]:
            issues.append(Issue("reasoning_effort", "Invalid input: differs from reasoning.effort"))
    streams_audio = body.get("stream") and "audio" in body.get("modalities", ())
    if "audio" in body and not streams_audio:
        text = 'Invalid input: needs "audio" in modalities and stream: true'
        issues.append(Issue("audio", text))
    return issues


def _tool_issues(tools: list[JsonObject]) -> Iterator[Issue]:
    agent_names: dict[str, set[str | None]] = {ADVISOR: set(), SUBAGENT: set()}
    for index, tool in enumerate(tools):
        names = agent_names.get(tool["type"])
        if names is None:
            continue
        settings: JsonObject = tool.get("parameters", {})
        path = f"tools.{index}.parameters"
        name = settings["name"].strip() if "name" in settings else None
        if name in names:
            kind = tool["type"]
            text = (
                f"Invalid input: only one {kind} may have no name"
                if name is None
                else f'Invalid input: another {kind} is named "{name}"'
            )
            yield Issue(f"{path}.name", text)
        names.add(name)
        if tool["type"] == SUBAGENT:
            for key in (*INHERITING, FUNCTIONS, WAITING):
                if key in settings:
                    text = "Invalid input: only in the responses format may agents call functions"
                    yield Issue(f"{path}.{key}", text)


def _choice_issues(choice: Any, tools: Any) -> Iterator[Issue]:
    if choice == "required" and not tools:
        yield Issue("tool_choice", "Invalid input: required needs at least one tool")
    elif isinstance(choice, dict) and choice["type"] == "function":
        name = choice["function"]["name"]
        if not any(
            tool["type"] == "function" and bool(tool["function"]["name"] == name) for tool in tools
        ):
            text = f'Invalid input: no function named "{shorten(name)}" in tools'
            yield Issue("tool_choice.function.name", text)
    elif isinstance(choice, dict):
        kind = canonical_tool(choice["type"])
        if not any(canonical_tool(tool["type"]) == kind for tool in tools):
            yield Issue("tool_choice.type", f"Invalid input: no {kind} in tools")
