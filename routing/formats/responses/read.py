"""Reads a responses body: checks it and translates it into a chat request."""

from typing import Final

from pydantic import ValidationError

from gateway.http.jsonio import JsonObject, dumps
from gateway.http.validation import Issue, list_issues
from routing.formats.chat.request import (
    ChatInvalid,
    ChatRequest,
    build_translated_request,
    find_header_issues,
    find_models_issues,
)
from routing.formats.chat.schema import ChatBody
from routing.formats.open_tools import move_tool_settings
from routing.formats.responses.conversation import collect_tools, read_messages, remove_references
from routing.formats.responses.schema import (
    ResponsesBody,
    check_responses,
    find_orphan_issues,
    find_responses_issues,
)
from routing.formats.responses.subagents import (
    add_inherited_functions,
    build_waiting_messages,
    split_agent_items,
)
from routing.formats.responses.tools import tool_name, walk_tools
from routing.formats.server_tools import SERVER_PREFIX, SHORTHANDS


def parse_responses(
    body: JsonObject,
    *,
    session_header: str | None,
    models_max: int = 3,
    beside: JsonObject | None = None,
) -> ChatRequest:
    """Check a parsed body and the `x-session-id` header, and translate it. Raises `ChatInvalid`.

    `beside` are checked fields in the words of chat that responses have none for.
    """
    body = move_tool_settings(body)
    try:
        body, _ = check_responses(body)
    except ValidationError as error:
        raise ChatInvalid(list_issues(error) + find_header_issues(session_header)) from None
    issues = find_models_issues(body, models_max) + find_responses_issues(collect_tools(body))
    issues += find_header_issues(session_header)
    if issues:
        raise ChatInvalid(issues)
    if orphans := find_orphan_issues(body["input"]):
        raise ChatInvalid(orphans, "invalid_prompt")
    body = remove_references(body)
    items, waiting = split_agent_items(body["input"])
    messages, left_out = read_messages(body.get("instructions"), items)
    messages += build_waiting_messages(waiting)
    if not messages:
        raise ChatInvalid([Issue("input", "Invalid input: expected at least one message")])
    with_tools = collect_tools(body)
    request = build_translated_request(
        {
            **add_inherited_functions(build_chat_fields(with_tools), waiting),
            **(beside or {}),
            "messages": messages,
        },
        session_header=session_header,
        format="responses",
        original=body,
        native_tools=list_native_tools(with_tools),
    )
    request.server_tools = list(
        dict.fromkeys(request.server_tools + list_nested_server_tools(body))
    )
    # An upstream of this format is sent, and bills, what the translation leaves out. Other
    # upstreams get none of it; items count all the same for the bound on text.
    tools = body.get("tools", [])
    natives = [tool for tool in tools if tool["type"] in UNTRANSLATED_TOOLS]
    tool_bytes = len(dumps(natives)) if natives else 0
    request.text_bytes += tool_bytes + (len(dumps(left_out)) if left_out else 0)
    request.prompt_text_chars += tool_bytes
    return request


# Tools an upstream of this format runs itself.
NATIVE_TOOLS: Final = SHORTHANDS | {
    "file_search",
    "computer_use_preview",
    "code_interpreter",
    "mcp",
    "image_generation",
    "local_shell",
    "shell",
    "apply_patch",
    "custom",
    "namespace",
}
# An upstream that cannot search among tools is shown them all.
UNTRANSLATED_TOOLS: Final = NATIVE_TOOLS | {"tool_search"}
LOGPROBS: Final = "message.output_text.logprobs"
# Fields with the same name and meaning in both formats.
_SAME_FIELDS: Final = (
    "model",
    "models",
    "route",
    "provider",
    "preset",
    "plugins",
    "stream",
    "temperature",
    "top_p",
    "top_k",
    "frequency_penalty",
    "presence_penalty",
    "max_tool_calls",
    "stop_server_tools_when",
    "modalities",
    "image_config",
    "metadata",
    "cache_control",
    "prompt_cache_key",
    "prompt_cache_options",
    "service_tier",
    "session_id",
    "trace",
    "debug",
    "min_p",
    "top_a",
    "repetition_penalty",
    "logit_bias",
    "seed",
    "stop",
)
_INTEGER_FIELDS: Final = frozenset({"top_k", "max_tool_calls", "seed"})
_KNOWN_FIELDS: Final = frozenset(ResponsesBody.__annotations__) | frozenset(
    ChatBody.__annotations__
)
_FUNCTION_KEYS: Final = ("name", "description", "parameters", "strict")


