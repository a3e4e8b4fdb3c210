"""A chat-completions body, checked and read into what the pipeline asks about."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from pydantic import ValidationError

from gateway.http.jsonio import JsonObject, dumps
from gateway.http.validation import ISSUES_MAX, Issue, join_issues, list_issues
from routing.formats.chat.facts import PromptFacts, read_prompt
from routing.formats.chat.schema import SESSION_ID_CHARS_MAX, ChatBody, check_chat, find_chat_issues
from routing.formats.open_tools import move_tool_settings
from routing.formats.plugins import list_effective_plugins
from routing.formats.provider_preferences import ProviderPreferences, resolve_provider
from routing.formats.reasoning import Reasoning, resolve_reasoning
from routing.formats.server_tools import SERVER_PREFIX, canonical_tool

# The words a catalogue may list as an endpoint's supported parameters.
PARAMETER_VOCABULARY: Final = frozenset(
    {
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "top_a",
        "frequency_penalty",
        "presence_penalty",
        "repetition_penalty",
        "max_tokens",
        "max_completion_tokens",
        "logit_bias",
        "logprobs",
        "top_logprobs",
        "prediction",
        "seed",
        "response_format",
        "structured_outputs",
        "stop",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "include_reasoning",
        "reasoning",
        "reasoning_effort",
        "web_search_options",
        "verbosity",
    }
)
TEXT_ONLY: Final = frozenset({"text"})
# With these fields and no others a request asks for nothing that is out of the ordinary.
_PLAIN_FIELDS: Final = frozenset(
    {
        *("model", "messages", "stream", "stream_options", "user", "max_tokens"),
        *("max_completion_tokens", "temperature", "top_p", "top_k", "min_p", "seed", "stop"),
        *("frequency_penalty", "presence_penalty", "repetition_penalty", "logit_bias"),
    }
)
# What `require_parameters` asks of an endpoint, where it is not the parameter's own name.
_PARAMETER_ALIASES: Final = {
    "max_completion_tokens": "max_tokens",
    "reasoning_effort": "reasoning",
    "include_reasoning": "reasoning",
}

ErrorType = Literal["invalid_request", "invalid_prompt"]


class ChatInvalid(Exception):
    """The body breaks the schema; `error_type` is the vocabulary word for the 400."""

    def __init__(self, issues: list[Issue], error_type: ErrorType = "invalid_request") -> None:
        super().__init__(join_issues(issues))
        self.issues = issues
        self.error_type = error_type


@dataclass(slots=True)
class ChatRequest:
    """One checked request. `body` is the caller's JSON, untouched; the rest is read from it.

    `text_bytes` is the UTF-8 size of everything that becomes prompt text (messages, tools,
    response_format); `prompt_text_chars` counts the same in characters.
    """

    body: JsonObject
    model: str | None
    models: list[str]
    candidates: list[str]
    stream: bool
    max_output_tokens: int | None
    session_id: str | None
    user: str | None
    trace: JsonObject | None
    metadata: dict[str, str] | None
    provider: ProviderPreferences | None
    preset: str | None
    plugins: list[JsonObject]
    server_tools: list[str]
    tools_given: bool
    input_modalities: frozenset[str]
    output_modalities: frozenset[str]
    reasoning: Reasoning | None
    service_tier: str | None
    response_format_type: str | None
    echo_upstream_body: bool
    supplied_parameters: frozenset[str]
    text_bytes: int
    message_count: int
    media_parts: int
    image_parts: int
    prompt_text_chars: int
    # The caller's format and its own checked body, where `body` is a translation of it.
    format: str = "chat"
    original: JsonObject | None = None
    # Tools that only an upstream of the caller's own format can run, by type.
    native_tools: tuple[str, ...] = ()
    # Fields that mean nothing elsewhere, and are too much to leave out.
    native_fields: frozenset[str] = frozenset()
    # The model as the caller named it, where that stood for another name.
    named_as: str | None = None
    # The model is to answer without calling any tool, though its conversation has calls.
    tools_off: bool = False
    # Its messages are not those of `original` any more.
    rewritten: bool = False
    # Its tools were `functions`, so that the answer says `function_call`.
    offers_functions: bool = False
    # The lengths of inputs that have a context each; empty where all of it shares one.
    input_chars: tuple[int, ...] = ()

    @property
    def decides(self) -> bool:
        """Whether it asks for decisions."""
        return self.format == "decisions"

    @property
    def is_conversation(self) -> bool:
        """Whether a text is to be answered: neither decisions nor embeddings are asked for."""
        return self.format not in ("decisions", "embeddings")

    @property
    def required_parameters(self) -> frozenset[str]:
        """What `require_parameters` looks for. There is one word for every spelling of the output
        cap, one for every reasoning setting, and `structured_outputs` beside the format of a JSON
        schema."""
        supplied = self.supplied_parameters
        if not supplied:
            return supplied
        required = {_PARAMETER_ALIASES.get(name, name) for name in supplied}
        if self.response_format_type == "json_schema":
            required.add("structured_outputs")
        return frozenset(required)


def list_provider_tools(chat: ChatRequest) -> Iterator[str]:
    """The types of its tools that only an upstream of the caller's own format can run. A request
    with such tools is not translated."""
    yield from chat.native_tools
    if chat.format == "messages" and chat.original is not None:
        for tool in chat.original.get("tools", ()):
            kind = str(tool.get("type") or "custom")
            if kind != "custom" and not kind.startswith(SERVER_PREFIX):
                yield kind


def parse_chat(body: JsonObject, *, session_header: str | None, models_max: int = 3) -> ChatRequest:
    """Check a parsed chat body and the `x-session-id` header. Raises `ChatInvalid`."""
    if "tools" in body or "plugins" in body:
        body = move_tool_settings(body)
    try:
        body, checked = check_chat(body)
    except ValidationError as error:
        issues = list_issues(error)
        if body.get("prompt") is not None and "messages" not in body:
            text = "Invalid input: text completion is not offered, send messages"
            issues.append(Issue("prompt", text))
        raise ChatInvalid(issues + find_header_issues(session_header)) from None
    issues = find_models_issues(body, models_max) + find_chat_issues(body)
    if issues := issues + find_header_issues(session_header):
        raise ChatInvalid(issues)
    facts = read_prompt(body["messages"])
    offers_functions = bool(body.get("functions"))
    if facts.calls_functions or offers_functions or "function_call" in body:
        body, issues = convert_functions(body)
        if issues:
            raise ChatInvalid(issues, "invalid_prompt")
        facts = read_prompt(body["messages"])
    _refuse_orphans(facts)
    request = _build_request(body, checked, facts, session_header)
    request.offers_functions = offers_functions
    return request


def build_translated_request(
    body: JsonObject,
    *,
    session_header: str | None,
    format: str,
    original: JsonObject,
    native_tools: tuple[str, ...] = (),
) -> ChatRequest:
    """The request that another format's checked body means. `body` is its translation, in the
    shape that `parse_chat` would accept and with whole numbers as `int`. Raises `ChatInvalid` for a
    tool result that answers no call (with the index of the translated message).
    """
    facts = read_prompt(body["messages"])
    _refuse_orphans(facts)
    request = _build_request(body, cast(ChatBody, body), facts, session_header)
    request.format, request.original, request.native_tools = format, original, native_tools
    return request


def find_models_issues(body: JsonObject, models_max: int) -> list[Issue]:
    if len(body.get("models", ())) <= models_max:
        return []
    return [Issue("models", f"Too big: expected array to have <={models_max} items")]


def find_header_issues(session_header: str | None) -> list[Issue]:
    if not session_header or len(session_header) <= SESSION_ID_CHARS_MAX:
        return []
    text = f"Too big: expected string to have <={SESSION_ID_CHARS_MAX} characters"
    return [Issue("x-session-id", text)]


def _refuse_orphans(facts: PromptFacts) -> None:
    """Raises `ChatInvalid` for tool messages that answer no earlier call."""
    if facts.orphans:
        text = "Invalid input: matches no tool call of an earlier assistant message"
        paths = [f"messages.{index}.tool_call_id" for index in facts.orphans[:ISSUES_MAX]]
        raise ChatInvalid([Issue(path, text) for path in paths], "invalid_prompt")


def _build_request(
    body: JsonObject, checked: ChatBody, facts: PromptFacts, session_header: str | None
) -> ChatRequest:
    model = body.get("model")
    if model is not None and _PLAIN_FIELDS.issuperset(body):
        return _build_plain_request(body, checked, facts, session_header)
    models = body.get("models", [])
    tools = body.get("tools", [])
    stream = body.get("stream", False)
    response_format = body.get("response_format")
    json_bytes = len(dumps(tools)) if tools else 0
    if response_format:
        json_bytes += len(dumps(response_format))
    server_tools = (canonical_tool(tool["type"]) for tool in tools if tool["type"] != "function")
    return ChatRequest(
        body=body,
        model=model,
        models=models,
        candidates=list(dict.fromkeys([model, *models] if model is not None else models)),
        stream=stream,
        max_output_tokens=checked.get("max_completion_tokens") or checked.get("max_tokens"),
        session_id=body.get("session_id") or session_header or None,
        user=body.get("user") or None,
        trace=body.get("trace"),
        metadata=body.get("metadata"),
        provider=resolve_provider(checked.get("provider"), route=body.get("route")),
        preset=body.get("preset") or None,
        plugins=list_effective_plugins(body.get("plugins"), body.get("transforms")),
        server_tools=list(dict.fromkeys(server_tools)),
        tools_given=bool(tools),
        input_modalities=frozenset(facts.modalities),
        output_modalities=frozenset(body.get("modalities") or TEXT_ONLY),
        reasoning=resolve_reasoning(
            checked.get("reasoning"),
            effort=checked.get("reasoning_effort"),
            include=checked.get("include_reasoning"),
        ),
        service_tier=canonical_tier(body.get("service_tier")),
        response_format_type=response_format["type"] if response_format else None,
        echo_upstream_body=stream and body.get("debug", {}).get("echo_upstream_body", False),
        supplied_parameters=_list_supplied(body),
        text_bytes=facts.text_bytes + json_bytes,
        message_count=len(body["messages"]),
        media_parts=facts.media_parts,
        image_parts=facts.image_parts,
        prompt_text_chars=facts.text_chars + json_bytes,
    )


def _build_plain_request(
    body: JsonObject, checked: ChatBody, facts: PromptFacts, session_header: str | None
) -> ChatRequest:
    """As `_build_request`, for a body that has no other fields than `_PLAIN_FIELDS`."""
    model = body["model"]
    return ChatRequest(
        body=body,
        model=model,
        models=[],
        candidates=[model],
        stream=body.get("stream", False),
        max_output_tokens=checked.get("max_completion_tokens") or checked.get("max_tokens"),
        session_id=session_header or None,
        user=body.get("user") or None,
        trace=None,
        metadata=None,
        provider=None,
        preset=None,
        plugins=[],
        server_tools=[],
        tools_given=False,
        input_modalities=frozenset(facts.modalities),
        output_modalities=TEXT_ONLY,
        reasoning=None,
        service_tier=None,
        response_format_type=None,
        echo_upstream_body=False,
        supplied_parameters=_list_supplied(body),
        text_bytes=facts.text_bytes,
        message_count=len(body["messages"]),
        media_parts=facts.media_parts,
        image_parts=facts.image_parts,
        prompt_text_chars=facts.text_chars,
    )


def canonical_tier(tier: str | None) -> str | None:
    """`fast` is the older spelling of `priority`."""
    return "priority" if tier == "fast" else tier


def _list_supplied(body: JsonObject) -> frozenset[str]:
    """Null, `[]`, `{}` and an object of nulls ask for nothing, so they count as absent."""
    supplied = []
    for name in PARAMETER_VOCABULARY.intersection(body):
        value = body[name]
        if type(value) is dict:
            if any(each is not None for each in value.values()):
                supplied.append(name)
        elif value is not None and value != []:
            supplied.append(name)
    return frozenset(supplied)


_FUNCTION_FIELDS: Final = frozenset({"functions", "function_call"})


def convert_functions(body: JsonObject) -> tuple[JsonObject, list[Issue]]:
    """A checked chat body in the words of tools, and what is wrong with its results of functions:
    each must answer a call."""
    messages: list[JsonObject] = []
    issues: list[Issue] = []
    # Ids of the calls that wait for their result, by the function's name.
    waiting: dict[str, str] = {}
    for index, message in enumerate(body["messages"]):
        if message["role"] == "function":
            call_id = waiting.pop(message["name"], None)
            if call_id is None:
                text = "Invalid input: matches no function_call of an earlier assistant message"
                issues.append(Issue(f"messages.{index}.name", text))
            content = message.get("content") or ""
            messages.append({"role": "tool", "tool_call_id": call_id, "content": content})
        elif message["role"] == "assistant" and "function_call" in message:
            # Nine letters and digits, which every upstream takes for an id.
            call_id = f"call{index:05}"
            function = message["function_call"]
            rest = {name: each for name, each in message.items() if name != "function_call"}
            # Some providers answer with a call of no function.
            if function and function["name"] and not message.get("tool_calls"):
                waiting[function["name"]] = call_id
                rest["tool_calls"] = [{"id": call_id, "type": "function", "function": function}]
            messages.append(rest)
        else:
            messages.append(message)
    result = {name: each for name, each in body.items() if name not in _FUNCTION_FIELDS}
    return result | {"messages": messages} | convert_offer(body), issues[:ISSUES_MAX]


def convert_offer(body: Mapping[str, Any]) -> JsonObject:
    """What its functions and its choice among them are in the words of tools."""
    fields: JsonObject = {}
    if functions := body.get("functions"):
        tools = [{"type": "function", "function": function} for function in functions]
        fields["tools"] = [*body.get("tools", ()), *tools]
        # An answer in the older words has room for one call.
        fields["parallel_tool_calls"] = body.get("parallel_tool_calls", False)
    if choice := body.get("function_call"):
        is_named = isinstance(choice, dict)
        fields["tool_choice"] = {"type": "function", "function": choice} if is_named else choice
    return fields
