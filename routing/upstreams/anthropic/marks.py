"""Cache breakpoints: the API takes four, and counts them in the order of the prompt."""

from typing import Any, Final

MARKS_MAX: Final = 4
# Where marks stand in a body, in the order in which the model reads it.
_MARKED: Final = ("tools", "system", "messages")
# Blocks that cannot carry one.
_UNMARKABLE: Final = ("thinking", "redacted_thinking")


def with_last_marks(body: dict[str, Any]) -> dict[str, Any]:
    """The body with no more breakpoints than the API takes: the last ones stay. An automatic one
    (`cache_control` on top) takes a place. The same body where there are few enough."""
    most = MARKS_MAX - (body.get("cache_control") is not None)
    surplus = _count([body.get(name) for name in _MARKED]) - most
    if surplus <= 0:
        return body
    eraser = _Eraser(surplus)
    return body | {name: eraser.erased(body[name]) for name in _MARKED if name in body}


def mark_last_block(turns: list[dict[str, Any]], mark: dict[str, Any]) -> None:
    """Put an automatic breakpoint on the last block that can carry one."""
    for turn in reversed(turns):
        for block in reversed(turn["content"]):
            if block["type"] not in _UNMARKABLE:
                block.setdefault("cache_control", dict(mark))
                return


def _count(waiting: list[Any]) -> int:
    """Breakpoints in these and in all that is inside them, which is put behind them: a call for
    each block of a long conversation would cost more than the look at it."""
    marks = 0
    for value in waiting:
        if isinstance(value, dict):
            if value.get("cache_control") is not None:
                marks += 1
            inner = value.get("content")
            if isinstance(inner, list):
                waiting += inner
            elif isinstance(inner, dict):
                waiting.append(inner)
        elif isinstance(value, list):
            waiting += value
    return marks


class _Eraser:
    """Copies blocks without the first marks."""

    def __init__(self, surplus: int) -> None:
        self._surplus = surplus

    def erased(self, value: Any) -> Any:
        if not self._surplus:
            return value
        if isinstance(value, list):
            return [self.erased(item) for item in value]
        if not isinstance(value, dict):
            return value
        kept = dict(value)
        if "content" in kept:
            kept["content"] = self.erased(kept["content"])
        if self._surplus and kept.get("cache_control") is not None:
            del kept["cache_control"]
            self._surplus -= 1
        return kept
