"""Diffs as models write them for `apply_patch`: lines of context, and none that counts them.

A line begins with a space (it stays), `-` (it goes) or `+` (it comes). `@@` begins a further place,
and what stands behind it is a line that comes before that place.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

_PLACE: Final = "@@"
_END: Final = "*** End of File"
# How exactly the lines of a file must be those of a diff: the first that finds any is taken.
_LIKE: Final[Sequence[Callable[[str], str]]] = (str, str.rstrip, str.strip)


class DiffFailed(ValueError):
    """The diff does not fit; its text says where."""


class _Hunk(NamedTuple):
    """At a place behind the line `anchor`, `old` lines are `new` ones."""

    anchor: str
    old: list[str]
    new: list[str]
    at_end: bool


def created(diff: str) -> str:
    """The text of a new file, whose diff has no lines but those that come. Raises `DiffFailed`."""
    lines = diff.splitlines()
    wrong = next((line for line in lines if not line.startswith("+")), None)
    if wrong is not None:
        raise DiffFailed(f"A line of a new file begins with +: {wrong[:80]!r}")
    return "".join(f"{line[1:]}\n" for line in lines)


def patched(text: str, diff: str) -> str:
    """The text once the diff was applied; its line ends stay. Raises `DiffFailed`."""
    ending = "\r\n" if "\r\n" in text else "\n"
    # Of the last line's end comes an empty one, which keeps it.
    lines = text.replace("\r\n", "\n").split("\n")
    out, at = list[str](), 0
    for hunk in _hunks(diff):
        start = _found(lines, hunk, at)
        out += lines[at:start] + hunk.new
        at = start + len(hunk.old)
    return ending.join(out + lines[at:])


def _hunks(diff: str) -> list[_Hunk]:
    hunks, anchor = list[_Hunk](), ""
    old, new = list[str](), list[str]()

    def end(*, at_end: bool = False) -> None:
        if old or new:
            hunks.append(_Hunk(anchor, list(old), list(new), at_end))
        old.clear()
        new.clear()

    for line in diff.splitlines():
        if line.startswith(_PLACE):
            end()
            anchor = line[len(_PLACE) :].strip()
        elif line.strip() == _END:
            end(at_end=True)
        else:
            _take(line, old, new)
    end()
    if not hunks:
        raise DiffFailed("The diff changes nothing")
    return hunks


def _take(line: str, old: list[str], new: list[str]) -> None:
    # Models leave the space away from an empty line that stays.
    mark, rest = (line[0], line[1:]) if line else (" ", "")
    if mark not in " -+":
        raise DiffFailed(f"A line of a diff begins with a space, - or +: {line[:80]!r}")
    if mark in " -":
        old.append(rest)
    if mark in " +":
        new.append(rest)


def _found(lines: list[str], hunk: _Hunk, at: int) -> int:
    """Where the hunk's old lines begin, from `at` on."""
    if hunk.anchor:
        at = _behind(lines, hunk.anchor, at)
    if not hunk.old:
        return _end_of(lines) if hunk.at_end or not hunk.anchor else at
    for like in _LIKE:
        old = [like(line) for line in hunk.old]
        have = [like(line) for line in lines]
        places = range(at, len(lines) - len(old) + 1)
        fitting = (place for place in places if have[place : place + len(old)] == old)
        found = max(fitting, default=None) if hunk.at_end else next(fitting, None)
        if found is not None:
            return found
    raise DiffFailed(f"The file has no such lines: {hunk.old[0][:80]!r}")


def _behind(lines: list[str], anchor: str, at: int) -> int:
    found = next((n for n in range(at, len(lines)) if lines[n].strip() == anchor), None)
    if found is None:
        raise DiffFailed(f"The file has no such line: {anchor[:80]!r}")
    return found + 1


def _end_of(lines: list[str]) -> int:
    """Before the nothing behind the last line's end."""
    return len(lines) - 1 if lines[-1] == "" else len(lines)
