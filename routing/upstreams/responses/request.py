"""Bodies for the responses API: what a chat-shaped prompt means, and a caller's own, passed on."""

from typing import Any, Final

from gateway.http.jsonio import JsonObject
from routing.entities.exchange import Prompt, Terms
from routing.entities.ids import is_own_reasoning
from routing.upstreams.responses.input_items import build_input, is_of_this_wire

# An endpoint that takes one of these gets the caller's cache breakpoints.
_MARKS: Final = frozenset({"cache_control", "prompt_cache_breakpoint", "prompt_cache_options"})
# The chat format's own: this one has no place for them.
_NO_PLACE: Final = frozenset(
    {
        *("stop", "seed", "logit_bias", "prediction", "min_p", "top_a", "repetition_penalty"),
        "audio",
    }
)
_ASKS_FOR_REASONING: Final = ("reasoning", "reasoning_effort", "include_reasoning")


def build_request(prompt: Prompt, terms: Terms) -> JsonObject:
    """The JSON object to send. The prompt's body is neither changed nor copied deeply."""
    body, supported = prompt.body, terms.supported
    marks = not _MARKS.isdisjoint(supported)
    instructions, items = build_input(body["messages"], marks=marks)
    sent: JsonObject = {"model": terms.upstream_model, "input": items, "store": False}
    if instructions is not None:
        sent["instructions"] = instructions
    put_common(sent, body, prompt, terms, without=_NO_PLACE)
    include: list[str] = []
    _put_tools(sent, body, supported)
    text: JsonObject = {}
    response_format = body.get("response_format")
    if response_format is not None and "response_format" in supported:
        kind = response_format["type"]
        if kind in ("text", "json_object"):
            text["format"] = {"type": kind}
        elif kind == "json_schema":
            schema = response_format["json_schema"]
            # This format insists on a schema.
            text["format"] = {"type": kind, "name": schema["name"], "schema": {"type": "object"}}
            optional = ("schema", "description", "strict")
            text["format"] |= {
                name: schema[name] for name in optional if schema.get(name) is not None
            }
    if body.get("verbosity") is not None and "verbosity" in supported:
        text["verbosity"] = body["verbosity"]
    if text:
        sent["text"] = text
    _put_reasoning(sent, prompt, terms, include)
    if body.get("logprobs") is True and "logprobs" in supported:
        include.append(LOGPROBS)
        if body.get("top_logprobs") is not None and "top_logprobs" in supported:
            sent["top_logprobs"] = int(body["top_logprobs"])
    if include:
        sent["include"] = include
    return sent


def _put_tools(sent: JsonObject, body: JsonObject, supported: frozenset[str]) -> None:
    tools: list[JsonObject] = []
    if "tools" in supported:
        for tool in body.get("tools") or ():
            if tool["type"] == "function":
                function = tool["function"]
                built = {"type": "function", "name": function["name"]}
                if function.get("description") is not None:
                    built["description"] = function["description"]
                built["parameters"] = function.get("parameters")
                # Unsaid means strict in this format, and the opposite in the caller's.
                built["strict"] = bool(function.get("strict"))
                tools.append(built)
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        # A choice that names a server tool is the gateway's own and not for the upstream.
        is_function = choice["type"] == "function"
        name = choice["function"]["name"] if is_function else None
        choice = {"type": "function", "name": name} if is_function else None
    if tools and choice is not None and "tool_choice" in supported:
        sent["tool_choice"] = choice
    parallel = body.get("parallel_tool_calls")
    if tools and parallel is not None and "parallel_tool_calls" in supported:
        sent["parallel_tool_calls"] = parallel
    options = body.get("web_search_options")
    if options is not None and "web_search_options" in supported:
        tools.append(_build_search_tool(options))
    if tools:
        sent["tools"] = tools


def _build_search_tool(options: JsonObject) -> JsonObject:
    """The search settings of the chat format as the tool that does the search here."""
    sent: JsonObject = {"type": "web_search"}
    if options.get("search_context_size") is not None:
        sent["search_context_size"] = options["search_context_size"]
    location = options.get("user_location")
    if isinstance(location, dict):
        nested = location.get("approximate")
        sent["user_location"] = {
            "type": "approximate",
            **(nested if isinstance(nested, dict) else location),
        }
    return sent


def _put_reasoning(sent: JsonObject, prompt: Prompt, terms: Terms, include: list[str]) -> None:
    """Effort and summary; who asked for reasoning also gets it sealed, to be replayed: nothing is
    stored upstream."""
    body, effort = prompt.body, prompt.effort
    is_asked = effort is not None or any(body.get(name) is not None for name in _ASKS_FOR_REASONING)
    if not is_asked or not takes_reasoning(terms):
        return
    # Nothing of the reasoning is shown without one, and showing is what callers expect.
    summary = (body.get("reasoning") or {}).get("summary") or "auto"
    hidden = prompt.exclude_reasoning or effort == "none"
    settings = {"effort": effort, "summary": None if hidden else summary}
    reasoning = {name: wish for name, wish in settings.items() if wish is not None}
    if reasoning:
        sent["reasoning"] = reasoning
    if effort != "none" and not prompt.exclude_reasoning:
        include.append(SEALED_REASONING)


# --- Fields that every body has -------------------------------------------------------------------

