"""The fields of a responses body as chat names them (inference reference 11)."""

from collections.abc import Callable
from typing import Any, Final

from routing.formats.chat.schema import ChatBody
from routing.formats.responses.schema import ResponsesBody
from routing.formats.responses.tools import named, with_nested
from routing.formats.server_tools import SERVER_PREFIX, SHORTHANDS

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
LEFT_OUT: Final = NATIVE_TOOLS | {"tool_search"}
LOGPROBS: Final = "message.output_text.logprobs"
# Fields with the same name and meaning in both formats.
_SAME: Final = (
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
_WHOLE: Final = frozenset({"top_k", "max_tool_calls", "seed"})
_KNOWN: Final = frozenset(ResponsesBody.__annotations__) | frozenset(ChatBody.__annotations__)
_FUNCTION_KEYS: Final = ("name", "description", "parameters", "strict")


def chat_fields(body: dict[str, Any]) -> dict[str, Any]:
    """Everything but the messages. Null asks for nothing, so it is left out; fields unknown to both
    formats stay, for endpoints that list them."""
    fields = {
        name: int(body[name]) if name in _WHOLE else body[name]
        for name in _SAME
        if body.get(name) is not None
    }
    fields |= {name: value for name, value in body.items() if name not in _KNOWN}
    for name, translated in _TRANSLATED.items():
        if body.get(name) is not None:
            fields |= translated(body[name])
    if "user" not in fields and body.get("safety_identifier"):
        fields["user"] = body["safety_identifier"]
    return fields | _tools(body)


def native_tools(body: dict[str, Any]) -> tuple[str, ...]:
    """The types of the tools that only an upstream of this format has."""
    types = (tool["type"] for tool in with_nested(body.get("tools", ())))
    return tuple(dict.fromkeys(kind for kind in types if kind in NATIVE_TOOLS))


def nested_server_tools(body: dict[str, Any]) -> list[str]:
    """The gateway's own tools that a namespace holds, which chat knows nothing of."""
    spaces = (tool for tool in body.get("tools", ()) if tool["type"] == "namespace")
    types = (tool["type"] for space in spaces for tool in space["tools"])
    return [kind for kind in types if kind.startswith(SERVER_PREFIX)]


def _given(value: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value[name] for name in names if value.get(name) is not None}


def _top_logprobs(count: float) -> dict[str, Any]:
    return {"logprobs": True, "top_logprobs": int(count)} if count else {}


def _text(text: dict[str, Any]) -> dict[str, Any]:
    fields = _given(text, "verbosity")
    form = text.get("format", {"type": "text"})
    if form["type"] == "json_object":
        fields["response_format"] = {"type": "json_object"}
    elif form["type"] == "json_schema":
        schema = _given(form, "name", "schema", "strict", "description")
        fields["response_format"] = {"type": "json_schema", "json_schema": schema}
    return fields


def _reasoning(given: dict[str, Any]) -> dict[str, Any]:
    wishes = _given(given, "effort", "summary", "enabled", "max_tokens")
    if "max_tokens" in wishes:
        wishes["max_tokens"] = int(wishes["max_tokens"])
    return {"reasoning": wishes}


def _truncation(how: str) -> dict[str, Any]:
    return {"transforms": ["middle-out"] if how == "auto" else []}


_TRANSLATED: Final[dict[str, Callable[[Any], dict[str, Any]]]] = {
    "max_output_tokens": lambda count: {"max_completion_tokens": int(count)},
    "include": lambda names: {"logprobs": True} if LOGPROBS in names else {},
    "top_logprobs": _top_logprobs,
    "text": _text,
    "reasoning": _reasoning,
    "truncation": _truncation,
    "user": lambda user: {"user": user} if user else {},
}


def _tools(body: dict[str, Any]) -> dict[str, Any]:
    """Tools, the choice among them and whether calls may be parallel. Tools of the upstream's own
    are left out, and so is a choice of one."""
    tools = [tool for tool in body.get("tools", ()) if tool["type"] not in LEFT_OUT]
    choice = body.get("tool_choice")
    if type(choice) is dict and choice["type"] == "allowed_tools":
        # Function tools are told apart by name, server tools by type.
        allowed = {(one["type"], named(one)) for one in choice["tools"]}
        tools = [tool for tool in tools if (tool["type"], named(tool)) in allowed]
    fields: dict[str, Any] = {}
    if tools:
        fields["tools"] = [_tool(tool) for tool in tools]
    if body.get("parallel_tool_calls") is not None:
        fields["parallel_tool_calls"] = body["parallel_tool_calls"]
    if choice is not None and (tools or choice in ("auto", "none")):
        fields |= _choice(choice)
    return fields


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    if tool["type"] != "function":
        return tool
    translated: dict[str, Any] = {"type": "function", "function": _given(tool, *_FUNCTION_KEYS)}
    if tool.get("defer_loading"):
        translated["defer_loading"] = True
    return translated | _given(tool, "cache_control")


def _choice(choice: str | dict[str, Any]) -> dict[str, Any]:
    if isinstance(choice, str):
        return {"tool_choice": choice}
    kind = choice["type"]
    if kind == "allowed_tools":
        return {"tool_choice": choice["mode"]}
    if kind == "function":
        return {"tool_choice": {"type": "function", "function": {"name": choice["name"]}}}
    return {} if kind in NATIVE_TOOLS else {"tool_choice": {"type": kind}}
