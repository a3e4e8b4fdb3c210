"""The wording of a schema failure: pydantic's errors in, `path: text` pairs out.

Knows no app and raises no HTTP error; the refusal's body is built from the issues elsewhere.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

ISSUES_MAX: Final = 5
# Pydantic can only list all failures or none, at about 4 us each; past this they are counted.
FAILURES_LISTED_MAX: Final = 5_000
SEGMENT_CHARS_MAX: Final = 64

HIDDEN: Final = "\0"
"""Location segments beginning with this name a branch of a union, not a place in the body.

A NUL never reaches the schema from outside: the JSON door refuses it.
"""


class Undefined:
    """Stands for a required field that is absent, so that its own schema words the failure."""

    def __repr__(self) -> str:
        return "UNDEFINED"


UNDEFINED: Final = Undefined()


@dataclass(frozen=True, slots=True)
class Issue:
    """One failure: dotted path into the body (empty for the root) and what is wrong there."""

    path: str
    message: str


def list_issues(error: ValidationError) -> list[Issue]:
    """The first five failures in field order, worded as the API promises.

    A body with thousands of failures gets one issue at the root that counts them.
    """
    count = error.error_count()
    if count > FAILURES_LISTED_MAX:
        return [Issue("", f"Invalid request parameters ({count} failures)")]
    details = error.errors(include_url=False)
    return [_build_issue(detail) for detail in details[:ISSUES_MAX]]


def join_issues(issues: Iterable[Issue]) -> str:
    """`path: text` of at most five issues, joined with `; `; the body root has no prefix."""
    shown = list(issues)[:ISSUES_MAX]
    return "; ".join(f"{i.path}: {i.message}" if i.path else i.message for i in shown)


def name_json_type(value: object) -> str:
    """The JSON type of a value, by the name the failure texts use."""
    if value is UNDEFINED:
        return "undefined"
    if value is None:
        return "null"
    return _JSON_TYPES.get(type(value), type(value).__name__)


def format_path(location: Iterable[int | str]) -> str:
    """`("messages", 0, "role")` as `messages.0.role`, without union branches.

    A segment can be a key the caller invented, so a very long one is cut.
    """
    # "[key]" is how pydantic says that the key, not the value, of a mapping failed.
    return ".".join(
        shorten(str(part))
        for part in location
        if not (isinstance(part, str) and (part.startswith(HIDDEN) or part == "[key]"))
    )


def shorten(text: str) -> str:
    """A caller's own words, cut to what a message can carry."""
    return text if len(text) <= SEGMENT_CHARS_MAX else text[:SEGMENT_CHARS_MAX] + "…"


def describe_options(options: Iterable[str]) -> str:
    return "Invalid option: expected one of " + "|".join(f'"{option}"' for option in options)


_Text = Callable[[dict[str, Any], object], str]

_JSON_TYPES: Final[dict[type, str]] = {
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    list: "array",
    tuple: "array",
    dict: "object",
}

# Which JSON type pydantic wanted, by the type of its error.
_EXPECTED: Final = {
    "string_type": "string",
    "string_sub_type": "string",
    "string_unicode": "string",
    "int_parsing": "number",
    "int_parsing_size": "number",
    "float_type": "number",
    "float_parsing": "number",
    "finite_number": "number",
    "bool_type": "boolean",
    "bool_parsing": "boolean",
    "list_type": "array",
    "tuple_type": "array",
    "set_type": "array",
    "frozen_set_type": "array",
    "iterable_type": "array",
    "dict_type": "object",
    "mapping_type": "object",
    "model_type": "object",
    "model_attributes_type": "object",
    "dataclass_type": "object",
    "none_required": "null",
    "uuid_type": "string",
    "url_type": "string",
    "datetime_type": "string",
}

_FORMATS: Final = {"uuid": "Invalid UUID", "url": "Invalid URL", "datetime": "Invalid ISO datetime"}

_CONTAINERS: Final = {"Dictionary": ("object", "keys")}


def _build_issue(detail: ErrorDetails) -> Issue:
    location = detail["loc"]
    kind = detail["type"]
    if kind == "extra_forbidden":
        return Issue(
            format_path(location[:-1]), f'Unrecognized key: "{shorten(str(location[-1]))}"'
        )
    if kind == "unknown_discriminator" and isinstance(detail["input"], dict):
        context = detail["ctx"]
        return Issue(format_path((*location, context["discriminator"])), context["text"])
    if kind in _EXPECTED:
        text = describe_wrong_type(_EXPECTED[kind], detail["input"])
    elif kind in _TEXTS:
        text = _TEXTS[kind](detail.get("ctx", {}), detail["input"])
    else:
        # The sentence of a validator that raised ValueError, without pydantic's prefix.
        sentence = detail["msg"].removeprefix("Value error, ")
        text = _FORMATS.get(kind.partition("_")[0]) or sentence
    return Issue(format_path(location), text)


def describe_wrong_type(expected: str, value: object) -> str:
    return f"Invalid input: expected {expected}, received {name_json_type(value)}"


def _describe_non_integer(context: dict[str, Any], value: object) -> str:
    return describe_wrong_type("int" if isinstance(value, float) else "number", value)


def _describe_bound(side: str, sign: str, key: str) -> _Text:
    def text(context: dict[str, Any], value: object) -> str:
        bound = context[key]
        if isinstance(bound, float) and bound.is_integer():
            bound = int(bound)
        return f"{side}: expected number to be {sign}{bound}"

    return text


def _describe_size(side: str, sign: str, key: str) -> _Text:
    of_string = _describe_length(side, sign, key)

    def text(context: dict[str, Any], value: object) -> str:
        if isinstance(value, str):
            # A bound behind a validator of ours does not say what it bounds.
            return of_string(context, value)
        name, unit = _CONTAINERS.get(context.get("field_type", ""), ("array", "items"))
        return f"{side}: expected {name} to have {sign}{context[key]} {unit}"

    return text


def _describe_length(side: str, sign: str, key: str) -> _Text:
    def text(context: dict[str, Any], value: object) -> str:
        return f"{side}: expected string to have {sign}{context[key]} characters"

    return text


def _describe_literal(context: dict[str, Any], value: object) -> str:
    # Pydantic lists the options as Python reprs: 'a', 'b' or 'c'.
    options = re.findall(r"'([^']*)'", context["expected"])
    if len(options) == 1:
        return f'Invalid input: expected "{options[0]}"'
    return describe_options(options)


_TEXTS: Final[dict[str, _Text]] = {
    "int_type": _describe_non_integer,
    "int_from_float": _describe_non_integer,
    "missing": lambda context, value: "Invalid input: received undefined",
    "literal_error": _describe_literal,
    "enum": _describe_literal,
    "greater_than": _describe_bound("Too small", ">", "gt"),
    "greater_than_equal": _describe_bound("Too small", ">=", "ge"),
    "less_than": _describe_bound("Too big", "<", "lt"),
    "less_than_equal": _describe_bound("Too big", "<=", "le"),
    "string_too_short": _describe_length("Too small", ">=", "min_length"),
    "string_too_long": _describe_length("Too big", "<=", "max_length"),
    "too_short": _describe_size("Too small", ">=", "min_length"),
    "too_long": _describe_size("Too big", "<=", "max_length"),
    "string_pattern_mismatch": lambda context, value: (
        f"Invalid string: must match pattern /{context['pattern']}/"
    ),
    "unknown_discriminator": lambda context, value: describe_wrong_type("object", value),
    "wrong_kind": lambda context, value: describe_wrong_type(context["expected"], value),
}
