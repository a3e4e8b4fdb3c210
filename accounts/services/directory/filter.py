"""Filters of SCIM (RFC 7644, 3.4.2.2): read into a tree, asked of rows or of JSON objects."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from django.db.models import Q

from gateway.http.errors import InvalidRequest, MalformedJson
from gateway.http.jsonio import loads

FILTER_CHARS_MAX: Final = 2000
_DEPTH_MAX: Final = 20
_TOKEN: Final = re.compile(
    r'\s*(?:(?P<text>"(?:[^"\\]|\\.)*")|(?P<mark>[()\[\]])|(?P<word>[^\s()\[\]"]+))'
)
_URN: Final = re.compile(r"urn:ietf:params:scim:schemas:[^\s]+:", re.IGNORECASE)
_LOOKUPS: Final = {
    "eq": "iexact",
    "co": "icontains",
    "sw": "istartswith",
    "ew": "iendswith",
    "gt": "gt",
    "ge": "gte",
    "lt": "lt",
    "le": "lte",
}
_WORDS: Final = {"true": True, "false": False, "null": None}


class InvalidFilter(InvalidRequest):
    """`scim_type` is what SCIM calls it."""

    scim_type = "invalidFilter"
    message = "The filter cannot be read"


@dataclass(frozen=True, slots=True)
class Comparison:
    """`operator` is one of RFC 7644, in lower case; `pr` has no value. Names are in lower case."""

    attribute: str
    operator: str
    value: Any = None


@dataclass(frozen=True, slots=True)
class Junction:
    """`not` has one part."""

    word: Literal["and", "or", "not"]
    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Within:
    """What one value of a multi-valued attribute must be, as in `emails[type eq "work"]`."""

    attribute: str
    condition: "Node"


Node = Comparison | Junction | Within


@dataclass(frozen=True, slots=True)
class Column:
    """Where rows keep an attribute. `kind` is of its values; texts compare without case unless
    `exact`."""

    name: str
    kind: Literal["text", "bool", "other"] = "text"
    exact: bool = False


def parse_filter(text: str) -> Node:
    """Raises `InvalidFilter`."""
    if len(text) > FILTER_CHARS_MAX:
        raise InvalidFilter("The filter is too long")
    tokens, place = [], 0
    text = text.strip()
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise InvalidFilter
        tokens.append(match.group().strip())
        place = match.end()
    parser = _Parser(tokens)
    node = parser.read_or(0)
    if parser.place != len(tokens):
        raise InvalidFilter
    return node


def remove_urn(path: str) -> str:
    """An attribute's path without the schema's name before it."""
    return _URN.sub("", path)


class _Parser:
    """Reads tokens from left to right; `and` binds tighter than `or`."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens, self.place = tokens, 0

    def read_or(self, depth: int) -> Node:
        return self._read_parts(
            "or", lambda: self._read_parts("and", lambda: self._read_one(depth))
        )

    def _read_parts(self, word: Literal["and", "or"], read: Callable[[], Node]) -> Node:
        parts = [read()]
        while self._peek().lower() == word:
            self.place += 1
            parts.append(read())
        return parts[0] if len(parts) == 1 else Junction(word, tuple(parts))

    def _read_one(self, depth: int) -> Node:
        if depth > _DEPTH_MAX:
            raise InvalidFilter("The filter is nested too deep")
        word = self._take()
        if word == "(":
            return self._read_until(")", depth)
        if word.lower() == "not" and self._peek() == "(":
            self.place += 1
            return Junction("not", (self._read_until(")", depth),))
        name = remove_urn(word).lower()
        if not re.fullmatch(r"[$a-z][\w.$-]*", name):
            raise InvalidFilter
        if self._peek() == "[":
            self.place += 1
            within = self._read_until("]", depth)
            # As in `emails[type eq "work"].value eq "ada@example.com"`.
            if re.fullmatch(r"\.[a-zA-Z]\w*", self._peek()):
                part = self._read_comparison(self._take()[1:].lower())
                within = Junction("and", (within, part))
            return Within(name, within)
        return self._read_comparison(name)

    def _read_comparison(self, name: str) -> Comparison:
        """What is compared with the attribute, whose name was read."""
        operator = self._take().lower()
        if operator == "pr":
            return Comparison(name, operator)
        if operator not in {*_LOOKUPS, "ne"}:
            raise InvalidFilter
        token = self._take()
        if token.lower() in _WORDS:
            return Comparison(name, operator, _WORDS[token.lower()])
        try:
            value = loads(token.encode())
        except MalformedJson:
            raise InvalidFilter from None
        if not isinstance(value, str | int | float):
            raise InvalidFilter
        return Comparison(name, operator, value)

    def _read_until(self, mark: str, depth: int) -> Node:
        node = self.read_or(depth + 1)
        if self._take() != mark:
            raise InvalidFilter
        return node

    def _peek(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        if not token:
            raise InvalidFilter
        self.place += 1
        return token


def build_condition(node: Node, columns: Mapping[str, Column]) -> Q:
    """What the filter asks of rows. Raises `InvalidFilter` for attributes without a column."""
    if isinstance(node, Junction):
        parts = [build_condition(each, columns) for each in node.parts]
        if node.word == "not":
            return ~parts[0]
        found = parts[0]
        for each in parts[1:]:
            found = found & each if node.word == "and" else found | each
        return found
    if isinstance(node, Within):
        return _build_within(node, columns)
    column = columns.get(node.attribute)
    if column is None:
        raise InvalidFilter(f"Resources cannot be filtered by {node.attribute}")
    if node.operator == "pr":
        there = Q(**{f"{column.name}__isnull": False})
        return there & ~Q(**{column.name: ""}) if column.kind == "text" else there
    if node.operator == "ne":
        return ~_compare(column, "eq", node.value)
    return _compare(column, node.operator, node.value)


def _build_within(node: Within, columns: Mapping[str, Column]) -> Q:
    """Of the value that rows keep of the attribute, whatever its `type`. Raises `InvalidFilter`."""
    condition = node.condition
    parts = condition.parts if isinstance(condition, Junction) else (condition,)
    wanted = [each for each in parts if isinstance(each, Comparison) and each.attribute != "type"]
    is_plain = not isinstance(condition, Junction) or condition.word == "and"
    if not wanted or not is_plain or not all(isinstance(each, Comparison) for each in parts):
        raise InvalidFilter(f"Resources cannot be filtered by such values of {node.attribute}")
    names = [replace(each, attribute=f"{node.attribute}.{each.attribute}") for each in wanted]
    return build_condition(Junction("and", tuple(names)), columns)


def _compare(column: Column, operator: str, value: object) -> Q:
    if value is None:
        return Q(**{f"{column.name}__isnull": True})
    is_wrong = {
        "text": not isinstance(value, str),
        "bool": not isinstance(value, bool) or operator != "eq",
        "other": not isinstance(value, str) or operator in {"co", "sw", "ew"},
    }[column.kind]
    if is_wrong:
        raise InvalidFilter("The filter compares with another kind of value")
    lookup = _LOOKUPS[operator]
    if operator == "eq" and (column.exact or column.kind != "text"):
        lookup = "exact"
    return Q(**{f"{column.name}__{lookup}": value})


def is_match(node: Node, value: object) -> bool:
    """Whether one value of a multi-valued attribute, such as an e-mail, is as the filter says."""
    if isinstance(node, Junction):
        matches = [is_match(each, value) for each in node.parts]
        if node.word == "not":
            return not matches[0]
        return all(matches) if node.word == "and" else any(matches)
    if isinstance(node, Within) or not isinstance(value, Mapping):
        return False
    found = {name.lower(): each for name, each in value.items()}.get(node.attribute)
    if node.operator == "pr":
        return found not in (None, "", [])
    wanted = node.value
    if isinstance(found, str) and isinstance(wanted, str):
        found, wanted = found.lower(), wanted.lower()
        return _COMPARE_TEXT[node.operator](found, wanted)
    return bool((found == wanted) is (node.operator == "eq"))


_COMPARE_TEXT: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "eq": str.__eq__,
    "ne": str.__ne__,
    "co": str.__contains__,
    "sw": str.startswith,
    "ew": str.endswith,
    "gt": str.__gt__,
    "ge": str.__ge__,
    "lt": str.__lt__,
    "le": str.__le__,
}
