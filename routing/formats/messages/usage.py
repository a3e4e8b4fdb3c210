"""Usage and stop reason in the terms of messages (inference reference 4.3 and 11)."""

from typing import Any, Final

_TIERS: Final = {"default": "standard", "standard": "standard", "priority": "priority"}
_COSTS: Final = ("cost", "cost_details", "is_byok")
_COUNTS: Final = (
    "input_tokens",
    "output_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
)
NO_USAGE: Final[dict[str, Any]] = {
    "input_tokens": 0,
    "output_tokens": 0,
    "cache_creation_input_tokens": None,
    "cache_read_input_tokens": None,
    "cache_creation": None,
    "inference_geo": None,
    "output_tokens_details": None,
    "server_tool_use": None,
    "service_tier": None,
}
_NO_SERVER_TOOLS: Final = {"web_search_requests": 0, "web_fetch_requests": 0}
_STOPS: Final = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}
_REFUSED: Final = {"type": "refusal", "category": None, "explanation": None}


def usage_of(
    usage: dict[str, Any], service_tier: str | None, native: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The whole usage object from a chat-shaped report. `input_tokens` leaves out what was read
    from a cache or written to one.

    Where the upstream speaks messages, `native` is its own usage: every key it has is kept, except
    that its counts give way where they are not the ones that were charged.
    """
    counted = _counted(usage)
    whole = {**NO_USAGE, **counted, "service_tier": _TIERS.get(service_tier or "")}
    if native is not None:
        whole |= {name: value for name, value in native.items() if value is not None}
        if _prompt_and_output(whole) != (usage["prompt_tokens"], usage["completion_tokens"]):
            whole |= {name: counted[name] for name in _COUNTS}
        if isinstance(tools := whole["server_tool_use"], dict):
            whole["server_tool_use"] = {**_NO_SERVER_TOOLS, **tools}
    return whole | {name: usage[name] for name in _COSTS if name in usage}


def with_fetches(usage: dict[str, Any], fetches: int) -> dict[str, Any]:
    """The usage object of an answer for which the gateway fetched pages."""
    told = usage["server_tool_use"]
    if not fetches or told is None:
        return usage
    return usage | {"server_tool_use": {**told, "web_fetch_requests": fetches}}


def stop_of(
    finish_reason: str, native_finish: str | None, stop_sequence: str | None
) -> dict[str, Any]:
    """`stop_reason`, `stop_sequence` and `stop_details` of an answer from another format."""
    if finish_reason == "stop" and stop_sequence is not None:
        return {
            "stop_reason": "stop_sequence",
            "stop_sequence": stop_sequence,
            "stop_details": None,
        }
    reason = _STOPS.get(finish_reason, "end_turn")
    if native_finish == "model_context_window_exceeded":
        reason = native_finish
    details = dict(_REFUSED) if reason == "refusal" else None
    return {"stop_reason": reason, "stop_sequence": None, "stop_details": details}


def is_call(block: Any) -> bool:
    """Whether the model calls a tool of the caller's. Code that the provider runs calls tools too,
    and goes on within the answer."""
    if not isinstance(block, dict) or block.get("type") != "tool_use":
        return False
    caller = block.get("caller")
    return not isinstance(caller, dict) or caller.get("type") == "direct"


def _counted(usage: dict[str, Any]) -> dict[str, Any]:
    prompt = usage.get("prompt_tokens_details") or {}
    completion = usage.get("completion_tokens_details") or {}
    read = prompt.get("cached_tokens") or 0
    written = prompt.get("cache_write_tokens") or 0
    thinking = completion.get("reasoning_tokens")
    fresh = usage["prompt_tokens"] - read - written
    if fresh < 0:
        # The same tokens were written and read.
        fresh = max(0, fresh + written)
    return {
        "input_tokens": fresh,
        "output_tokens": usage["completion_tokens"],
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "output_tokens_details": None if thinking is None else {"thinking_tokens": thinking},
        "server_tool_use": _server_tools(usage.get("server_tool_use_details")),
    }


def _server_tools(details: dict[str, Any] | None) -> dict[str, Any] | None:
    if not details:
        return None
    return _NO_SERVER_TOOLS | {"web_search_requests": details.get("web_search_requests") or 0}


def _prompt_and_output(usage: dict[str, Any]) -> tuple[int, int] | None:
    counts = [usage[name] or 0 for name in _COUNTS]
    if not all(type(count) is int for count in counts):
        return None
    fresh, output, written, read = counts
    return fresh + written + read, output
