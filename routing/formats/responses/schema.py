"""The top level of a responses body, and the rules that span several of its fields."""

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field
from typing_extensions import TypedDict

from gateway.http.jsonio import JsonObject
from gateway.http.validation import ISSUES_MAX, Issue, shorten
from routing.entities.efforts import Effort
from routing.formats.chat.messages import CacheControl
from routing.formats.chat.schema import (
    SESSION_ID_CHARS_MAX,
    DebugOptions,
    LogitBias,
    Penalty,
    PromptCacheOptions,
    StopStrings,
    Trace,
    UnitShare,
    find_chat_issues,
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
from routing.formats.reasoning import ReasoningBudget
from routing.formats.responses.items import Input
from routing.formats.responses.subagents import INHERITED_MAX, find_subagent_issues, inherited_names
from routing.formats.responses.tools import Tool, ToolChoice, tool_name, walk_tools
from routing.formats.server_tools import (
    ADVISOR,
    FUNCTIONS,
    SERVER_PREFIX,
    SUBAGENT,
    WAITING,
    ImageSetting,
    canonical_tool,
)
from routing.formats.stop_conditions import StopConditions

USER_CHARS_MAX = 256

Metadata = Annotated[
    dict[
        Annotated[str, Field(max_length=64, pattern=r"^[^\[\]]*$")],
        Annotated[str, Field(max_length=512)],
    ],
    Field(max_length=16),
]


class PlainTextFormat(TypedDict, total=False):
    type: Annotated[Literal["text", "json_object"], REQUIRED]


class FlatSchemaFormat(TypedDict, total=False):
    type: Annotated[Literal["json_schema"], REQUIRED]
    name: Annotated[SchemaName, REQUIRED]
    schema: Annotated[JsonObject, REQUIRED]
    strict: bool | None
    description: str


TextFormat = Annotated[PlainTextFormat | FlatSchemaFormat, Tagged("type")]


class TextField(TypedDict, total=False):
    format: TextFormat
    verbosity: Literal["low", "medium", "high", "xhigh", "max"] | None


class ResponsesReasoning(TypedDict, total=False):
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


def _refuse_earlier_response(value: object) -> Any:
    if value is not None:
        raise ValueError("Invalid input: nothing is stored, send the whole conversation as input")
    return value


def _refuse_storing(value: bool) -> bool:
    if value:
        raise ValueError("Invalid input: nothing is stored, expected false")
    return value


def _refuse_background(value: bool | None) -> bool | None:
    if value:
        raise ValueError("Invalid input: background responses are not offered, expected false")
    return value


def _refuse_stored_prompt(value: object) -> Any:
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
    reasoning: ResponsesReasoning | None
    modalities: list[Literal["text", "image"]]
    image_config: dict[str, ImageSetting]
    include: list[Includable] | None
    metadata: Metadata | None
    previous_response_id: Annotated[Any, AfterValidator(_refuse_earlier_response)]
    conversation: Annotated[Any, AfterValidator(_refuse_earlier_response)]
    store: Annotated[bool, AfterValidator(_refuse_storing)]
    background: Annotated[bool | None, AfterValidator(_refuse_background)]
    prompt: Annotated[Any, AfterValidator(_refuse_stored_prompt)]
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


check_responses = tolerant_checker(ResponsesBody)


_CALLS: Final = ("function_call", "custom_tool_call")
_CALL_OUTPUTS: Final = ("function_call_output", "custom_tool_call_output")
_INSTRUCTION_ROLES: Final = ("system", "developer")
# Choices that say which tool by its name.
_NAMED_KINDS: Final = ("function", "custom")


def find_responses_issues(body: JsonObject) -> list[Issue]:
    """What is wrong between the fields, in the order of the reference; empty when nothing is."""
    tools = body.get("tools", [])
    issues = list(_message_issues(body["input"])) if type(body["input"]) is list else []
    issues += _item_issues(body["input"])
    issues += find_chat_issues(_select_chat_fields(body))
    issues += _inheritance_issues(tools)
    issues += find_subagent_issues(body["input"], tools)
    choice = body.get("tool_choice")
    if type(choice) is dict:
        offered: set[tuple[str, str | None]] = set()
        for tool in walk_tools(tools):
            kind = canonical_tool(tool["type"])
            offered |= {(kind, None), (kind, tool_name(tool))}
        if choice["type"] == "allowed_tools":
            for index, tool in enumerate(choice["tools"]):
                issues += _choice_issues(tool, f"tool_choice.tools.{index}", offered)
        else:
            issues += _choice_issues(choice, "tool_choice", offered)
    return issues


def find_orphan_issues(items: str | list[JsonObject]) -> list[Issue]:
    """Outputs that answer no earlier call."""
    called: set[str] = set()
    issues: list[Issue] = []
    for index, item in enumerate(items if type(items) is list else ()):
        kind = item.get("type")
        if kind in _CALLS:
            called.add(item["call_id"])
        elif kind in _CALL_OUTPUTS and item["call_id"] not in called:
            text = "Invalid input: matches no call among the items before it"
            issues.append(Issue(f"input.{index}.call_id", text))
    return issues[:ISSUES_MAX]


def _item_issues(items: str | list[JsonObject]) -> Iterator[Issue]:
    """References to what is not there, and tools of the gateway where it does not look for any."""
    references: list[tuple[int, str]] = []
    item_ids: set[Any] = set()
    for index, item in enumerate(items if type(items) is list else ()):
        kind = item.get("type")
        if kind == "item_reference":
            references.append((index, item["id"]))
        elif kind == "additional_tools":
            for position, tool in enumerate(item["tools"]):
                if any(each["type"].startswith(SERVER_PREFIX) for each in walk_tools([tool])):
                    path = f"input.{index}.tools.{position}.type"
                    yield Issue(path, "Invalid input: tools of the gateway stand in `tools`")
        elif isinstance(item.get("id"), str):
            item_ids.add(item["id"])
    for index, reference in references:
        if reference not in item_ids:
            text = "Invalid input: nothing is stored: set store: false, so that items are sent"
            yield Issue(f"input.{index}.id", text)


def _message_issues(items: list[JsonObject]) -> Iterator[Issue]:
    for index, item in enumerate(items):
        content = item.get("content")
        if item.get("type", "message") != "message" or type(content) is not list:
            continue
        path = f"input.{index}.content"
        if item["role"] == "user" and not content:
            yield Issue(path, "Too small: expected array to have >=1 items")
        elif item["role"] in _INSTRUCTION_ROLES:
            for part_index, part in enumerate(content):
                if part["type"] not in ("input_text", "output_text"):
                    text = "Invalid input: only text is allowed in system and developer messages"
                    yield Issue(f"{path}.{part_index}.type", text)


def _select_chat_fields(body: JsonObject) -> JsonObject:
    """The fields whose rules, and names, are the chat format's."""
    names = ("max_tool_calls", "stop_server_tools_when")
    shared: JsonObject = {name: body[name] for name in names if name in body}
    if tools := body.get("tools"):
        shared["tools"] = []
        for tool in tools:
            # These rules read the settings of agents alone.
            settings = tool.get("parameters", {}) if tool["type"] in (ADVISOR, SUBAGENT) else {}
            name = {"name": settings["name"]} if "name" in settings else {}
            shared["tools"].append({"type": tool["type"], "parameters": name})
    if body.get("tool_choice") == "required":
        shared["tool_choice"] = "required"
    return shared


def _inheritance_issues(tools: list[JsonObject]) -> Iterator[Issue]:
    """Subagents that should have functions which the request does not."""
    functions = {tool["name"] for tool in tools if tool["type"] == "function"}
    agents = [tool.get("parameters", {}) for tool in tools if tool["type"] == SUBAGENT]
    count = sum(
        len(functions) if each.get("inherit_functions") else len(inherited_names(each))
        for each in agents
    )
    if count > INHERITED_MAX:
        text = f"Too big: expected subagents to have <={INHERITED_MAX} functions in all"
        yield Issue("tools", text)
        return
    for index, tool in enumerate(tools):
        settings = tool.get("parameters", {}) if tool["type"] == SUBAGENT else {}
        path = f"tools.{index}.parameters"
        for position, name in enumerate(inherited_names(settings)):
            if name not in functions:
                text = f'Invalid input: no function named "{shorten(name)}" in tools'
                yield Issue(f"{path}.inherited_function_names.{position}", text)
        for key in (FUNCTIONS, WAITING):
            if key in settings:
                yield Issue(f"{path}.{key}", "Invalid input: not a setting of callers")


def _choice_issues(
    choice: JsonObject, path: str, offered: set[tuple[str, str | None]]
) -> Iterator[Issue]:
    kind = canonical_tool(choice["type"])
    if kind in _NAMED_KINDS:
        name = choice.get("name")
        if name is None or (kind, name) not in offered:
            text = f'Invalid input: no {kind} named "{shorten(str(name))}" in tools'
            yield Issue(f"{path}.name", text)
    elif (kind, None) not in offered:
        yield Issue(f"{path}.type", f"Invalid input: no {shorten(kind)} in tools")
