"""Chat-shaped answers of upstreams: cleaned for callers, merged where they took several turns."""

from collections.abc import Callable
from typing import Any, Final

from gateway.http.jsonio import JsonObject
from routing.formats.caller import AnswerPieces, ToolActivity

# What a caller reads as content, as against a bare role or an empty string.
_CONTENT_FIELDS = (
    "content",
    "reasoning",
    "reasoning_content",
    "reasoning_details",
    "tool_calls",
    "refusal",
    "audio",
    "images",
    "annotations",
)
_PLAIN_KEYS = frozenset({"role", "content", "refusal"})
# Where parts of a content, or reasoning details, keep what they say.
_PART_TEXTS = ("text", "thinking", "summary")


def has_content(delta: JsonObject) -> bool:
    """Whether the delta carries anything a caller would miss."""
    # A loop, because this is asked for every chunk and a generator costs three times as much.
    for name in _CONTENT_FIELDS:
        if delta.get(name):
            return True
    # Of a provider's own fields those that hold something: `executed_tools`, `extra_content`.
    return any(isinstance(value, dict | list) and value for value in delta.values())


def clean_delta(
    delta: JsonObject, *, exclude_reasoning: bool, new_call_id: Callable[[], str]
) -> JsonObject:
    """A streamed delta with `reasoning_content` renamed, reasoning left out where the caller asked
    for that, and an id on tool calls that came without one. The stream's opening has the role."""
    if len(delta) == 1 and "content" in delta:
        return delta
    clean = {name: value for name, value in delta.items() if value is not None and name != "role"}
    _clean_reasoning(clean, exclude_reasoning)
    if clean.pop("tool_calls", None) is not None and (calls := _list_calls(delta)):
        clean["tool_calls"] = [_fill_call(call, new_call_id) for call in calls]
    return clean


def clean_message(
    message: JsonObject, *, exclude_reasoning: bool, new_call_id: Callable[[], str]
) -> JsonObject:
    """A whole assistant message; `content`, `refusal` and `reasoning` are always there."""
    if _PLAIN_KEYS.issuperset(message):
        # What nearly all answers without tools and reasoning are.
        content, refusal = message.get("content"), message.get("refusal")
        return {"role": "assistant", "content": content, "refusal": refusal, "reasoning": None}
    copy = dict(message)
    _clean_reasoning(copy, exclude_reasoning)
    calls = copy["tool_calls"] = _list_calls(copy)
    clean = {
        "role": "assistant",
        "content": copy.get("content") or (None if calls else copy.get("content")),
        "refusal": copy.get("refusal"),
        "reasoning": copy.get("reasoning"),
    }
    # A provider's own fields stay, as in a stream; some it wants to have back.
    clean |= {name: each for name, each in copy.items() if each and name not in clean}
    if calls:
        clean["tool_calls"] = filled = [_fill_call(call, new_call_id) for call in calls]
        for position, call in enumerate(filled):
            if isinstance(call, dict):
                # An index is for the pieces of a stream.
                filled[position] = {name: each for name, each in call.items() if name != "index"}
    return clean


def read_text(content: object) -> str:
    """The text of chat content, which some upstreams send in parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "".join(text for text in texts if isinstance(text, str))


def count_text_chars(delta: JsonObject) -> int:
    """Characters of produced text in a delta or message, for the token estimator."""
    total = _count_chars(delta.get("content")) + _count_chars(delta.get("refusal"))
    if _PLAIN_KEYS.issuperset(delta):
        return total
    # Some upstreams tell their reasoning under several names.
    names = ("reasoning", "reasoning_content", "reasoning_details")
    total += next((chars for name in names if (chars := _count_chars(delta.get(name)))), 0)
    if isinstance(audio := delta.get("audio"), dict):
        total += _count_chars(audio.get("transcript"))
    for call in _list_calls(delta):
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            total += _count_chars(function.get("name")) + _count_chars(function.get("arguments"))
    return total


def _count_chars(value: object) -> int:
    """Characters of a text, or of all texts in a list of parts."""
    if isinstance(value, str):
        return len(value)
    if not isinstance(value, list):
        return 0
    parts = (part for part in value if isinstance(part, dict))
    return sum(_count_chars(part.get(name)) for part in parts for name in _PART_TEXTS)


def _list_calls(message: JsonObject) -> list[Any]:
    calls = message.get("tool_calls")
    return calls if isinstance(calls, list) else []


def _clean_reasoning(message: JsonObject, exclude: bool) -> None:
    renamed = message.pop("reasoning_content", None)
    if renamed is not None and message.get("reasoning") is None:
        message["reasoning"] = renamed
    if exclude:
        message.pop("reasoning", None)
        message.pop("reasoning_details", None)


def _fill_call(call: Any, new_call_id: Callable[[], str]) -> Any:
    """The first delta of a call names its function: it carries `id` and `type` as well."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not function.get("name"):
        return call
    return {**call, "id": call.get("id") or new_call_id(), "type": "function"}


