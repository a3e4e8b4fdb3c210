"""Patterns of model names: a `*` stands for any number of any characters, case does not count.

They come from callers, up to a thousand in one request. So no regular expression is made of them,
and none is tried on its own. All of them advance together, a bit for each place in each pattern,
one step for every character of a name. The work depends on the lengths of names and patterns, never
on their content.
"""

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple


class Automaton(NamedTuple):
    """Places in patterns as bits of numbers. The next place is reached by a character that
    `reached_by` has the next one's bit for. A place before a star is also stayed at."""

    starts: int
    reached_by: dict[str, int]
    stays: int
    ends: int

    def matching(self, names: Iterable[str]) -> set[str]:
        """Those of the names that some pattern matches from end to end."""
        matches = set[str]()
        before, states = "", [self.starts]
        for name in sorted(names):
            # What names begin with alike is gone through once.
            shared = 0
            for mine, its in zip(before, name, strict=False):
                if mine != its:
                    break
                shared += 1
            del states[shared + 1 :]
            state = states[-1]
            for char in name[shared:]:
                state = (state << 1) & self.reached_by.get(char, 0) | state & self.stays
                states.append(state)
            if state & self.ends:
                matches.add(name)
            before = name
        return matches


class Patterns(NamedTuple):
    """Several patterns of which one is enough, the simple kinds in the form that is fastest."""

    names: frozenset[str]
    heads: tuple[str, ...]
    tails: tuple[str, ...]
    others: Automaton | None

    def matching(self, names: Collection[str]) -> set[str]:
        """Those of the names, all in lower case, that some pattern matches."""
        found = self.names.intersection(names)
        if self.heads or self.tails:
            found = found.union(
                [name for name in names if name.startswith(self.heads) or name.endswith(self.tails)]
            )
        if self.others is None:
            return set(found)
        return self.others.matching(found.symmetric_difference(names)).union(found)


@lru_cache(maxsize=16)
def compile_patterns(patterns: tuple[str, ...]) -> Patterns:
    """The patterns ready for use, cached because most requests bring the same ones."""
    # No model's name has other characters; each different one would cost an automaton of 65,536
    # places 8 KB.
    words = {pattern.lower() for pattern in patterns if pattern.isascii()}
    starred = {word for word in words if "*" in word}
    heads = {word for word in starred if word.find("*") == len(word) - 1}
    tails = {word for word in starred if word.rfind("*") == 0}
    others = sorted(starred - heads - tails)
    return Patterns(
        names=frozenset(words - starred),
        heads=tuple([head[:-1] for head in heads]),
        tails=tuple([tail[1:] for tail in tails]),
        others=_build_automaton(others) if others else None,
    )


def _build_automaton(words: Iterable[str]) -> Automaton:
    starts, stays, ends = list[int](), list[int](), list[int]()
    reached_by: dict[str, list[int]] = {}
    place = 0
    for word in words:
        starts.append(place)
        for char in word:
            if char == "*":
                stays.append(place)
            else:
                place += 1
                reached_by.setdefault(char, []).append(place)
        ends.append(place)
        # The step beyond a pattern's end leads to the next one's start, which nothing reaches.
        place += 1
    return Automaton(
        _bit_mask(starts),
        {char: _bit_mask(places) for char, places in reached_by.items()},
        _bit_mask(stays),
        _bit_mask(ends),
    )


def _bit_mask(bits: Sequence[int]) -> int:
    """The number in which these bits are set, made in one go: a number is copied when it grows."""
    octets = bytearray(max(bits, default=0) // 8 + 1)
    for bit in bits:
        octets[bit >> 3] |= 1 << (bit & 7)
    return int.from_bytes(octets, "little")
