"""A chat-shaped prompt as a body of the messages API.

Only parameters that the endpoint lists are sent. What the API has no place for, or would refuse, is
left out or changed as little as possible (docs/explanation/translation.md lists it all).
"""

from typing import Any, Final, NamedTuple

from gateway.http.jsonio import JsonObject
from routing.entities.efforts import BUDGET_RATIOS
from routing.entities.exchange import Prompt, Terms
from routing.upstreams.anthropic.blocks import read_cache_mark
from routing.upstreams.anthropic.messages import (
    build_messages,
    lacks_thinking,
    limit_marks,
    mark_last_block,
)

# --- Reasoning ------------------------------------------------------------------------------------

BUDGET_TOKENS_MIN: Final = 1024
BUDGET_TOKENS_MAX: Final = 128_000


def limit_budget(output_tokens_max: int, tokens: int) -> int | None:
    """A wanted budget as far as the output cap has room for it, None where not even for the
    smallest."""
    budget = min(max(tokens, BUDGET_TOKENS_MIN), output_tokens_max - 1)
    return budget if budget >= BUDGET_TOKENS_MIN else None


_OFF: Final = {"type": "disabled"}
# The API knows neither end of the scale under these names.
_EFFORTS: Final = {"minimal": "low"}


class Thinking(NamedTuple):
    """What is sent; None where nothing is."""

    thinking: JsonObject | None = None
    effort: str | None = None

    @property
    def is_on(self) -> bool:
        return self.thinking is not None and self.thinking != _OFF


def resolve_thinking(prompt: Prompt, terms: Terms, output_tokens_max: int) -> Thinking:
    """An endpoint that lists `reasoning` takes budgets, one that lists `reasoning_effort` efforts
    with a depth the model chooses. A budget is sent as one where it can be."""
    budgets, efforts = ("reasoning" in terms.supported), ("reasoning_effort" in terms.supported)
    if prompt.reasoning_tokens is not None and budgets:
        if prompt.reasoning_tokens <= 0:
            return Thinking(_OFF)
        return _enable_thinking(limit_budget(output_tokens_max, prompt.reasoning_tokens))
    effort = prompt.effort
    if effort is None or not (budgets or efforts):
        return Thinking()
    if effort == "none":
        return Thinking(_OFF)
    if efforts:
        display = "omitted" if prompt.exclude_reasoning else "summarized"
        adaptive = {"type": "adaptive", "display": display}
        return Thinking(adaptive, _EFFORTS.get(effort, effort))
    # A cap as large as this changes nothing any more, and one past a double would be an error.
    cap = min(output_tokens_max, 20 * BUDGET_TOKENS_MAX)
    budget = min(int(cap * BUDGET_RATIOS[effort]), BUDGET_TOKENS_MAX)
    return _enable_thinking(limit_budget(output_tokens_max, budget))


def _enable_thinking(budget: int | None) -> Thinking:
    """Without room for the smallest budget the model answers without thinking."""
    if budget is None:
        return Thinking()
    return Thinking({"type": "enabled", "budget_tokens": budget})


# --- Schemas --------------------------------------------------------------------------------------

_OF_NAMES: Final = ("properties", "$defs", "definitions")
_OF_SCHEMAS: Final = ("items", "anyOf", "allOf", "oneOf", "prefixItems", "not")


