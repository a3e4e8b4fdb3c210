"""The responses body that a chat-shaped prompt means."""

from typing import Final

from gateway.http.jsonio import JsonObject
from routing.entities.exchange import Prompt, Terms
from routing.upstreams.responses.input_items import build_input

# An endpoint that takes one of these is told where the caller's prompt cache ends.
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
        put_user(sent, terms.user_hash, terms.supported)
    # Some upstreams stream where nothing is said.
    sent["stream"] = prompt.stream


def put_user(sent: JsonObject, user_hash: str, supported: frozenset[str]) -> None:
    """The end user's identity under the newer of the names that the endpoint takes."""
    for name in ("safety_identifier", "user"):
        if name in supported:
            sent[name] = user_hash
            return


def limit_output(prompt: Prompt, terms: Terms) -> int | None:
    """The caller's cap inside the endpoint's, in tokens."""
    caps = [cap for cap in (prompt.max_output_tokens, terms.output_cap) if cap is not None]
    return min(caps, default=None)


def takes_reasoning(terms: Terms) -> bool:
    """Whether the endpoint takes reasoning settings."""
    return not _REASONING.isdisjoint(terms.supported)
