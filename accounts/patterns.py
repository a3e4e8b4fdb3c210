r"""Patterns of content filters: RE2, whose time is linear in the text, whatever the pattern.

Lookaround and backreferences it does not have. Nested repetitions as in `(a+)+`, of which engines
that backtrack die, are harmless here and still refused. They are never meant, and other tools may
read a guardrail.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

import re2
from re2 import _re2  # type: ignore[attr-defined]  # Its own module of compiled code, past the cache of the other.

from accounts.pattern_tokens import (
    Token,
    read_repetition,
    skip_class,
    skip_group_head,
    split_pattern,
)
from gateway.http.jsonio import Raw

PATTERN_CHARS_MAX: Final = 100_000
# What one compiled pattern may take, its automaton included; longer patterns get more.
_MEMORY_BYTES: Final = 1 << 20
_MEMORY_OF_LONG_BYTES: Final = 8 << 20
_LONG_CHARS: Final = 2_000
_CHARS_AT_ONCE: Final = 1_000
# The most instructions of patterns that are made into one.
_UNION: Final = 2_000
_LARGE: Final = ("{", "\\p", "\\P")
_ANYWHERE: Final = _re2.RE2.Anchor.UNANCHORED
_NO_MATCH: Final = (-1, -1)


class InvalidPattern(ValueError):
    """The text says what is wrong with the pattern."""


class CompiledPattern:
    """One pattern, ready to search UTF-8 text. The search itself lets other threads run."""

    __slots__ = ("_regexp", "memory_bytes", "pattern", "size")

    def __init__(self, pattern: str, *, ignore_case: bool = False) -> None:
        """Raises `InvalidPattern`."""
        options = re2.Options()
        options.log_errors = False
        options.never_capture = True
        options.case_sensitive = not ignore_case
        is_long = len(pattern) > _LONG_CHARS
        # What is longer is not told again.
        self.pattern = "" if is_long or ignore_case else pattern
        self.memory_bytes = _MEMORY_OF_LONG_BYTES if is_long else _MEMORY_BYTES
        options.max_mem = self.memory_bytes
        self._regexp: Any = _re2.RE2(pattern.encode(), options)
        if not self._regexp.ok():
            raise InvalidPattern(_describe_error(self._regexp.error().decode("utf-8", "replace")))
        if (local := _drop_unspaced_borders(pattern)) != pattern:
            regexp: Any = _re2.RE2(local.encode(), options)
            # One that became too large stays as it is.
            self._regexp = regexp if regexp.ok() else self._regexp
        # Instructions of the program: the most steps that a byte of text can cost.
        self.size: int = self._regexp.ProgramSize()

    def find(self, text: Raw, start: int, end: int) -> tuple[int, int] | None:
        """The first match in `text[start:end]`, in bytes from the beginning of the text."""
        first: tuple[int, int] = self._regexp.Match(_ANYWHERE, text, start, end)[0]
        return None if first == _NO_MATCH else first


def is_quick_to_compile(patterns: Sequence[str]) -> bool:
    """Whether these are compiled within a millisecond or so. A count (`{1000}`) and a class of
    Unicode's can make much of a few characters."""
    if sum(map(len, patterns)) > _CHARS_AT_ONCE:
        return False
    return not any(mark in pattern for pattern in patterns for mark in _LARGE)


def join_patterns(patterns: Sequence[CompiledPattern]) -> str | None:
    r"""The pattern that matches wherever one of several does; None where that would be a large one.

    A group ends the flags that a pattern sets, but not a quotation (`\Q`) that it leaves open.
    """
    texts = [each.pattern for each in patterns]
    is_large = sum(each.size for each in patterns) > _UNION
    if is_large or not all(texts) or any("\\Q" in text for text in texts):
        return None
    union = "|".join([f"(?:{text})" for text in texts])
    return None if len(union) > _LONG_CHARS else union


def check_pattern(pattern: str) -> None:
    """Raises `InvalidPattern` for what no guardrail may have."""
    CompiledPattern(pattern)
    if _is_catastrophic(pattern):
        raise InvalidPattern("nested repetition of one thing, as in (a+)+")


# --- What is wrong ------------------------------------------------------------------------------

_KNOWN: Final = (
    ("invalid perl operator: (?=", "lookaround is not supported"),
    ("invalid perl operator: (?!", "lookaround is not supported"),
    ("invalid perl operator: (?<", "lookaround is not supported"),
    ("invalid named capture group: (?<=", "lookaround is not supported"),
    ("invalid named capture group: (?<!", "lookaround is not supported"),
    ("invalid escape sequence: \\k", "backreferences are not supported"),
    ("invalid perl operator: (?P", "backreferences are not supported"),
    ("pattern too large", "too complex"),
    ("invalid repetition size", "too complex: at most 1000 repetitions, all levels together"),
)


