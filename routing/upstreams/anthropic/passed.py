"""A caller's own messages body for an upstream of the same format.

Messages, blocks and tools go as they came, with keys not known here. On top, only what the API
knows and the endpoint lists is sent, and the gateway's own fields never.
"""

from typing import Any, Final

from routing.entities.exchange import Prompt, Terms
from routing.upstreams.anthropic.budgets import budget_below
from routing.upstreams.anthropic.marks import with_last_marks
from routing.upstreams.anthropic.translated import output_limit, put_common
from routing.upstreams.anthropic.turns import empty_turn, lacks_thinking
from routing.upstreams.anthropic.unsaid import put_unsaid

# Written below, whatever the caller said.
_WRITTEN: Final = frozenset(
    {"model", "messages", "max_tokens", "stream", "metadata", "service_tier", "thinking"}
    | {"output_config", "context_management", "tools", "tool_choice"}
)
# They address the gateway.
_GATEWAY: Final = frozenset(
    {"models", "fallbacks", "provider", "plugins", "route", "preset", "session_id", "trace"}
    | {"user", "debug", "usage", "stop_server_tools_when", "max_tool_calls", "transforms"}
)
# What the endpoint must list (any of them) for a field to be sent, where it is not its own name.
_LISTED_AS: Final[dict[str, frozenset[str]]] = {
    "system": frozenset(),
    "cache_control": frozenset(),
    "stop_sequences": frozenset({"stop"}),
}
_REASONING: Final = frozenset({"reasoning", "reasoning_effort"})
_SCHEMA: Final = frozenset({"response_format", "structured_outputs"})


def passed_body(prompt: Prompt, terms: Terms) -> dict[str, Any]:
    """The JSON object to send. The caller's body is neither changed nor copied deeply."""
    original = {key: value for key, value in (prompt.original or {}).items() if value is not None}
    limit = output_limit(prompt, terms)
    sent: dict[str, Any] = {
        "model": terms.upstream_model,
        "max_tokens": limit,
        "messages": original["messages"] or [empty_turn()],
    }
    for name, value in original.items():
        if name not in _WRITTEN and name not in _GATEWAY and _is_listed(name, terms.supported):
            sent[name] = value
    if "tools" in terms.supported:
        _put_tools(sent, original, terms.supported)
    if (thinking := _thinking(original, terms.supported, limit)) is not None:
        sent["thinking"] = thinking
    if config := _output_config(original.get("output_config") or {}, terms.supported):
        sent["output_config"] = config
    put_unsaid(sent, original, prompt, terms)
    if (edits := _context_management(original, sent)) is not None:
        sent["context_management"] = edits
    put_common(sent, prompt, terms, original.get("service_tier"))
    return with_last_marks(sent)


def _is_listed(name: str, supported: frozenset[str]) -> bool:
    wanted = _LISTED_AS.get(name)
    if wanted is None:
        return name in supported
    return not wanted or bool(wanted & supported)


def _put_tools(sent: dict[str, Any], original: dict[str, Any], supported: frozenset[str]) -> None:
    tools = [
        tool
        for tool in original.get("tools") or []
        if not str(tool.get("type") or "").startswith("router:")
    ]
    if not tools:
        return
    sent["tools"] = tools
    choice = original.get("tool_choice")
    if choice is not None and "tool_choice" in supported:
        sent["tool_choice"] = choice


def _thinking(
    original: dict[str, Any], supported: frozenset[str], limit: int
) -> dict[str, Any] | None:
    """As the caller wrote it; a budget that the endpoint's cap leaves no room for is shortened, and
    where the reasoning of another model was taken out of the conversation there is none."""
    thinking: dict[str, Any] | None = original.get("thinking")
    if thinking is None or not supported & _REASONING:
        return None
    if thinking.get("type") == "enabled" and lacks_thinking(original["messages"]):
        return None
    budget = thinking.get("budget_tokens")
    if budget is None or budget < limit:
        return thinking
    shortened = budget_below(limit, int(budget))
    return None if shortened is None else {**thinking, "budget_tokens": shortened}


def _output_config(config: dict[str, Any], supported: frozenset[str]) -> dict[str, Any]:
    kept = {key: value for key, value in config.items() if value is not None}
    if not supported & (_REASONING | {"verbosity"}):
        kept.pop("effort", None)
    if not supported & _SCHEMA:
        kept.pop("format", None)
    return kept


def _context_management(original: dict[str, Any], sent: dict[str, Any]) -> dict[str, Any] | None:
    """Clearing thinking is refused where there is none."""
    management: dict[str, Any] | None = original.get("context_management")
    edits = (management or {}).get("edits")
    if management is None or not isinstance(edits, list) or "thinking" in sent:
        return management
    kept = [edit for edit in edits if edit.get("type") != "clear_thinking_20251015"]
    if not kept:
        return None
    return {**management, "edits": kept}