LOGPROBS: Final = "message.output_text.logprobs"
SEALED_REASONING: Final = "reasoning.encrypted_content"
_REASONING: Final = frozenset({"reasoning", "reasoning_effort"})
# Never copied, even when an endpoint lists them: they address the gateway, are written by it, or
# are sent by a rule of their own.
GATEWAY_FIELDS: Final = frozenset(
    {
        *("model", "models", "fallbacks", "route", "provider", "preset", "plugins", "transforms"),
        *("stream", "stream_options", "usage", "debug", "metadata", "session_id", "trace"),
        *("user", "safety_identifier", "stop_server_tools_when", "structured_outputs"),
        *("messages", "input", "instructions", "include", "store", "background"),
        *("previous_response_id", "conversation", "prompt", "n"),
        *("max_tokens", "max_completion_tokens", "max_output_tokens"),
        *("tools", "tool_choice", "parallel_tool_calls", "web_search_options"),
        *("reasoning", "reasoning_effort", "include_reasoning"),
        *("response_format", "verbosity", "text", "logprobs", "top_logprobs"),
    }
)


def put_common(
    sent: JsonObject,
    body: JsonObject,
    prompt: Prompt,
    terms: Terms,
    *,
    without: frozenset[str] = frozenset(),
) -> None:
    """What both kinds of body have in common: everything but the conversation and the groups."""
    for name in terms.supported.intersection(body) - GATEWAY_FIELDS - without:
        if body[name] is not None:
            sent[name] = body[name]
    if sent.get("service_tier") == "fast":
        sent["service_tier"] = "priority"
    if type(sent.get("top_k")) is float:
        sent["top_k"] = int(sent["top_k"])
    if prompt.max_output_tokens is not None:
        sent["max_output_tokens"] = limit_output(prompt, terms)
    if terms.user_hash is not None:
        # The newer of the names that the endpoint takes.
        newer, older = "safety_identifier", "user"
        if newer in terms.supported:
            sent[newer] = terms.user_hash
        elif older in terms.supported:
            sent[older] = terms.user_hash
    # Some upstreams stream where the body says nothing of it.
    sent["stream"] = prompt.stream


def limit_output(prompt: Prompt, terms: Terms) -> int | None:
    """The caller's cap inside the endpoint's, in tokens."""
    caps = [cap for cap in (prompt.max_output_tokens, terms.output_cap) if cap is not None]
    return min(caps, default=None)


def takes_reasoning(terms: Terms) -> bool:
    """Whether the endpoint takes reasoning settings."""
    return not _REASONING.isdisjoint(terms.supported)


# --- The body of a caller who speaks this very format ---------------------------------------------

_TOOLS: Final = ("tools", "tool_choice", "parallel_tool_calls")
_TEXT: Final = {"format": "response_format", "verbosity": "verbosity"}
# What the gateway resolves into an effort.
_WISHES: Final = ("effort", "enabled", "max_tokens")


def build_passthrough(original: JsonObject, prompt: Prompt, terms: Terms) -> JsonObject:
    """The JSON object to send. Items, tools and what is in them go as they came."""
    supported = terms.supported
    sent: JsonObject = {
        "model": terms.upstream_model,
        "input": _filter_input(original["input"]),
        "store": False,
    }
    if original.get("instructions") is not None:
        sent["instructions"] = original["instructions"]
    put_common(sent, original, prompt, terms)
    items = original["input"] if isinstance(original["input"], list) else ()
    adds_tools = any(item.get("type") == "additional_tools" for item in items)
    if "tools" in supported and (original.get("tools") or adds_tools):
        for name in _TOOLS:
            if original.get(name) is not None and name in supported:
                sent[name] = original[name]
    text = {
        name: value
        for name, value in (original.get("text") or {}).items()
        if value is not None and _TEXT.get(name, "response_format") in supported
    }
    if text:
        sent["text"] = text
    if takes_reasoning(terms):
        reasoning: JsonObject = {} if prompt.effort is None else {"effort": prompt.effort}
        for name, value in (original.get("reasoning") or {}).items():
            if value is not None and name not in _WISHES:
                reasoning[name] = value
        if reasoning:
            sent["reasoning"] = reasoning
    if original.get("top_logprobs") is not None and "top_logprobs" in supported:
        sent["top_logprobs"] = int(original["top_logprobs"])
    if include := _build_include(original, prompt, terms):
        sent["include"] = include
    return sent


def _filter_input(items: str | list[Any]) -> str | list[Any]:
    """The items without the gateway's own tools, and without reasoning that means nothing to this
    kind of upstream."""
    if isinstance(items, str):
        return items
    agents = {item["call_id"] for item in items if item.get("subagent_id")}
    sent: list[Any] = []
    for item in items:
        kind = item.get("type")
        is_own_tool = isinstance(kind, str) and kind.startswith("router:")
        if is_own_tool or (agents and item.get("call_id") in agents):
            continue
        if kind == "reasoning":
            if not _is_replayed(item):
                continue
            if "format" in item:
                # The gateway's own note of who wrote it.
                item = {name: value for name, value in item.items() if name != "format"}
        sent.append(item)
    return sent


def _is_replayed(item: JsonObject) -> bool:
    """Nothing is stored, so an item must hold its reasoning, sealed or as text. Text must be such
    an upstream's own, not that of another kind which the gateway made an item of."""
    format = item.get("format")
    if format not in (None, "unknown") and not is_of_this_wire(format):
        return False
    if item.get("encrypted_content") is not None:
        return True
    return (
        bool(item.get("content")) and format != "unknown" and not is_own_reasoning(item.get("id"))
    )


def _build_include(original: JsonObject, prompt: Prompt, terms: Terms) -> list[str]:
    """What the caller wants, and sealed reasoning from those who reason: items without it could not
    be sent again, for nothing is stored."""
    excluded = {SEALED_REASONING}
    if "logprobs" not in terms.supported:
        excluded.add(LOGPROBS)
    include = [name for name in original.get("include") or () if name not in excluded]
    if takes_reasoning(terms) and prompt.effort != "none":
        include.append(SEALED_REASONING)
    return include