def close_schema(schema: object) -> Any:
    """The schema with every object closed that does not say whether it is."""
    if isinstance(schema, list):
        return [close_schema(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed: JsonObject = {}
    for key, value in schema.items():
        if key in _OF_NAMES and isinstance(value, dict):
            closed[key] = {name: close_schema(each) for name, each in value.items()}
        else:
            closed[key] = close_schema(value) if key in _OF_SCHEMAS else value
    kinds = schema.get("type")
    if "object" in (kinds if isinstance(kinds, list) else [kinds]):
        closed.setdefault("additionalProperties", False)
    return closed


# --- The body -------------------------------------------------------------------------------------

TEMPERATURE_MAX: Final = 1
# The least `top_p` that goes with thinking.
_THINKING_TOP_P_MIN: Final = 0.95
_CHOICES: Final = {"none": "none", "auto": "auto", "required": "any"}
_SCHEMA_WORDS: Final = frozenset({"response_format", "structured_outputs"})
# The API's own two words; it has no others for a tier.
_TIERS: Final = {
    "auto": "auto",
    "default": "standard_only",
    "standard_only": "standard_only",
    "priority": "auto",
    "fast": "auto",
}


def build_request(prompt: Prompt, terms: Terms) -> JsonObject:
    """The JSON object to send. The prompt's own body is not changed."""
    body = prompt.body
    system, turns = build_messages(body["messages"])
    is_explicit = (body.get("prompt_cache_options") or {}).get("mode") == "explicit"
    if not is_explicit and body.get("cache_control") is not None:
        mark_last_block(turns, body["cache_control"])
    limit = limit_output(prompt, terms)
    sent: JsonObject = {
        "model": terms.upstream_model,
        "max_tokens": limit,
        "messages": turns,
    }
    if system:
        sent["system"] = system
    if "tools" in terms.supported:
        _put_tools(sent, body, terms.supported)
    thinking = resolve_thinking(prompt, terms, limit)
    if refuses_thinking(sent):
        thinking = Thinking(None if thinking.is_on else thinking.thinking, thinking.effort)
    _put_sampling(sent, body, terms.supported, thinks=thinking.is_on)
    _put_output(sent, body, terms.supported, thinking)
    put_common(sent, prompt, terms, body.get("service_tier"))
    return limit_marks(sent)


def limit_output(prompt: Prompt, terms: Terms) -> int:
    """`max_tokens`, which the API insists on: what the caller wants as far as it may go."""
    requested = prompt.max_output_tokens or terms.output_default
    return requested if terms.output_cap is None else min(requested, terms.output_cap)


def put_common(sent: JsonObject, prompt: Prompt, terms: Terms, tier: object) -> None:
    """What is sent alike for callers of every format."""
    if terms.user_hash is not None:
        sent["metadata"] = {"user_id": terms.user_hash}
    if "service_tier" in terms.supported and tier in _TIERS:
        sent["service_tier"] = _TIERS[tier]
    if prompt.stream:
        sent["stream"] = True


def _put_tools(sent: JsonObject, body: JsonObject, supported: frozenset[str]) -> None:
    tools: list[JsonObject] = []
    for tool in body.get("tools") or []:
        if tool["type"] != "function":
            continue
        function = tool["function"]
        schema = function.get("parameters") or {"properties": {}}
        built = {"name": function["name"], "input_schema": {"type": "object", **schema}}
        if function.get("description"):
            built["description"] = function["description"]
        if supported & _SCHEMA_WORDS and function.get("strict"):
            built["strict"] = True
        if mark := read_cache_mark(tool):
            built["cache_control"] = mark
        tools.append(built)
    if not tools:
        return
    sent["tools"] = tools
    wanted = body.get("tool_choice") if "tool_choice" in supported else None
    choice: JsonObject | None = None
    if isinstance(wanted, str):
        choice = {"type": _CHOICES[wanted]}
    elif isinstance(wanted, dict) and wanted["type"] == "function":
        # A choice that names a server tool is the gateway's own and not for the upstream.
        choice = {"type": "tool", "name": wanted["function"]["name"]}
    one_at_a_time = body.get("parallel_tool_calls") is False
    if one_at_a_time and "parallel_tool_calls" in supported:
        choice = choice or {"type": "auto"}
        if choice["type"] != "none":
            choice["disable_parallel_tool_use"] = True
    if choice is not None:
        sent["tool_choice"] = choice


def refuses_thinking(sent: JsonObject) -> bool:
    """Where the API refuses thinking, the answer matters more than the reasoning."""
    forced = sent.get("tool_choice", {}).get("type") in ("any", "tool")
    # The model is to continue an answer.
    is_prefill = sent["messages"][-1]["role"] == "assistant"
    return forced or is_prefill or lacks_thinking(sent["messages"])


def fit_to_thinking(sent: JsonObject) -> None:
    """Take out the sampling that the API refuses beside thinking."""
    sent.pop("top_k", None)
    sent.pop("temperature", None)
    if sent.get("top_p", 1) < _THINKING_TOP_P_MIN:
        del sent["top_p"]


def _put_sampling(
    sent: JsonObject, body: JsonObject, supported: frozenset[str], *, thinks: bool
) -> None:
    sampling = {name: body[name] for name in _SAMPLING & supported if body.get(name) is not None}
    if "top_k" in sampling and (thinks or sampling["top_k"] <= 0):
        del sampling["top_k"]
    if "top_p" in sampling and thinks and sampling["top_p"] < _THINKING_TOP_P_MIN:
        del sampling["top_p"]
    if "temperature" in sampling:
        sampling["temperature"] = min(sampling["temperature"], TEMPERATURE_MAX)
        if thinks or (sampling["temperature"] == 1 and "top_p" in sampling):
            # It is the default, and newer models take only one of the two.
            del sampling["temperature"]
        elif sampling.get("top_p") == 1:
            del sampling["top_p"]
    if "top_k" in sampling:
        sampling["top_k"] = int(sampling["top_k"])
    sent |= sampling
    if "stop" in supported:
        stop = body.get("stop")
        texts = [stop] if isinstance(stop, str) else stop or []
        # The API refuses blank ones.
        if stops := [text for text in texts if text.strip()]:
            sent["stop_sequences"] = stops


_SAMPLING: Final = frozenset({"temperature", "top_p", "top_k"})


def _put_output(
    sent: JsonObject, body: JsonObject, supported: frozenset[str], thinking: Thinking
) -> None:
    if thinking.thinking is not None:
        sent["thinking"] = thinking.thinking
    config: JsonObject = {}
    effort = thinking.effort or (body.get("verbosity") if "verbosity" in supported else None)
    if effort is not None:
        config["effort"] = effort
    response_format = body.get("response_format") or {}
    schema = (
        response_format["json_schema"].get("schema")
        if response_format.get("type") == "json_schema"
        else None
    )
    if schema is not None and supported & _SCHEMA_WORDS:
        config["format"] = {"type": "json_schema", "schema": close_schema(schema)}
    if config:
        sent["output_config"] = config
