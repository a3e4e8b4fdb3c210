"""The filters that a guardrail names by a slug: patterns, and what else must be true of a match."""

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

from accounts.patterns import CompiledPattern
from gateway.http.jsonio import Raw

# Bytes of a text, beginning and end of a candidate in it -> whether it is one.
Check = Callable[[Raw, int, int], bool]


@dataclass(frozen=True)
class Builtin:
    """`redaction` takes the place of a match, `title` names it to who is blocked; `entity` is the
    word for what a detector finds. Without patterns a detector is needed."""

    slug: str
    redaction: str
    title: str
    patterns: tuple[str, ...] = ()
    check: Check | None = None
    entity: str = ""


def _digits(data: Raw, start: int, end: int) -> list[int]:
    return [byte - 48 for byte in data[start:end] if 48 <= byte <= 57]


def _is_card(data: Raw, start: int, end: int) -> bool:
    """By the check digit of Luhn's formula."""
    digits = _digits(data, start, end)
    if not 13 <= len(digits) <= 19 or len(set(digits)) == 1:
        return False
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _is_phone(data: Raw, start: int, end: int) -> bool:
    return 7 <= len(_digits(data, start, end)) <= 15


def _is_ssn(data: Raw, start: int, end: int) -> bool:
    """Numbers that are given out: no part is zero, and the first is neither 666 nor past 899."""
    digits = "".join(map(str, _digits(data, start, end)))
    area, group, serial = int(digits[:3]), int(digits[3:5]), int(digits[5:])
    return bool(area and group and serial) and area != 666 and area < 900


def _is_address(data: Raw, start: int, end: int) -> bool:
    """One that stands for itself: `std::vector` has none, and neither has a time of day."""
    if _in_word(data[start - 1 : start]) or _in_word(data[end : end + 1]):
        return False
    try:
        ipaddress.ip_address(data[start:end].decode())
    except ValueError:
        return False
    return any(byte not in b":." for byte in data[start:end])


def _in_word(byte: Raw) -> bool:
    return byte.isalnum() or byte in (b"_", b":")


_OCTET: Final = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_INSTRUCTIONS: Final = (
    r"(?:instructions?|prompts?|rules?|directions?|directives?|messages?|guidelines?|commands?"
    r"|constraints?|context)"
)
_ALL: Final = r"(?:(?:all|any|every|the|your|my|our|these|those|of)\s+)*"
_INJECTIONS: Final = (
    # Away with what was said before.
    r"(?i)\b(?:ignore|disregard|forget|override|bypass|skip|neglect)\s+"
    + _ALL
    + r"(?:previous|prior|above|earlier|preceding|foregoing|existing|initial|original|system)\s+"
    r"(?:system\s+)?" + _INSTRUCTIONS + r"\b",
    r"(?i)\b(?:ignore|disregard|forget)\s+(?:everything|anything|all)\s+"
    r"(?:that\s+)?(?:you\s+were\s+told|(?:was\s+said\s+)?(?:above|before)|you\s+know)\b",
    r"(?i)\b(?:do\s+not|don't)\s+(?:follow|obey)\s+"
    + _ALL
    + r"(?:previous|prior|above|earlier|system)\s+"
    + _INSTRUCTIONS
    + r"\b",
    # Out with what the system said.
    r"(?i)\b(?:reveal|show|print|repeat|output|display|leak|disclose|tell)\s+(?:me\s+|us\s+)?"
    r"(?:your|the)\s+(?:(?:full|entire|complete|exact|hidden|secret|original|initial)\s+)*"
    r"(?:system\s+(?:prompt|message|instructions)|(?:hidden|secret|initial|original)\s+"
    r"(?:prompt|instructions))\b",
    # Another role, without rules.
    r"(?i)\bdo\s+anything\s+now\b",
    r"(?i)\b(?:enable|enter|activate|switch\s+to|you\s+are\s+now\s+in)\s+"
    r"(?:developer|jailbreak|jailbroken|god|dan|unrestricted)\s+mode\b",
    r"(?i)\b(?:pretend|act\s+as\s+if|imagine|assume)\s+(?:that\s+)?"
    r"(?:you\s+have|there\s+are|you\s+are\s+without)\s+no\s+"
    r"(?:rules|restrictions|guidelines|limits|limitations|filters|constraints)\b",
    # What only a template may write.
    r"(?i)<\|(?:im_start|im_end|system|endoftext)\|>|\[/?INST\]|<</?SYS>>",
    r"(?i)(?:^|\n)\s*#{0,4}\s*new\s+(?:system\s+)?instructions?\s*:",
)

BUILTINS: Final = {
    each.slug: each
    for each in (
        Builtin(
            "email",
            "[EMAIL]",
            "Email address",
            (r"(?i)\b[a-z0-9._%+\-]+@[a-z0-9\-]+(?:\.[a-z0-9\-]+)*\.[a-z]{2,63}\b",),
        ),
        Builtin(
            "phone",
            "[PHONE]",
            "Phone number",
            (
                # +49 30 1234567, +1 (555) 123-4567, +15551234567
                r"\+[1-9]\d{0,2}(?:[ .\-]?\(?\d{1,5}\)?){1,4}[ .\-]?\d{2,9}\b",
                r"(?:\b1[ .\-])?(?:\(\d{3}\) ?|\b\d{3}[ .\-])\d{3}[ .\-]\d{4}\b",
                # Ten digits in a row are one only as that plan gives them out.
                r"\b[2-9]\d{2}[2-9]\d{6}\b",
            ),
            _is_phone,
        ),
        Builtin(
            "ssn",
            "[SSN]",
            "Social Security number",
            (r"\b\d{3}-\d{2}-\d{4}\b", r"\b\d{3} \d{2} \d{4}\b"),
            _is_ssn,
        ),
        Builtin(
            "credit-card",
            "[CREDIT_CARD]",
            "Credit card number",
            (r"\b[2-6](?:[ \-]?\d){12,18}\b",),
            _is_card,
        ),
        Builtin(
            "ip-address",
            "[IP_ADDRESS]",
            "IP address",
            (
                rf"\b(?:{_OCTET}\.){{3}}{_OCTET}\b",
                r"(?i)(?:[0-9a-f]{1,4}|:):[0-9a-f:]{0,34}(?:[0-9a-f]|:)"
                rf"(?:{_OCTET}(?:\.{_OCTET}){{3}})?",
            ),
            _is_address,
        ),
        Builtin("person-name", "[PERSON_NAME]", "Person name", entity="PERSON"),
        Builtin("address", "[ADDRESS]", "Address", entity="ADDRESS"),
        Builtin(
            "regex-prompt-injection",
            "[PROMPT_INJECTION]",
            "Prompt injection",
            _INJECTIONS,
        ),
    )
}
INJECTION: Final = "regex-prompt-injection"


@cache
def compile_builtin(slug: str) -> tuple[CompiledPattern, ...]:
    """The patterns of a built-in filter, made once."""
    return tuple(CompiledPattern(pattern) for pattern in BUILTINS[slug].patterns)


@cache
def compile_as_one(slug: str) -> CompiledPattern:
    """What matches wherever one of them does."""
    return CompiledPattern("|".join(f"(?:{pattern})" for pattern in BUILTINS[slug].patterns))
