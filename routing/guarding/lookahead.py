"""How much of a streamed text has to be held back, so that no match of a filter leaves in parts.

Text is held from the first place on where a match may still be going on: where it ends with the
beginning of one. That is a pattern of its own, made of the filter's. Of a filter without one, the
text is held to its end.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from accounts.guard_rules import GuardrailFilter
from accounts.pattern_tokens import split_pattern
from accounts.patterns import CompiledPattern, InvalidPattern
from gateway.http.jsonio import Raw
from routing.entities.identity_cache import IdentityCache
from routing.guarding.builtins import BUILTINS
from routing.guarding.rules import compile_patterns, rules_of

_LIGHT_BYTES: Final = 1 << 20


class Lookahead(NamedTuple):
    """`beginnings` matches the longest end of a text that may become a match; None where only a
    whole text can be looked at."""

    beginnings: CompiledPattern | None

    def find_cut(self, data: Raw, start: int) -> int:
        """Up to which byte `data[start:]` may leave."""
        if self.beginnings is None:
            return start
        found = self.beginnings.find(data, start, len(data))
        return len(data) if found is None else found[0]


NOTHING_KNOWN: Final = Lookahead(None)


def _find_lookahead(filters: tuple[GuardrailFilter, ...]) -> Lookahead:
    beginnings: list[str] = []
    for rule in rules_of(filters).of_others:
        own = rule.placed.filter
        for pattern in BUILTINS[own.builtin].patterns if own.builtin else (own.pattern,):
            made = write_beginnings(pattern)
            if rule.detect is not None or made is None:
                return NOTHING_KNOWN
            beginnings.append(made)
    union = "|".join(f"(?:{each})" for each in beginnings)
    text = rf"(?:{union})\z"
    try:
        return Lookahead(compile_patterns([text])[text])
    except InvalidPattern:  # Too large, or too deep.
        return NOTHING_KNOWN


# What all these filters together hold back.
find_lookahead: IdentityCache[tuple[GuardrailFilter, ...], Lookahead] = IdentityCache(
    _find_lookahead,
    may_keep=lambda each: each.beginnings is None or each.beginnings.memory_bytes <= _LIGHT_BYTES,
)


# --- Patterns of beginnings -----------------------------------------------------------------------


class _Part(NamedTuple):
    """A part of a pattern, and what matches all beginnings of its matches that more text may make
    longer. Borders match nothing: what stands before one is not over until more is known."""

    whole: str
    beginning: str


_NOTHING: Final = _Part("", "")


def write_beginnings(pattern: str) -> str | None:
    """The pattern that matches each beginning of a match, also the empty one. None where that is
    not known."""
    if "\\Q" in pattern:
        return None
    tokens = split_pattern(pattern)[1:]
    flags = ""
    while tokens[0].text.startswith("(?") and tokens[0].kind == "other":
        flags += tokens.pop(0).text
    # Of each open group its head, and its branches.
    groups: list[tuple[str, list[list[_Part]]]] = [("", [[]])]
    for token in tokens[:-1]:
        branches = groups[-1][1]
        if token.kind == "open":
            has_flags = token.text.endswith(":")
            groups.append((token.text if has_flags else "(?:", [[]]))
        elif token.kind == "close":
            head, branches = groups.pop()
            part = _repeat(_join_branches(head, branches), token.repetition)
            groups[-1][1][-1].append(part)
        elif token.kind == "bar":
            branches.append([])
        elif token.kind == "atom":
            bare = token.text.removesuffix(token.repetition)
            branches[-1].append(_repeat(_Part(bare, ""), token.repetition))
        elif token.text.startswith("(?"):
            # Flags in the middle count to the end of their group.
            return None
        else:
            branches[-1].append(_NOTHING)
    return flags + _join_branches("(?:", groups[0][1]).beginning


def _join_branches(head: str, branches: Sequence[Sequence[_Part]]) -> _Part:
    parts = [_join_sequence(each) for each in branches]
    beginnings = dict.fromkeys(each.beginning for each in parts)
    return _Part(
        f"{head}{'|'.join(each.whole for each in parts)})", f"{head}{'|'.join(beginnings)})"
    )


def _join_sequence(parts: Sequence[_Part]) -> _Part:
    """One after the other: a beginning of the first, or all of it and a beginning of the rest."""
    beginning = parts[-1].beginning if parts else ""
    for part in reversed(parts[:-1]):
        rest = part.whole + beginning
        if part.beginning:
            beginning = f"(?:{part.beginning}|{rest})"
        elif rest:
            beginning = f"(?:{rest})?"
    return _Part("".join(each.whole for each in parts), beginning)


def _repeat(part: _Part, repetition: str) -> _Part:
    bare = repetition.removesuffix("?") if len(repetition) > 1 else repetition
    if bare in ("", "?"):
        return _Part(part.whole + repetition, part.beginning)
    times = "*"
    if bare.startswith("{") and not bare.endswith(",}"):
        most = int(bare[1:-1].rpartition(",")[2])
        if most == 0:
            return _NOTHING
        times = f"{{0,{most - 1}}}"
    return _Part(part.whole + repetition, f"(?:{part.whole}){times}{part.beginning}")
