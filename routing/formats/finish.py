"""finish_reason: the providers' many words and ours."""

from typing import Any

_WORDS = {
    "stop": "stop end_turn stop_sequence pause_turn compaction eos STOP",
    "length": "length max_tokens max_output_tokens MAX_TOKENS model_context_window_exceeded",
    "tool_calls": "tool_calls function_call tool_use",
    "content_filter": "content_filter refusal SAFETY RECITATION BLOCKLIST PROHIBITED_CONTENT SPII",
    "error": "error failed MALFORMED_FUNCTION_CALL",
}
_NORMAL = {native: ours for ours, natives in _WORDS.items() for native in natives.split()}


def normal_finish(native: Any, *, has_tool_calls: bool) -> str:
    """Our word for a provider's finish reason (inference reference 2.4).

    Where there are tool calls, `stop` and unknown words are `tool_calls`: callers look for calls
    behind no other. A refusal that came as a normal answer stays `stop`.
    """
    known = _NORMAL.get(native) if isinstance(native, str) else None
    if known in (None, "stop"):
        return "tool_calls" if has_tool_calls else "stop"
    return known
