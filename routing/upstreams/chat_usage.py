"""Usage objects of chat providers, where they count in their own way, in the usual shape."""

from typing import Any, Final

_PROMPT_DETAILS: Final = "prompt_tokens_details"
_COMPLETION_DETAILS: Final = "completion_tokens_details"
# Other words for tokens read from the prompt cache, beside the counts (DeepSeek, Moonshot), and
# for those written to it, among the details (Alibaba).
_CACHED: Final = ("prompt_cache_hit_tokens", "cached_tokens")
_WRITTEN: Final = ("cache_creation_input_tokens", "cache_creation_tokens")
_CACHED_ELSEWHERE: Final = frozenset(_CACHED)
_WRITTEN_ELSEWHERE: Final = frozenset(_WRITTEN)


def usual_usage(reported: Any) -> Any:
    """The same object where it is usual already, or no usage at all."""
    if not isinstance(reported, dict):
        return reported
    usage = _with_cached(reported)
    return _with_reasoning(usage)


def _with_cached(usage: dict[str, Any]) -> dict[str, Any]:
    details = usage.get(_PROMPT_DETAILS)
    details = details if isinstance(details, dict) else {}
    if _CACHED_ELSEWHERE.isdisjoint(usage) and _WRITTEN_ELSEWHERE.isdisjoint(details):
        return usage
    found = {
        "cached_tokens": _first(details, ("cached_tokens",)) or _first(usage, _CACHED),
        "cache_write_tokens": _first(details, ("cache_write_tokens", *_WRITTEN)),
    }
    more = {name: count for name, count in found.items() if count and not details.get(name)}
    return {**usage, _PROMPT_DETAILS: {**details, **more}} if more else usage


def _with_reasoning(usage: dict[str, Any]) -> dict[str, Any]:
    """Some leave reasoning out of the completion and count it into the total alone (xAI)."""
    details = usage.get(_COMPLETION_DETAILS)
    reasoning = details.get("reasoning_tokens") if isinstance(details, dict) else None
    counts: tuple[Any, ...] = (
        usage.get("prompt_tokens"),
        usage.get("completion_tokens"),
        reasoning,
    )
    total = usage.get("total_tokens")
    if not reasoning:
        # And some say nothing of it but in the total (Gemini).
        reasoning = _beyond(total, *counts[:2])
        return _with_more(usage, reasoning, stated=False) if reasoning else usage
    if not all(type(count) is int and count >= 0 for count in counts) or total != sum(counts):
        return usage
    return _with_more(usage, reasoning, stated=True)


def _beyond(total: Any, *counts: Any) -> int:
    """What a total has beyond its parts; 0 where they are no counts."""
    if any(type(count) is not int or count < 0 for count in (total, *counts)):
        return 0
    return max(0, int(total) - sum(map(int, counts)))


def _with_more(usage: dict[str, Any], reasoning: int, *, stated: bool) -> dict[str, Any]:
    more = {**usage, "completion_tokens": usage["completion_tokens"] + reasoning}
    if not stated:
        details = usage.get(_COMPLETION_DETAILS)
        given = details if isinstance(details, dict) else {}
        more[_COMPLETION_DETAILS] = {**given, "reasoning_tokens": reasoning}
    return more


def _first(owner: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((owner[name] for name in names if owner.get(name)), None)
