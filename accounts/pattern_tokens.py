"""Patterns of RE2 in their parts: what stands in one, and how often."""

import re
import unicodedata
from typing import Final, Literal, NamedTuple

# What is written without spaces between words: Chinese, Japanese, and from Thai to Tibetan.
_SCRIPT: Final = r"\\p\{(?:Bopomofo|Han|Hiragana|Katakana|Khmer|Lao|Myanmar|Thai|Tibetan)\}"
_SPANS: Final = (
    *("\u0e00-\u109f", "\u1780-\u17ff", "\ua9e0-\ua9ff", "\uaa60-\uaa7f"),
    *("\u3005-\u3007", "\u3041-\u312f", "\u31a0-\u31ff", "\u3400-\u9fff", "\uf900-\ufaff"),
    *("\uff66-\uff9f", "\U0001b000-\U0001b16f", "\U00020000-\U0003ffff"),
)
_RANGES: Final = "|".join(f"[{span}](?:-[{span}])?" for span in _SPANS)
# A script, a letter or a class of nothing else, with its repetition.
_UNSPACED: Final = re.compile(
    rf"(?:{_SCRIPT}|[{''.join(_SPANS)}]|\[(?:{_SCRIPT}|{_RANGES})+\])(?:[*+?{{].*)?"
)
_ESCAPE: Final = re.compile(r"\\(?:[pPx]\{[^}]*\}|x[0-9A-Fa-f]{2}|[pP].|[0-7]{1,3}|.)", re.DOTALL)
_CODE_POINT: Final = re.compile(r"\\x\{([0-9A-Fa-f]{4,6})\}")
_Kind = Literal["border", "open", "close", "bar", "atom", "other"]


class Token(NamedTuple):
    """A part of a pattern with its repetition. It is a border of words, an opening or closing
    bracket, a bar, something that matches characters (`atom`), or anything else. `repetition` is
    the end of `text`."""

    kind: _Kind
    text: str
    repetition: str = ""
    is_optional: bool = False

    @property
    def is_unspaced(self) -> bool:
        """Whether it matches letters, digits or marks of scripts without spaces alone."""
        if self.kind != "atom":
            return False
        text = _CODE_POINT.sub(lambda code: chr(int(code[1], 16)), self.text)
        is_letter = text[0] in "[\\" or unicodedata.category(text[0])[0] in "LMN"
        return is_letter and _UNSPACED.fullmatch(text) is not None

    @property
    def is_unspaced_word(self) -> bool:
        """The same, where it never matches nothing."""
        return self.is_unspaced and not self.is_optional


def split_pattern(pattern: str) -> list[Token]:
    """The tokens of a pattern that RE2 takes, between two bars."""
    tokens, at = [Token("bar", "")], 0
    while at < len(pattern):
        start, char = at, pattern[at]
        kind: _Kind = "atom"
        at += 1
        if char == "(":
            at = skip_group_head(pattern, at)
            # Flags alone are an empty group.
            are_flags = pattern[start + 1] == "?" and pattern[at - 1] not in ":>"
            kind = "other" if are_flags else "open"
            at += are_flags
        elif char in "|)":
            kind = "bar" if char == "|" else "close"
        elif char in "^$":
            kind = "other"
        elif char == "[":
            at = skip_class(pattern, at)
        elif char == "\\":
            name = pattern[at]
            kind = "border" if name == "b" else "other" if name in "ABz" else "atom"
            escape = _ESCAPE.match(pattern, start)
            assert escape is not None
            at = escape.end()
        is_optional, end = False, at
        if kind not in ("open", "bar"):
            is_optional, _, end = read_repetition(pattern, at)
        tokens.append(Token(kind, pattern[start:end], pattern[at:end], is_optional))
        at = end
    return [*tokens, Token("bar", "")]


def skip_group_head(pattern: str, at: int) -> int:
    """Past `?:`, `?P<name>` or `?i:` behind an opening bracket; flags alone are an empty group."""
    if pattern[at : at + 1] != "?":
        return at
    while at < len(pattern) and pattern[at] not in ":>)":
        at += 1
    return at if pattern[at : at + 1] == ")" else at + 1


def skip_class(pattern: str, at: int) -> int:
    """Past the bracket that closes a class; one that comes first stands for itself."""
    if pattern[at : at + 1] == "^":
        at += 1
    start = at
    while at < len(pattern):
        char = pattern[at]
        if char == "]" and at > start:
            return at + 1
        if char == "[" and pattern[at + 1 : at + 2] == ":":
            end = pattern.find(":]", at + 2)
            at = end + 2 if end >= 0 else at + 1
            continue
        at += 2 if char == "\\" else 1
    return at


def read_repetition(pattern: str, at: int) -> tuple[bool, bool, int]:
    """What follows an item: whether it may be left out, whether it repeats without end, and where
    the pattern goes on."""
    char = pattern[at : at + 1]
    if char and char in "*+?":
        optional, endless, at = char != "+", char != "?", at + 1
    elif char == "{" and (bounds := _read_bounds(pattern, at)) is not None:
        optional, endless, at = bounds
    else:
        return False, False, at
    # A question mark behind makes it lazy.
    return optional, endless, at + (pattern[at : at + 1] == "?")


def _read_bounds(pattern: str, at: int) -> tuple[bool, bool, int] | None:
    """`{2}`, `{2,}` or `{2,5}`; None where the bracket stands for itself."""
    end = pattern.find("}", at, at + 12)
    least, comma, most = pattern[at + 1 : max(end, at + 1)].partition(",")
    if end < 0 or not least.isdecimal() or (most and not most.isdecimal()):
        return None
    return int(least) == 0, bool(comma) and not most, end + 1
