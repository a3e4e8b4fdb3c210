"""The responses body that a chat-shaped prompt means."""

from collections.abc import Callable
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
    _put_text(sent, body, supported)
    _put_reasoning(sent, prompt, terms, include)
    _put_logprobs(sent, body, supported, include)
    if include:
        sent["include"] = include
    return sent


def _put_tools(sent: JsonObject, body: JsonObject, supported: frozenset[str]) -> None:
    tools: list[JsonObject] = []
    if "tools" in supported:
        given = body.get("tools") or ()
        tools = [_function_tool(tool["function"]) for tool in given if tool["type"] == "function"]
    choice = _tool_choice(body.get("tool_choice"))
    if tools and choice is not None and "tool_choice" in supported:
        sent["tool_choice"] = choice
    parallel = body.get("parallel_tool_calls")
    if tools and parallel is not None and "parallel_tool_calls" in supported:
        sent["parallel_tool_calls"] = parallel
    options = body.get("web_search_options")
    if options is not None and "web_search_options" in supported:
        tools.append(_web_search(options))
    if tools:
        sent["tools"] = tools


def _function_tool(function: JsonObject) -> JsonObject:
    sent = {"type": "function", "name": function["name"]}
    if function.get("description") is not None:
        sent["description"] = function["description"]
    sent["parameters"] = function.get("parameters")
    # Unsaid means strict in this format, and the opposite in the caller's.
    sent["strict"] = bool(function.get("strict"))
    return sent


def _tool_choice(choice: str | JsonObject | None) -> str | JsonObject | None:
    """A choice that names a server tool is the gateway's own and not for the upstream."""
    if not isinstance(choice, dict):
        return choice
    if choice["type"] != "function":
        return None
    return {"type": "function", "name": choice["function"]["name"]}


def _web_search(options: JsonObject) -> JsonObject:
    """The search settings of the chat format as the tool that does the search here."""
    sent: JsonObject = {"type": "web_search"}
    if options.get("search_context_size") is not None:
        sent["search_context_size"] = options["search_context_size"]
    place = options.get("user_location")
    if isinstance(place, dict):
        nested = place.get("approximate")
        sent["user_location"] = {
            "type": "approximate",
            **(nested if isinstance(nested, dict) else place),
        }
    return sent


def _put_text(sent: JsonObject, body: JsonObject, supported: frozenset[str]) -> None:
    text: JsonObject = {}
    wanted = body.get("response_format")
    if wanted is not None and "response_format" in supported:
        make = _FORMATS.get(wanted["type"])
        if make is not None:
            text["format"] = make(wanted)
    if body.get("verbosity") is not None and "verbosity" in supported:
        text["verbosity"] = body["verbosity"]
    if text:
        sent["text"] = text


def _plain_format(wanted: JsonObject) -> JsonObject:
    return {"type": wanted["type"]}


def _schema_format(wanted: JsonObject) -> JsonObject:
    given = wanted["json_schema"]
    # This format insists on a schema.
    sent = {"type": "json_schema", "name": given["name"], "schema": {"type": "object"}}
    for name in ("schema", "description", "strict"):
        if given.get(name) is not None:
            sent[name] = given[name]
    return sent


_FORMATS: Final[dict[str, Callable[[JsonObject], JsonObject]]] = {
    "text": _plain_format,
    "json_object": _plain_format,
    "json_schema": _schema_format,
}


def _put_reasoning(sent: JsonObject, prompt: Prompt, terms: Terms, include: list[str]) -> None:
    """Effort and summary; who asked for reasoning also gets it sealed, to be replayed: nothing is
    stored upstream."""
    body, effort = prompt.body, prompt.effort
    asked = effort is not None or any(body.get(name) is not None for name in _ASKS_FOR_REASONING)
    if not asked or not takes_reasoning(terms):
        return
    # Nothing of the reasoning is shown without one, and showing is what callers expect.
    summary = (body.get("reasoning") or {}).get("summary") or "auto"
    hidden = prompt.exclude_reasoning or effort == "none"
    wishes = {"effort": effort, "summary": None if hidden else summary}
    reasoning = {name: wish for name, wish in wishes.items() if wish is not None}
    if reasoning:
        sent["reasoning"] = reasoning
    if effort != "none" and not prompt.exclude_reasoning:
        include.append(SEALED_REASONING)


def _put_logprobs(
    sent: JsonObject, body: JsonObject, supported: frozenset[str], include: list[str]
) -> None:
    if body.get("logprobs") is not True or "logprobs" not in supported:
        return
    include.append(LOGPROBS)
    if body.get("top_logprobs") is not None and "top_logprobs" in supported:
        sent["top_logprobs"] = int(body["top_logprobs"])


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
        sent["max_output_tokens"] = output_cap(prompt, terms)
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


def output_cap(prompt: Prompt, terms: Terms) -> int | None:
    """The caller's cap inside the endpoint's, in tokens."""
    caps = [cap for cap in (prompt.max_output_tokens, terms.output_cap) if cap is not None]
    return min(caps, default=None)


def takes_reasoning(terms: Terms) -> bool:
    """Whether the endpoint takes reasoning settings."""
    return not _REASONING.isdisjoint(terms.supported)
