"""Whether tool-call arguments that stream in are a whole JSON object by now."""

import re
from typing import Final

# All that matters outside a string, and inside one.
_OUTSIDE: Final = re.compile(r'["{}\[\]]')
_INSIDE: Final = re.compile(r'["\\]')


class ObjectScanner:
    """Feed the text piece by piece; `complete` once its outermost object has closed.

    Linear in the text, whatever it holds: each character is looked at once.
    """

    __slots__ = ("_depth", "_escaped", "_in_string", "complete")

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = self._escaped = self.complete = False

    def feed(self, text: str) -> None:
        place, end = (1, len(text)) if self._escaped and text else (0, len(text))
        if place:
            self._escaped = False
        while place < end and not self.complete:
            found = (_INSIDE if self._in_string else _OUTSIDE).search(text, place)
            if found is None:
                return
            place = self._take(found.group(), found.end(), end)

    def _take(self, mark: str, after: int, end: int) -> int:
        if mark == '"':
            self._in_string = not self._in_string
        elif mark == "\\":
            self._escaped = after == end
            return after + 1
        elif mark in "{[":
            self._depth += 1
        else:
            self._depth -= 1
            self.complete = mark == "}" and self._depth == 0
        return after
