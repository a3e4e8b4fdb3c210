"""A caller's own messages body for an upstream of the same format.

Messages, blocks and tools go as they came, with keys not known here. On top, only what the API
knows and the endpoint lists is sent, and the gateway's own fields never.
"""

from typing import Final

from gateway.http.jsonio import JsonObject
from routing.entities.exchange import Prompt, Terms
from routing.upstreams.anthropic.messages import build_empty_turn, lacks_thinking, limit_marks
from routing.upstreams.anthropic.request import (
    close_schema,
    fit_to_thinking,
    limit_budget,
    limit_output,
    put_common,
    refuses_thinking,
    resolve_thinking,
)

# Written below, whatever the caller said.
_BUILT_FIELDS: Final = frozenset(
    {"model", "messages", "max_tokens", "stream", "metadata", "service_tier", "thinking"}
    | {"output_config", "context_management", "tools", "tool_choice"}
)
# They address the gateway.
_GATEWAY_FIELDS: Final = frozenset(
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


def build_passthrough(prompt: Prompt, terms: Terms) -> JsonObject:
    """The JSON object to send. The caller's body is neither changed nor copied deeply."""
    original = {key: value for key, value in (prompt.original or {}).items() if value is not None}
    limit = limit_output(prompt, terms)
    sent: JsonObject = {
        "model": terms.upstream_model,
        "max_tokens": limit,
        "messages": original["messages"] or [build_empty_turn()],
    }
    for name, value in original.items():
        if (
            name not in _BUILT_FIELDS
            and name not in _GATEWAY_FIELDS
            and _is_listed(name, terms.supported)
        ):
            sent[name] = value
    if "tools" in terms.supported:
        _put_tools(sent, original, terms.supported)
    if (thinking := _fit_thinking(original, terms.supported, limit)) is not None:
        sent["thinking"] = thinking
    if config := _fit_output_config(original.get("output_config") or {}, terms.supported):
        sent["output_config"] = config
    _put_chat_only(sent, original, prompt, terms)
    if (edits := _fit_context_management(original, sent)) is not None:
        sent["context_management"] = edits
    put_common(sent, prompt, terms, original.get("service_tier"))
    return limit_marks(sent)


def _is_listed(name: str, supported: frozenset[str]) -> bool:
    listed_as = _LISTED_AS.get(name)
    if listed_as is None:
        return name in supported
    return not listed_as or bool(listed_as & supported)


def _put_tools(sent: JsonObject, original: JsonObject, supported: frozenset[str]) -> None:
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


def _fit_thinking(original: JsonObject, supported: frozenset[str], limit: int) -> JsonObject | None:
    """As the caller wrote it; a budget that the endpoint's cap leaves no room for is shortened, and
    where the reasoning of another model was taken out of the conversation there is none."""
    thinking: JsonObject | None = original.get("thinking")
    if thinking is None or not supported & _REASONING:
        return None
    if thinking.get("type") == "enabled" and lacks_thinking(original["messages"]):
        return None
    budget = thinking.get("budget_tokens")
    if budget is None or budget < limit:
        return thinking
    shortened = limit_budget(limit, int(budget))
    return None if shortened is None else {**thinking, "budget_tokens": shortened}


def _fit_output_config(config: JsonObject, supported: frozenset[str]) -> JsonObject:
    fitted = {key: value for key, value in config.items() if value is not None}
    if not supported & (_REASONING | {"verbosity"}):
        fitted.pop("effort", None)
    if not supported & _SCHEMA:
        fitted.pop("format", None)
    return fitted


def _fit_context_management(original: JsonObject, sent: JsonObject) -> JsonObject | None:
    """Clearing thinking is refused where there is none."""
    management: JsonObject | None = original.get("context_management")
    edits = (management or {}).get("edits")
    if management is None or not isinstance(edits, list) or "thinking" in sent:
        return management
    remaining = [edit for edit in edits if edit.get("type") != "clear_thinking_20251015"]
    if not remaining:
        return None
    return {**management, "edits": remaining}


# --- What the request says in the words of chat only ----------------------------------------------


def _put_chat_only(sent: JsonObject, original: JsonObject, prompt: Prompt, terms: Terms) -> None:
    """Add the reasoning, the effort and the schema that the caller's own body is silent about, and
    take out the mark of the cache where only marked blocks are to be cached."""
    config: JsonObject = original.get("output_config") or {}
    added: JsonObject = {}
    if "thinking" not in original and config.get("effort") is None:
        added |= _put_chat_thinking(sent, original, prompt, terms)
    if config.get("format") is None and (schema := _read_schema(prompt, terms)) is not None:
        added["format"] = {"type": "json_schema", "schema": close_schema(schema)}
    if (prompt.body.get("prompt_cache_options") or {}).get("mode") == "explicit":
        sent.pop("cache_control", None)
    if added:
        sent["output_config"] = {**sent.get("output_config", {}), **added}


def _put_chat_thinking(
    sent: JsonObject, original: JsonObject, prompt: Prompt, terms: Terms
) -> JsonObject:
    """The effort, which goes with the thinking or stands for how much is said."""
    resolved = resolve_thinking(prompt, terms, sent["max_tokens"])
    if resolved.thinking is not None and not (resolved.is_on and refuses_thinking(sent)):
        sent["thinking"] = resolved.thinking
        if resolved.is_on:
            fit_to_thinking(sent)
    effort = resolved.effort
    if effort is None and "verbosity" in terms.supported and "verbosity" not in original:
        effort = prompt.body.get("verbosity")
    return {} if effort is None else {"effort": effort}


def _read_schema(prompt: Prompt, terms: Terms) -> JsonObject | None:
    response_format = prompt.body.get("response_format") or {}
    if response_format.get("type") != "json_schema" or not terms.supported & _SCHEMA:
        return None
    schema: JsonObject | None = response_format["json_schema"].get("schema")
    return schema
