"""Diffs as models write them for `apply_patch`: lines of context, and none that counts them.

A line begins with a space (it stays), `-` (it goes) or `+` (it comes). `@@` begins a further place,
and what stands behind it is a line that comes before that place.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

_PLACE: Final = "@@"
_END: Final = "*** End of File"
# How exactly the lines of a file must be those of a diff: the first that finds any is taken.
_LIKE: Final[Sequence[Callable[[str], str]]] = (str, str.rstrip, str.strip)
# Lines of a file that one diff may look at, again for each of its places: a few seconds' work.
LOOKED_AT_MAX: Final = 20_000_000


class DiffFailed(ValueError):
    """The diff does not fit; its text says where."""


class _Hunk(NamedTuple):
    """At a place behind the line `anchor`, `old` lines are `new` ones."""

    anchor: str
    old: list[str]
    new: list[str]
    at_end: bool


def create_text(diff: str) -> str:
    """The text of a new file, whose diff has no lines but those that come. Raises `DiffFailed`."""
    lines = diff.splitlines()
    wrong = next((line for line in lines if not line.startswith("+")), None)
    if wrong is not None:
        raise DiffFailed(f"A line of a new file begins with +: {wrong[:80]!r}")
    return "".join(f"{line[1:]}\n" for line in lines)


def patch_text(text: str, diff: str) -> str:
    """The text once the diff was applied; its line ends stay. Raises `DiffFailed`."""
    ending = "\r\n" if "\r\n" in text else "\n"
    # Of the last line's end comes an empty one, which keeps it.
    file = _File(text.replace("\r\n", "\n").split("\n"))
    out, at = list[str](), 0
    for hunk in _hunks(diff):
        start = _find_hunk(file, hunk, at)
        out += file.lines[at:start] + hunk.new
        at = start + len(hunk.old)
    return ending.join(out + file.lines[at:])


class _File:
    """The lines of a file, as they are and as much alike as each of `_LIKE` makes them."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self._alike: dict[Callable[[str], str], list[str]] = {}
        self._looked_at = 0

    def alike(self, like: Callable[[str], str]) -> list[str]:
        if like not in self._alike:
            self._alike[like] = [like(line) for line in self.lines]
        return self._alike[like]

    def count_look(self, count: int) -> None:
        """Raises `DiffFailed` once it was too many."""
        self._looked_at += count
        if self._looked_at > LOOKED_AT_MAX:
            raise DiffFailed("The diff has too many places for a file of this length")


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
            # Models leave the space away from an empty line that stays.
            mark, rest = (line[0], line[1:]) if line else (" ", "")
            if mark not in " -+":
                raise DiffFailed(f"A line of a diff begins with a space, - or +: {line[:80]!r}")
            if mark in " -":
                old.append(rest)
            if mark in " +":
                new.append(rest)
    end()
    if not hunks:
        raise DiffFailed("The diff changes nothing")
    return hunks


def _find_hunk(file: _File, hunk: _Hunk, at: int) -> int:
    """Where the hunk's old lines begin, from `at` on."""
    lines, anchor = file.lines, hunk.anchor
    if anchor:
        found = next((n for n in range(at, len(lines)) if lines[n].strip() == anchor), None)
        if found is None:
            raise DiffFailed(f"The file has no such line: {anchor[:80]!r}")
        at = found + 1
    if not hunk.old:
        # Before the nothing behind the last line's end.
        end = len(lines) - 1 if lines[-1] == "" else len(lines)
        return end if hunk.at_end or not anchor else at
    for like in _LIKE:
        fitting = find_places(file.alike(like), [like(line) for line in hunk.old], at)
        found = max(fitting, default=None) if hunk.at_end else next(fitting, None)
        # As far as it went.
        last = len(lines) if found is None or hunk.at_end else found + len(hunk.old)
        file.count_look(last - at)
        if found is not None:
            return found
    raise DiffFailed(f"The file has no such lines: {hunk.old[0][:80]!r}")


def find_places(lines: Sequence[str], old: Sequence[str], at: int) -> Iterator[int]:
    """Where `old` begins in `lines`, from `at` on. No line is looked at again from its beginning
    (Knuth, Morris and Pratt), so that lines which are all alike take no longer than others."""
    back = _borders(old)
    fit = 0
    for n in range(at, len(lines)):
        while fit and (fit == len(old) or lines[n] != old[fit]):
            fit = back[fit - 1]
        fit += lines[n] == old[fit]
        if fit == len(old):
            yield n + 1 - fit


def _borders(old: Sequence[str]) -> list[int]:
    """For each beginning of `old`: how many of its last lines are also its first ones."""
    back, fit = [0] * len(old), 0
    for n in range(1, len(old)):
        while fit and old[n] != old[fit]:
            fit = back[fit - 1]
        fit += old[n] == old[fit]
        back[n] = fit
    return back