def build_chat_fields(body: JsonObject) -> JsonObject:
    """Everything but the messages. Null asks for nothing, so it is left out; fields unknown to both
    formats stay, for endpoints that list them."""
    fields = {
        name: int(body[name]) if name in _INTEGER_FIELDS else body[name]
        for name in _SAME_FIELDS
        if body.get(name) is not None
    }
    fields |= {name: value for name, value in body.items() if name not in _KNOWN_FIELDS}
    given = {name: value for name, value in body.items() if value is not None}
    if "max_output_tokens" in given:
        fields["max_completion_tokens"] = int(given["max_output_tokens"])
    if LOGPROBS in given.get("include", ()):
        fields["logprobs"] = True
    if count := given.get("top_logprobs"):
        fields |= {"logprobs": True, "top_logprobs": int(count)}
    if "text" in given:
        fields |= _read_text_field(given["text"])
    if "reasoning" in given:
        names = ("effort", "summary", "enabled", "max_tokens")
        fields["reasoning"] = wishes = _select(given["reasoning"], *names)
        if "max_tokens" in wishes:
            wishes["max_tokens"] = int(wishes["max_tokens"])
    if "truncation" in given:
        fields["transforms"] = ["middle-out"] if given["truncation"] == "auto" else []
    if user := given.get("user") or given.get("safety_identifier"):
        fields["user"] = user
    return fields | _read_tools(body)


def list_native_tools(body: JsonObject) -> tuple[str, ...]:
    """The types of the tools that only an upstream of this format has."""
    types = (tool["type"] for tool in walk_tools(body.get("tools", ())))
    return tuple(dict.fromkeys(kind for kind in types if kind in NATIVE_TOOLS))


def list_nested_server_tools(body: JsonObject) -> list[str]:
    """The gateway's own tools that a namespace holds, which chat knows nothing of."""
    spaces = (tool for tool in body.get("tools", ()) if tool["type"] == "namespace")
    types = (tool["type"] for space in spaces for tool in space["tools"])
    return [kind for kind in types if kind.startswith(SERVER_PREFIX)]


def _select(value: JsonObject, *names: str) -> JsonObject:
    return {name: value[name] for name in names if value.get(name) is not None}


def _read_text_field(text: JsonObject) -> JsonObject:
    fields = _select(text, "verbosity")
    form = text.get("format", {"type": "text"})
    if form["type"] == "json_object":
        fields["response_format"] = {"type": "json_object"}
    elif form["type"] == "json_schema":
        schema = _select(form, "name", "schema", "strict", "description")
        fields["response_format"] = {"type": "json_schema", "json_schema": schema}
    return fields


def _read_tools(body: JsonObject) -> JsonObject:
    """Tools, the choice among them and whether calls may be parallel. Tools of the upstream's own
    are left out, and so is a choice of one."""
    tools = [tool for tool in body.get("tools", ()) if tool["type"] not in UNTRANSLATED_TOOLS]
    choice = body.get("tool_choice")
    if type(choice) is dict and choice["type"] == "allowed_tools":
        # Function tools differ by name, server tools by type.
        allowed = {(one["type"], tool_name(one)) for one in choice["tools"]}
        tools = [tool for tool in tools if (tool["type"], tool_name(tool)) in allowed]
    fields: JsonObject = {}
    if tools:
        fields["tools"] = []
        for tool in tools:
            if tool["type"] == "function":
                function = _select(tool, *_FUNCTION_KEYS)
                built: JsonObject = {"type": "function", "function": function}
                if tool.get("defer_loading"):
                    built["defer_loading"] = True
                tool = built | _select(tool, "cache_control")
            fields["tools"].append(tool)
    if body.get("parallel_tool_calls") is not None:
        fields["parallel_tool_calls"] = body["parallel_tool_calls"]
    if isinstance(choice, str):
        if tools or choice in ("auto", "none"):
            fields["tool_choice"] = choice
    elif choice is not None and tools:
        kind = choice["type"]
        if kind == "allowed_tools":
            fields["tool_choice"] = choice["mode"]
        elif kind == "function":
            fields["tool_choice"] = {"type": "function", "function": {"name": choice["name"]}}
        elif kind not in NATIVE_TOOLS:
            fields["tool_choice"] = {"type": kind}
    return fields