_MERGED_LISTS: Final = ("reasoning_details", "images", "annotations")


def merge_pieces(pieces: AnswerPieces, *, hides_reasoning: bool) -> JsonObject:
    """Texts are joined and lists put together, in order; calls are those of the last turn."""
    texts: dict[str, list[str]] = {"content": [], "refusal": [], "reasoning": []}
    lists: dict[str, list[Any]] = {name: [] for name in _MERGED_LISTS}
    last_fields: JsonObject = {}
    for piece in pieces:
        if isinstance(piece, ToolActivity):
            if not hides_reasoning:
                lists["reasoning_details"].append(build_tool_detail(piece))
            continue
        for name, fragments in texts.items():
            if isinstance(text := piece.get(name), str):
                fragments.append(text)
        for name, items in lists.items():
            items += piece.get(name) or ()
        last_fields |= {name: piece[name] for name in ("audio", "tool_calls") if piece.get(name)}
    merged: JsonObject = {"role": "assistant"}
    merged |= {name: "".join(fragments) if fragments else None for name, fragments in texts.items()}
    merged |= {name: items for name, items in lists.items() if items}
    if not merged["content"] and "tool_calls" in last_fields:
        merged["content"] = None
    return merged | last_fields


def join_logprobs(pieces: AnswerPieces) -> Any:
    """Those of all turns; None where none had any."""
    joined: JsonObject | None = None
    for piece in pieces:
        logprobs = None if isinstance(piece, ToolActivity) else piece.get("logprobs")
        if isinstance(logprobs, dict):
            joined = {
                name: [*((joined or {}).get(name) or ()), *(logprobs.get(name) or ())] or None
                for name in dict.fromkeys([*(joined or {}), *logprobs])
            }
    return joined


def build_tool_detail(activity: ToolActivity) -> JsonObject:
    """A call of a server tool as an item of `reasoning_details`."""
    return {
        "type": "reasoning.server_tool_call",
        "id": None,
        "format": None,
        "index": activity.index,
        "tool_name": activity.tool,
        "tool_call_id": activity.call_id,
        "arguments": activity.arguments,
        "result": activity.result,
    }


_FINISH_WORDS = {
    "stop": "stop end_turn stop_sequence pause_turn compaction eos STOP",
    "length": "length max_tokens max_output_tokens MAX_TOKENS model_context_window_exceeded",
    "tool_calls": "tool_calls function_call tool_use",
    "content_filter": "content_filter refusal SAFETY RECITATION BLOCKLIST PROHIBITED_CONTENT SPII",
    "error": "error failed MALFORMED_FUNCTION_CALL",
}
_FINISH_REASONS = {
    native: ours for ours, natives in _FINISH_WORDS.items() for native in natives.split()
}


def normalize_finish(native: object, *, has_tool_calls: bool) -> str:
    """Our word for a provider's finish reason.

    Where there are tool calls, `stop` and unknown words are `tool_calls`: callers look for calls
    behind no other. A refusal that came as a normal answer stays `stop`.
    """
    reason = _FINISH_REASONS.get(native) if isinstance(native, str) else None
    if reason in (None, "stop"):
        return "tool_calls" if has_tool_calls else "stop"
    return reason
