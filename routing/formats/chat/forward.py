"""The body an OpenAI-style upstream receives: an allow-list over the caller's own JSON.

What the endpoint lists as supported is sent, normalised; everything else is dropped. The gateway
invents nothing: a parameter the caller left out is absent upstream. Messages pass through as the
caller wrote them; only what such an upstream would refuse is changed, and only that is copied."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from gateway.http.jsonio import JsonObject
from routing.formats.chat.request import ChatRequest, canonical_tier
from routing.formats.reasoning import Reasoning

# Never sent, even when an endpoint lists them: they address the gateway, or are written by it.
GATEWAY_FIELDS: Final = frozenset(
    {
        "messages",
        "model",
        "models",
        "route",
        "provider",
        "preset",
        "plugins",
        "transforms",
        "stream",
        "stream_options",
        "usage",
        "prompt",
        "n",
        "max_tool_calls",
        "stop_server_tools_when",
        "structured_outputs",
        "debug",
        "metadata",
        "session_id",
        "trace",
        "user",
    }
)
STOPS_MAX: Final = 4
# Sent by the rules below rather than one by one.
_GROUPED_FIELDS: Final = frozenset(
    {
        "max_tokens",
        "max_completion_tokens",
        "top_logprobs",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "reasoning",
        "reasoning_effort",
        "include_reasoning",
    }
)
_NOT_COPIED: Final = GATEWAY_FIELDS | _GROUPED_FIELDS


def build_forwarded_body(
    request: ChatRequest,
    *,
    upstream_model: str,
    supported: frozenset[str],
    user_hash: str | None,
    stream_usage: bool,
    max_tokens_cap: int | None,
) -> JsonObject:
    """The JSON object to send. The request's own body is neither changed nor copied deeply."""
    body = request.body
    sent: JsonObject = {
        "model": upstream_model,
        "messages": forward_messages(body["messages"], supported=supported),
    }
    for name, raw in body.items():
        if name in supported and name not in _NOT_COPIED:
            normalize = _NORMALISERS.get(name)
            value = normalize(raw) if normalize and raw is not None else raw
            if value is not None:
                sent[name] = value
    if request.max_output_tokens is not None:
        _put_output_cap(sent, request, supported, max_tokens_cap)
    if sent.get("logprobs") is True and "top_logprobs" in supported:
        top_logprobs = body.get("top_logprobs")
        if top_logprobs is not None:
            sent["top_logprobs"] = int(top_logprobs)
    if request.tools_given and not request.tools_off and "tools" in supported:
        _put_tools(sent, body, supported)
    if request.reasoning is not None:
        _put_reasoning(sent, request, request.reasoning, supported)
    if user_hash is not None and "user" in supported:
        sent["user"] = user_hash
    if request.stream:
        sent["stream"] = True
        if stream_usage:
            sent["stream_options"] = {"include_usage": True}
    return sent


def _normalize_response_format(value: JsonObject) -> JsonObject:
    kind = value["type"]
    sent: JsonObject = {"type": kind}
    if kind == "json_schema":
        sent["json_schema"] = _select(value["json_schema"], _JSON_SCHEMA_KEYS)
    elif kind == "grammar":
        sent["grammar"] = value["grammar"]
    return sent


def _select(value: JsonObject, keys: tuple[str, ...]) -> JsonObject:
    return {key: value[key] for key in keys if value.get(key) is not None}


def _normalize_stop(value: str | list[str]) -> str | list[str] | None:
    # An empty list asks for nothing, and some upstreams refuse it; so do they more than four, which
    # other caller formats allow.
    if isinstance(value, str):
        return value
    return value[:STOPS_MAX] or None


_JSON_SCHEMA_KEYS: Final = ("name", "description", "schema", "strict")
_FUNCTION_KEYS: Final = ("name", "description", "parameters", "strict")
_NORMALISERS: Final[dict[str, Callable[[Any], Any]]] = {
    "top_k": int,
    "seed": int,
    "stop": _normalize_stop,
    "response_format": _normalize_response_format,
    "service_tier": canonical_tier,
}


def _put_output_cap(
    sent: JsonObject, request: ChatRequest, supported: frozenset[str], cap: int | None
) -> None:
    """One spelling only: the caller's where the endpoint takes it, else the one it takes."""
    requested = request.max_output_tokens or 0
    newer = request.body.get("max_completion_tokens") is not None
    first, second = "max_tokens", "max_completion_tokens"
    if newer:
        first, second = second, first
    name = first if first in supported else second if second in supported else "max_tokens"
    sent[name] = requested if cap is None else min(requested, cap)


