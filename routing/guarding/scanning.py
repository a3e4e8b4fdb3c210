"""Finding matches in long texts, within bounds of time and memory.

RE2's time is linear in the text, but a pattern may cost a step for each of its instructions at
every byte. So a text is looked at in overlapping windows, each of a bounded number of steps. A
match longer than the overlap may be cut where two windows meet.
"""

import time
from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, NamedTuple

from accounts.patterns import CompiledPattern
from gateway.http.jsonio import Raw
from routing.guarding.builtins import Check

# Steps of one search: at some 5 ns each, five seconds of a thread at the very worst.
_STEPS_MAX: Final = 1_000_000_000
_WINDOW_BYTES_MIN: Final = 262_144
_OVERLAP_BYTES: Final = 32_768
# All searches of one request together.
SCAN_S: Final = 10.0
# What the compiled patterns of a process may take together.
_CACHE_BYTES: Final = 134_217_728


class TooSlow(Exception):
    """The filters of a request took more time than a request may take of them."""


class Span(NamedTuple):
    """A match, in bytes of the encoded text."""

    start: int
    end: int


class Deadline:
    """When the searches of a request have to end."""

    def __init__(self, limit_s: float = SCAN_S) -> None:
        self._at = time.monotonic() + limit_s

    def check(self) -> None:
        """Raises `TooSlow`."""
        if time.monotonic() > self._at:
            raise TooSlow


def matches(
    pattern: CompiledPattern, data: Raw, deadline: Deadline, check: Check | None = None
) -> Iterator[Span]:
    """The matches of a pattern in UTF-8 text, in order and apart; empty ones are none. Raises
    `TooSlow`."""
    at, last = 0, len(data)
    window = max(_WINDOW_BYTES_MIN, _STEPS_MAX // max(1, pattern.size))
    while at < last:
        deadline.check()
        end = min(last, at + window)
        for span in find_within(pattern, data, at, end, deadline):
            at = span.end
            if check is None or check(data, *span):
                yield span
        at = last if end == last else max(at, _character(data, end - _OVERLAP_BYTES))


def find_within(
    pattern: CompiledPattern, data: Raw, at: int, end: int, deadline: Deadline
) -> Iterator[Span]:
    """The matches within a part of the text, which knows what stands before it."""
    while at < end:
        found = pattern.find(data, at, end)
        if found is None:
            return
        start, at = found
        if start == at:
            at = _character(data, at + 1)
            deadline.check()
            continue
        yield Span(start, at)
        deadline.check()


def _character(data: Raw, at: int) -> int:
    """Where the character begins that stands at this byte or behind it."""
    while at < len(data) and data[at] & 0xC0 == 0x80:
        at += 1
    return at


class CompiledPatterns:
    """Patterns compiled once, as many as fit; those that were not used for longest go first."""

    def __init__(self, bytes_max: int = _CACHE_BYTES) -> None:
        self._bytes_max = bytes_max
        self._taken_bytes = 0
        self._known: OrderedDict[str, CompiledPattern] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def get(self, pattern: str) -> CompiledPattern | None:
        """The pattern if it has been compiled."""
        found = self._known.get(pattern)
        if found is not None:
            self._known.move_to_end(pattern)
        return found

    def put(self, pattern: str, compiled: CompiledPattern) -> None:
        """Keep it for the next who asks."""
        if pattern not in self._known:
            self._known[pattern] = compiled
            self._taken_bytes += compiled.memory_bytes
        while self._taken_bytes > self._bytes_max and len(self._known) > 1:
            _, gone = self._known.popitem(last=False)
            self._taken_bytes -= gone.memory_bytes


patterns = CompiledPatterns()
