"""A chat-shaped prompt as a body of the messages API.

Only parameters that the endpoint lists are sent. What the API has no place for, or would refuse, is
left out or changed as little as it takes (docs/explanation/translation.md lists it all).
"""

from typing import Any, Final

from routing.entities.exchange import Prompt, Terms
from routing.upstreams.anthropic.blocks import cache_mark
from routing.upstreams.anthropic.marks import mark_last_block, with_last_marks
from routing.upstreams.anthropic.schemas import closed
from routing.upstreams.anthropic.thinking import Thinking, thinking_of
from routing.upstreams.anthropic.turns import is_prefill, lacks_thinking, turns_of

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


def translated_body(prompt: Prompt, terms: Terms) -> dict[str, Any]:
    """The JSON object to send. The prompt's own body is not changed."""
    body = prompt.body
    system, turns = turns_of(body["messages"])
    if (automatic := _automatic_mark(body)) is not None:
        mark_last_block(turns, automatic)
    limit = output_limit(prompt, terms)
    sent: dict[str, Any] = {
        "model": terms.upstream_model,
        "max_tokens": limit,
        "messages": turns,
    }
    if system:
        sent["system"] = system
    if "tools" in terms.supported:
        _put_tools(sent, body, terms.supported)
    thinking = thinking_of(prompt, terms, limit)
    if cannot_think(sent):
        thinking = Thinking(None if thinking.is_on else thinking.thinking, thinking.effort)
    _put_sampling(sent, body, terms.supported, thinks=thinking.is_on)
    _put_output(sent, body, terms.supported, thinking)
    put_common(sent, prompt, terms, body.get("service_tier"))
    return with_last_marks(sent)


def output_limit(prompt: Prompt, terms: Terms) -> int:
    """`max_tokens`, which the API insists on: what the caller wants as far as it may go."""
    wanted = prompt.max_output_tokens or terms.output_default
    return wanted if terms.output_cap is None else min(wanted, terms.output_cap)


def put_common(sent: dict[str, Any], prompt: Prompt, terms: Terms, tier: Any) -> None:
    """What is sent alike for callers of every format."""
    if terms.user_hash is not None:
        sent["metadata"] = {"user_id": terms.user_hash}
    if "service_tier" in terms.supported and tier in _TIERS:
        sent["service_tier"] = _TIERS[tier]
    if prompt.stream:
        sent["stream"] = True


def _automatic_mark(body: dict[str, Any]) -> dict[str, Any] | None:
    if (body.get("prompt_cache_options") or {}).get("mode") == "explicit":
        return None
    mark: dict[str, Any] | None = body.get("cache_control")
    return mark


def _put_tools(sent: dict[str, Any], body: dict[str, Any], supported: frozenset[str]) -> None:
    strict = bool(supported & _SCHEMA_WORDS)
    functions = [tool for tool in body.get("tools") or [] if tool["type"] == "function"]
    if not functions:
        return
    sent["tools"] = [_tool(tool, strict=strict) for tool in functions]
    choice = _choice(body.get("tool_choice")) if "tool_choice" in supported else None
    one_at_a_time = body.get("parallel_tool_calls") is False
    if one_at_a_time and "parallel_tool_calls" in supported:
        choice = choice or {"type": "auto"}
        if choice["type"] != "none":
            choice["disable_parallel_tool_use"] = True
    if choice is not None:
        sent["tool_choice"] = choice


def _tool(tool: dict[str, Any], *, strict: bool) -> dict[str, Any]:
    function = tool["function"]
    schema = function.get("parameters") or {"properties": {}}
    sent = {"name": function["name"], "input_schema": {"type": "object", **schema}}
    if function.get("description"):
        sent["description"] = function["description"]
    if strict and function.get("strict"):
        sent["strict"] = True
    if mark := cache_mark(tool):
        sent["cache_control"] = mark
    return sent


def _choice(choice: Any) -> dict[str, Any] | None:
    """A choice that names a server tool is the gateway's own and not for the upstream."""
    if isinstance(choice, str):
        return {"type": _CHOICES[choice]}
    if not isinstance(choice, dict) or choice["type"] != "function":
        return None
    return {"type": "tool", "name": choice["function"]["name"]}


def cannot_think(sent: dict[str, Any]) -> bool:
    """Where the API refuses thinking, the answer matters more than the reasoning."""
    forced = sent.get("tool_choice", {}).get("type") in ("any", "tool")
    return forced or is_prefill(sent["messages"]) or lacks_thinking(sent["messages"])


def fit_to_thinking(sent: dict[str, Any]) -> None:
    """Take out the sampling that the API refuses beside thinking."""
    sent.pop("top_k", None)
    sent.pop("temperature", None)
    if sent.get("top_p", 1) < _THINKING_TOP_P_MIN:
        del sent["top_p"]


def _put_sampling(
    sent: dict[str, Any], body: dict[str, Any], supported: frozenset[str], *, thinks: bool
) -> None:
    given = {name: body[name] for name in _SAMPLING & supported if body.get(name) is not None}
    if "top_k" in given and (thinks or given["top_k"] <= 0):
        del given["top_k"]
    if "top_p" in given and thinks and given["top_p"] < _THINKING_TOP_P_MIN:
        del given["top_p"]
    if "temperature" in given:
        given["temperature"] = min(given["temperature"], TEMPERATURE_MAX)
        if thinks or (given["temperature"] == 1 and "top_p" in given):
            # It is the default, and newer models take only one of the two.
            del given["temperature"]
        elif given.get("top_p") == 1:
            del given["top_p"]
    if "top_k" in given:
        given["top_k"] = int(given["top_k"])
    sent |= given
    if "stop" in supported and (stops := _stops(body.get("stop"))):
        sent["stop_sequences"] = stops


_SAMPLING: Final = frozenset({"temperature", "top_p", "top_k"})


def _stops(stop: Any) -> list[str]:
    """Blank ones are refused by the API."""
    given = [stop] if isinstance(stop, str) else stop or []
    return [text for text in given if text.strip()]


def _put_output(
    sent: dict[str, Any], body: dict[str, Any], supported: frozenset[str], thinking: Thinking
) -> None:
    if thinking.thinking is not None:
        sent["thinking"] = thinking.thinking
    config: dict[str, Any] = {}
    effort = thinking.effort or (body.get("verbosity") if "verbosity" in supported else None)
    if effort is not None:
        config["effort"] = effort
    wanted = body.get("response_format") or {}
    schema = wanted["json_schema"].get("schema") if wanted.get("type") == "json_schema" else None
    if schema is not None and supported & _SCHEMA_WORDS:
        config["format"] = {"type": "json_schema", "schema": closed(schema)}
    if config:
        sent["output_config"] = config