def _put_tools(sent: JsonObject, body: JsonObject, supported: frozenset[str]) -> None:
    tools: list[JsonObject] = []
    for tool in body["tools"]:
        if tool["type"] == "function":
            function = _select(tool["function"], _FUNCTION_KEYS)
            tools.append({"type": "function", "function": function})
            if "cache_control" in tool and "cache_control" in supported:
                tools[-1]["cache_control"] = tool["cache_control"]
    if not tools:
        return
    sent["tools"] = tools
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        # A choice that names a server tool is the gateway's own and not for the upstream.
        is_function = choice["type"] == "function"
        name = choice["function"]["name"] if is_function else None
        choice = {"type": "function", "function": {"name": name}} if is_function else None
    if choice is not None and "tool_choice" in supported:
        sent["tool_choice"] = choice
    parallel = body.get("parallel_tool_calls")
    if parallel is not None and "parallel_tool_calls" in supported:
        sent["parallel_tool_calls"] = parallel


def _put_reasoning(
    sent: JsonObject, request: ChatRequest, reasoning: Reasoning, supported: frozenset[str]
) -> None:
    """One spelling of the effort, the caller's first; `include_reasoning` where it is taken."""
    effort_first = "reasoning" not in request.body
    if "reasoning_effort" in supported and (effort_first or "reasoning" not in supported):
        if reasoning.effort is not None:
            sent["reasoning_effort"] = reasoning.effort
    elif "reasoning" in supported:
        given = request.body.get("reasoning", {})
        value = _select(given, ("effort", "summary", "enabled"))
        if "effort" not in value and request.body.get("reasoning_effort") is not None:
            value["effort"] = reasoning.effort
        if reasoning.max_tokens is not None:
            value["max_tokens"] = reasoning.max_tokens
        if reasoning.exclude:
            value["exclude"] = True
        sent["reasoning"] = value
    asks_include = reasoning.exclude or request.body.get("include_reasoning") is not None
    if asks_include and "include_reasoning" in supported and "reasoning" not in sent:
        sent["include_reasoning"] = not reasoning.exclude


# Keys that mark cache breakpoints; an endpoint takes them when it lists the first.
_CACHE_KEYS: Final = ("cache_control", "prompt_cache_breakpoint")

T = TypeVar("T")


def forward_messages(messages: list[JsonObject], *, supported: frozenset[str]) -> list[JsonObject]:
    """The messages to send; the same list if nothing needs to change."""
    system_only = "developer" not in supported
    cache_marks = "cache_control" in supported

    def forward(message: JsonObject) -> JsonObject:
        role, content = message["role"], message.get("content")
        if (role == "user" or role == "system") and type(content) is str:
            return message
        changes: JsonObject = {}
        if role == "developer" and system_only:
            changes["role"] = "system"
        if type(content) is list:
            parts = _map_list(content, lambda part: _forward_part(part, cache_marks))
            if parts is not content:
                changes["content"] = parts
        if role == "assistant" and (
            "model" in message or None in message.values() or message.get("tool_calls") == []
        ):
            # Upstreams refuse the gateway's own `model`, nulls and empty tool calls. A null content
            # stays: it is how an answer with nothing but tool calls is written.
            return {
                key: value
                for key, value in {**message, **changes}.items()
                if key == "content"
                or not (key == "model" or value is None or (key == "tool_calls" and not value))
            }
        if role == "tool" and "is_error" in message:
            # Chat has no field for it; other formats do.
            rest = {key: value for key, value in message.items() if key != "is_error"}
            return {**rest, **changes}
        return {**message, **changes} if changes else message

    return _map_list(messages, forward)


def _map_list(items: list[T], change: Callable[[T], T]) -> list[T]:
    """`items` with every change made; the same list while there is none."""
    result = items
    for index, item in enumerate(items):
        changed = change(item)
        if changed is not item:
            if result is items:
                result = items.copy()
            result[index] = changed
    return result


def _forward_part(part: JsonObject, cache_marks: bool) -> JsonObject:
    kind = part["type"]
    changes: JsonObject = {}
    if kind == "input_video":
        changes["type"] = "video_url"
    elif kind == "image_url" and part["image_url"].get("detail") == "original":
        changes["image_url"] = {**part["image_url"], "detail": "high"}
    if not cache_marks and any(key in part for key in _CACHE_KEYS):
        part = {key: value for key, value in part.items() if key not in _CACHE_KEYS}
    return {**part, **changes} if changes else part
