"""The body of a caller who speaks this very format: passed on, but for the gateway's own fields."""

from typing import Any, Final

from gateway.http.jsonio import JsonObject
from routing.entities.exchange import Prompt, Terms
from routing.entities.ids import is_own_reasoning
from routing.upstreams.responses.reasoning_items import is_of_this_wire
from routing.upstreams.responses.request import (
    LOGPROBS,
    SEALED_REASONING,
    put_common,
    takes_reasoning,
)

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
    if "tools" in supported and _has_tools(original):
        for name in _TOOLS:
            if original.get(name) is not None and name in supported:
                sent[name] = original[name]
    _put_text(sent, original, supported)
    _put_reasoning(sent, original, prompt, terms)
    if original.get("top_logprobs") is not None and "top_logprobs" in supported:
        sent["top_logprobs"] = int(original["top_logprobs"])
    if include := _build_include(original, prompt, terms):
        sent["include"] = include
    return sent


def _has_tools(original: JsonObject) -> bool:
    return bool(original.get("tools")) or any(
        item.get("type") == "additional_tools"
        for item in original["input"]
        if isinstance(item, dict)
    )


def _filter_input(items: str | list[Any]) -> str | list[Any]:
    if isinstance(items, str):
        return items
    agents = {item["call_id"] for item in items if item.get("subagent_id")}
    return [
        _drop_format(item)
        for item in items
        if not _is_not_for_upstream(item) and not (agents and item.get("call_id") in agents)
    ]


def _is_not_for_upstream(item: JsonObject) -> bool:
    """The gateway's own tools, and reasoning that means nothing to this kind of upstream."""
    kind = item.get("type")
    if kind == "reasoning":
        return not _is_replayed(item)
    return isinstance(kind, str) and kind.startswith("router:")


def _is_replayed(item: JsonObject) -> bool:
    """Nothing is stored, so an item must hold its reasoning, sealed or as text; and text must be
    such an upstream's own, not that of another kind which the gateway made an item of."""
    format = item.get("format")
    if format not in (None, "unknown") and not is_of_this_wire(format):
        return False
    if item.get("encrypted_content") is not None:
        return True
    return (
        bool(item.get("content")) and format != "unknown" and not is_own_reasoning(item.get("id"))
    )


def _drop_format(item: JsonObject) -> JsonObject:
    """Reasoning without the gateway's note of who wrote it."""
    if item.get("type") != "reasoning" or "format" not in item:
        return item
    return {name: value for name, value in item.items() if name != "format"}


def _put_text(sent: JsonObject, original: JsonObject, supported: frozenset[str]) -> None:
    fields = original.get("text") or {}
    text = {
        name: value
        for name, value in fields.items()
        if value is not None and _TEXT.get(name, "response_format") in supported
    }
    if text:
        sent["text"] = text


def _put_reasoning(sent: JsonObject, original: JsonObject, prompt: Prompt, terms: Terms) -> None:
    if not takes_reasoning(terms):
        return
    fields = original.get("reasoning") or {}
    reasoning: JsonObject = {}
    if prompt.effort is not None:
        reasoning["effort"] = prompt.effort
    for name, value in fields.items():
        if value is not None and name not in _WISHES:
            reasoning[name] = value
    if reasoning:
        sent["reasoning"] = reasoning


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
