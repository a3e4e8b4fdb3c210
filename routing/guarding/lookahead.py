"""How much of a streamed text has to be held back, so that no match of a filter leaves in parts.

A match of most filters lies within one word, or is no longer than so many characters. What may end
with a part of such a match is held back until more is known. Of a filter of which nothing of the
kind is known, the text is held to its end.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from routing.guarding.builtins import INJECTION
from routing.guarding.rules import Rule

# Filters whose matches are longer hold a text to its end.
WINDOW_CHARS_MAX: Final = 512
_WHITESPACE: Final = " \t\n\r\f\v"
# No number that a filter looks for is longer.
_NUMBER_CHARS_MAX: Final = 64
_OF_NUMBERS: Final = frozenset("0123456789 -().+")
_NUMBERS: Final = frozenset({"phone", "ssn", "credit-card"})
_WORDS: Final = frozenset({"email", "ip-address"})
# What matches no whitespace: escapes of words, digits and borders, and of punctuation.
_SAFE_ESCAPES: Final = re.compile(r"\\(?:[wdbBS]|[^\w\s])")
_SAFE_CLASSES: Final = re.compile(r"\[[^\]\\^\s\[]+\]")
_MAY_MATCH_BLANKS: Final = re.compile(r"[\\.\s^$\[]")
# Repetitions, borders of texts and lines, quotations, and classes that are not looked into.
_ENDLESS: Final = re.compile(r"[*+{^$]|\\[AzQ]")


class Lookahead(NamedTuple):
    """What is held back of a text: all of it; else so many characters at its end, its last word,
    and what may go on as a number."""

    everything: bool = False
    chars: int = 0
    last_word: bool = False
    number: bool = False

    def find_cut(self, text: str) -> int:
        """How many characters of the text may leave."""
        if self.everything:
            return 0
        cut = len(text) - self.chars
        if self.last_word:
            cut = min(cut, max(map(text.rfind, _WHITESPACE)) + 1)
        if self.number:
            at, first = len(text), max(0, len(text) - _NUMBER_CHARS_MAX)
            while at > first and text[at - 1] in _OF_NUMBERS:
                at -= 1
            # A border of words stands before a number.
            cut = min(cut, at)
        return max(0, cut)


def find_lookahead(rules: Iterable[Rule]) -> Lookahead:
    """What all these rules together hold back."""
    found = Lookahead()
    for rule in rules:
        own = _measure_rule(rule)
        found = Lookahead(
            found.everything or own.everything,
            max(found.chars, own.chars),
            found.last_word or own.last_word,
            found.number or own.number,
        )
    return found


def _measure_rule(rule: Rule) -> Lookahead:
    slug = rule.placed.filter.builtin
    if rule.detect is not None:
        return Lookahead(everything=True)
    if slug in _NUMBERS:
        return Lookahead(number=True)
    if slug in _WORDS:
        return Lookahead(last_word=True)
    if slug == INJECTION:
        return Lookahead(chars=WINDOW_CHARS_MAX)
    return measure_pattern(rule.placed.filter.pattern)


def measure_pattern(pattern: str) -> Lookahead:
    """What a pattern of a caller's own holds back, told by its text."""
    bare = _SAFE_CLASSES.sub("", _SAFE_ESCAPES.sub("", pattern))
    if "[:" not in pattern and not _MAY_MATCH_BLANKS.search(bare):
        return Lookahead(last_word=True)
    if "[:" in pattern or _ENDLESS.search(bare) or len(pattern) > WINDOW_CHARS_MAX:
        return Lookahead(everything=True)
    # Without repetition a pattern is at least as long as what it matches.
    return Lookahead(chars=len(pattern))