def _describe_error(error: str) -> str:
    """RE2's words, without the caller's own pattern where that is long."""
    for beginning, text in _KNOWN:
        if error.startswith(beginning):
            return text
    digit = error.removeprefix("invalid escape sequence: \\")
    if digit != error and digit[:1].isdigit():
        return "backreferences are not supported"
    return error[:200]


# --- Nested repetition ----------------------------------------------------------------------------


class _Branch:
    """One alternative of a group as far as it was read. It says how many things it must match, and
    whether the only such thing is repeated without end."""

    __slots__ = ("endless", "optional_endless", "required")

    def __init__(self) -> None:
        self.required = 0
        self.endless = False
        self.optional_endless = False

    def add(self, *, optional: bool, endless: bool) -> None:
        if optional:
            self.optional_endless |= endless
        else:
            self.required += 1
            self.endless = endless

    @property
    def is_endless(self) -> bool:
        """Whether it may be matched by nothing but a repetition without end."""
        if self.required == 0:
            return self.optional_endless
        return self.required == 1 and self.endless


def _is_catastrophic(pattern: str) -> bool:
    """Whether a group that is repeated without end may consist of such a repetition alone."""
    groups: list[list[_Branch]] = [[_Branch()]]
    at, length = 0, len(pattern)
    while at < length:
        char = pattern[at]
        at += 1
        if char == "(":
            groups.append([_Branch()])
            at = skip_group_head(pattern, at)
            continue
        if char == "|":
            groups[-1].append(_Branch())
            continue
        endless = False
        if char == ")":
            if len(groups) == 1:
                continue
            endless = any(branch.is_endless for branch in groups.pop())
        elif char == "[":
            at = skip_class(pattern, at)
        elif char == "\\":
            at += 1
        elif char in "^$":
            continue
        optional, repeated, at = read_repetition(pattern, at)
        if endless and repeated:
            return True
        groups[-1][-1].add(optional=optional, endless=endless or repeated)
    return False


# --- Borders of words ---------------------------------------------------------------------------


def _drop_unspaced_borders(pattern: str) -> str:
    r"""The pattern without each `\b` beside letters of scripts without spaces, which have no such
    borders. RE2 knows words of ASCII alone: `\b密码\b` would match nowhere."""
    may_be_unspaced = not pattern.isascii() or "\\p" in pattern or "\\x" in pattern
    if not may_be_unspaced or "\\b" not in pattern or "\\Q" in pattern:
        return pattern
    tokens = split_pattern(pattern)
    branches = _find_branches(tokens)
    before, after, dropped = Counter[int](), Counter[int](), set[int]()
    for at, token in enumerate(tokens):
        if token.kind == "border":
            is_end = _ends_word(tokens, at)
            beside = list(_find_beside(tokens, branches, at - 1 if is_end else at + 1, is_end))
            others = [place for place in beside if not tokens[place].is_unspaced_word]
            if len(others) < len(beside):
                dropped.add(at)
                (after if is_end else before).update(others)
    return "".join(
        "\\b" * before[at] + ("" if at in dropped else token.text) + "\\b" * after[at]
        for at, token in enumerate(tokens)
    )


def _find_branches(tokens: Sequence[Token]) -> dict[int, list[int]]:
    """By the place of each bracket, the places of its group's two brackets and of the bars between
    them."""
    found: dict[int, list[int]] = {}
    waiting: list[list[int]] = []
    for at, token in enumerate(tokens):
        if token.kind == "open":
            waiting.append([at])
        elif waiting and token.kind in ("bar", "close"):
            waiting[-1].append(at)
        if waiting and token.kind == "close":
            marks = waiting.pop()
            found[marks[0]] = found[at] = marks
    return found


def _ends_word(tokens: Sequence[Token], at: int) -> bool:
    """Whether the border stands behind a word, and not before one."""
    before, after = tokens[at - 1], tokens[at + 1]
    if before.kind not in ("atom", "close"):
        return False
    is_between = after.kind in ("atom", "open")
    return not is_between or (before.is_unspaced_word and not after.is_unspaced_word)


def _find_beside(
    tokens: Sequence[Token], branches: dict[int, list[int]], first: int, is_end: bool
) -> Iterator[int]:
    """The places that may stand beside a border: of a group those in each of its branches."""
    waiting = [first]
    while waiting:
        at = waiting.pop()
        marks = branches.get(at, [])
        is_group = tokens[at].kind == ("close" if is_end else "open")
        if not is_group or not marks or tokens[marks[-1]].repetition:
            # Of what may be left out the next one stands there as well.
            end = at
            while tokens[end].is_unspaced and tokens[end].is_optional:
                end += -1 if is_end else 1
            yield end if tokens[end].is_unspaced else at
        elif is_end:
            waiting += [mark - 1 for mark in marks[1:]]
        else:
            waiting += [mark + 1 for mark in marks[:-1]]
