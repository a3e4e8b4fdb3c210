"""Answers for callers who offer `functions`: one `function_call`, without an id."""

from typing import Any, Final

from routing.formats.caller import Ending
from routing.formats.chat.chunks import ChatChunks

_CALL: Final = "function_call"
_CALLS: Final = "tool_calls"


def legacy_message(message: dict[str, Any]) -> dict[str, Any]:
    """A message whose first call is its `function_call`. There is no place for others."""
    result = {name: each for name, each in message.items() if name not in (_CALL, _CALLS)}
    if calls := message.get(_CALLS):
        result[_CALL] = calls[0]["function"]
    return result


def legacy_finish(finish_reason: str) -> str:
    return _CALL if finish_reason == _CALLS else finish_reason


class LegacyChunks(ChatChunks):
    """The chunks of such a caller."""

    __slots__ = ("_index",)

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        # Of the call that the answer has room for.
        self._index: int | None = None

    def delta(self, delta: dict[str, Any], logprobs: Any = None) -> bytes:
        if _CALLS not in delta and _CALL not in delta:
            return super().delta(delta, logprobs)
        fragments = [each for each in delta.get(_CALLS) or () if isinstance(each, dict)]
        if self._index is None and fragments:
            self._index = fragments[0].get("index")
        pieces = [each["function"] for each in fragments if each.get("index") == self._index]
        result = legacy_message({**delta, _CALLS: None})
        if pieces:
            texts = [each.get("arguments") or "" for each in pieces]
            result[_CALL] = {**pieces[0], "arguments": "".join(texts)}
        return super().delta(result, logprobs) if result or logprobs is not None else b""

    def closing(self, ending: Ending) -> bytes:
        return super().closing(ending._replace(finish_reason=legacy_finish(ending.finish_reason)))
