"""Usage objects of chat providers, where they count in their own way, in the usual shape."""

from typing import Any, Final

from gateway.http.jsonio import JsonObject

_PROMPT_DETAILS: Final = "prompt_tokens_details"
_COMPLETION_DETAILS: Final = "completion_tokens_details"
# Other words for tokens read from the prompt cache, beside the counts (DeepSeek, Moonshot,
# Mistral), and for those written to it, among the details (Alibaba).
_CACHED: Final = ("prompt_cache_hit_tokens", "cached_tokens", "num_cached_tokens")
_WRITTEN: Final = ("cache_creation_input_tokens", "cache_creation_tokens")
_CACHED_ELSEWHERE: Final = frozenset(_CACHED)
_WRITTEN_ELSEWHERE: Final = frozenset(_WRITTEN)


def usual_usage(reported: Any) -> Any:
    """The same object where it is usual already, or no usage at all."""
    if not isinstance(reported, dict):
        return reported
    usage = _with_cached(reported)
    return _with_reasoning(usage)


def _with_cached(usage: JsonObject) -> JsonObject:
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


def _with_reasoning(usage: JsonObject) -> JsonObject:
    """Some leave reasoning out of the completion and count it into the total alone: xAI, which
    tells how much it was, and Gemini, which does not."""
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    total = usage.get("total_tokens")
    if not (type(prompt) is type(completion) is type(total) is int):
        return usage
    beside = total - prompt - completion
    if beside <= 0 or prompt < 0 or completion < 0 or _leaves_out_cached(usage, prompt):
        return usage
    details = usage.get(_COMPLETION_DETAILS)
    details = details if isinstance(details, dict) else {}
    if (told := details.get("reasoning_tokens")) and told != beside:
        # The total holds something else.
        return usage
    more = {"completion_tokens": completion + beside}
    return {**usage, **more, _COMPLETION_DETAILS: {**details, "reasoning_tokens": beside}}


def _leaves_out_cached(usage: JsonObject, prompt: int) -> bool:
    """Whether more was read from the cache than the prompt has: the total holds that as well."""
    details = usage.get(_PROMPT_DETAILS)
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return type(cached) is int and cached > prompt


def _first(owner: JsonObject, names: tuple[str, ...]) -> Any:
    return next((owner[name] for name in names if owner.get(name)), None)
