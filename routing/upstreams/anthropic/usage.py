"""Token counts of the messages API, and the same in the chat format's shape.

Input counts leave out what was read from and written to the prompt cache; chat counts all three
together.
"""

from typing import Any, Final

from gateway.http.jsonio import JsonObject

# The parts of a prompt; their sum is what the chat format calls `prompt_tokens`.
_PROMPT_PARTS: Final = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_TIERS: Final = {"standard": "default"}


def read_tier(usage: object) -> str | None:
    """The tier that served; the base tier is called `standard` there and `default` elsewhere."""
    tier = usage.get("service_tier") if isinstance(usage, dict) else None
    return _TIERS.get(tier, tier.replace("\0", "")) if isinstance(tier, str) else None


class UsageCounter:
    """The counts of one answer, which comes whole or in several events (each cumulative)."""

    __slots__ = ("_compaction", "_counts", "_for_an_hour", "_searches", "_thinking", "completion")

    def __init__(self) -> None:
        self._counts: JsonObject = {}
        self.completion: Any = None
        self._thinking: Any = None
        self._searches: Any = None
        self._for_an_hour: Any = None
        self._compaction: dict[str, int] = {}

    def add(self, usage: object) -> None:
        """Take what an event says; what it leaves out stays as it was."""
        if not isinstance(usage, dict):
            return
        counts = {name: usage[name] for name in _PROMPT_PARTS if usage.get(name) is not None}
        if "cache_creation_input_tokens" not in counts:
            # Some upstreams tell cache writes by lifetime only.
            by_lifetime = usage.get("cache_creation")
            writes = by_lifetime.values() if isinstance(by_lifetime, dict) else ()
            if lifetimes := [count for count in writes if _is_count(count)]:
                counts["cache_creation_input_tokens"] = sum(lifetimes)
        # Some upstreams fill in zeros at the end for what they counted at the start.
        if any(counts.values()) or not self._counts:
            self._counts |= counts
        for_an_hour = _read_inner(usage, "cache_creation", "ephemeral_1h_input_tokens", None)
        if for_an_hour:
            self._for_an_hour = for_an_hour
        if usage.get("output_tokens") is not None:
            self.completion = usage["output_tokens"]
        self._thinking = _read_inner(
            usage, "output_tokens_details", "thinking_tokens", self._thinking
        )
        self._searches = _read_inner(
            usage, "server_tool_use", "web_search_requests", self._searches
        )
        if isinstance(usage.get("iterations"), list):
            self._compaction = _sum_compaction(usage["iterations"])

    def report(self) -> JsonObject | None:
        """The counts in the chat format's shape, None where there are none. A count that is no
        number travels as it is: pricing judges it."""
        if self._counts.get("input_tokens") is None and self.completion is None:
            return None
        prompt, completion = self._count_prompt(), self.completion
        if _is_count(completion):
            completion += self._compaction.get("completion", 0)
        report: JsonObject = {"prompt_tokens": prompt, "completion_tokens": completion}
        if _is_count(prompt) and _is_count(completion):
            report["total_tokens"] = prompt + completion
        details = {}
        for chat_name, api_name in _CACHE_DETAILS:
            count = self._counts.get(api_name)
            if count is not None:
                more = self._compaction.get(chat_name, 0)
                details[chat_name] = count + more if _is_count(count) else count
        if self._for_an_hour is not None:
            # Dearer than other writes; they are among them.
            details["cache_write_1h_tokens"] = self._for_an_hour
        if details:
            report["prompt_tokens_details"] = details
        if self._thinking is not None:
            report["completion_tokens_details"] = {"reasoning_tokens": self._thinking}
        if self._searches is not None:
            report["server_tool_use_details"] = {"web_search_requests": self._searches}
        return report

    def _count_prompt(self) -> Any:
        if "input_tokens" not in self._counts:
            return None
        total = self._compaction.get("prompt", 0)
        for count in self._counts.values():
            if not _is_count(count):
                return count
            total += count
        return total


_CACHE_DETAILS: Final = (
    ("cached_tokens", "cache_read_input_tokens"),
    ("cache_write_tokens", "cache_creation_input_tokens"),
)


def _is_count(value: object) -> bool:
    """A number from 0: JSON booleans are none, and a negative one spoils every sum."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _read_inner(usage: JsonObject, outer: str, name: str, before: object) -> Any:
    value = usage.get(outer)
    count = value.get(name) if isinstance(value, dict) else None
    return before if count is None else count


def _sum_compaction(iterations: list[Any]) -> dict[str, int]:
    """What compacting the conversation used: it is billed, and not in the counts on top."""
    total = {"prompt": 0, "completion": 0, "cached_tokens": 0, "cache_write_tokens": 0}
    for turn in iterations:
        if not isinstance(turn, dict) or turn.get("type") != "compaction":
            continue
        counts = {name: turn[name] for name in _PROMPT_PARTS if _is_count(turn.get(name))}
        total["prompt"] += sum(counts.values())
        total["cached_tokens"] += counts.get("cache_read_input_tokens", 0)
        total["cache_write_tokens"] += counts.get("cache_creation_input_tokens", 0)
        if _is_count(turn.get("output_tokens")):
            total["completion"] += turn["output_tokens"]
    return total
