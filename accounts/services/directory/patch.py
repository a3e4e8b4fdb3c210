"""PATCH of SCIM (RFC 7644, 3.5.2): operations on a resource as JSON. Pure."""

import re
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final

from accounts.services.directory.filter import Comparison, Node, is_match, parse_filter, remove_urn
from gateway.http.errors import InvalidRequest
from gateway.http.jsonio import JsonObject

OPERATIONS_MAX: Final = 1000
_PATH: Final = re.compile(
    r"(?P<attribute>[A-Za-z][\w-]*)(?:\[(?P<filter>.+)\])?(?:\.(?P<sub>[$A-Za-z][\w-]*))?",
    re.DOTALL,
)
_READ_ONLY: Final = frozenset({"id", "schemas", "meta", "groups"})
_OPERATIONS: Final = frozenset({"add", "remove", "replace"})


class InvalidPath(InvalidRequest):
    scim_type, message = "invalidPath", "The path of an operation cannot be read"


class NoTarget(InvalidRequest):
    scim_type, message = "noTarget", "The path of an operation leads to no value"


class InvalidSyntax(InvalidRequest):
    scim_type, message = "invalidSyntax", "The operations cannot be read"


class Immutable(InvalidRequest):
    scim_type, message = "mutability", "The attribute cannot be changed"


def apply_operations(
    resource: Mapping[str, Any], operations: object, *, names: Mapping[str, str]
) -> JsonObject:
    """The resource after all operations. `names` are its writable attributes, by their names in
    lower case; others are passed over, as directories send what nobody here keeps.

    Raises `InvalidSyntax`, `InvalidPath`, `InvalidFilter`, `NoTarget`, `Immutable`.
    """
    if not isinstance(operations, list) or not 0 < len(operations) <= OPERATIONS_MAX:
        raise InvalidSyntax
    changed = deepcopy(dict(resource))
    for each in operations:
        if not isinstance(each, dict):
            raise InvalidSyntax
        word = str(each.get("op", "")).lower()
        if word not in _OPERATIONS:
            raise InvalidSyntax
        path, value = each.get("path"), each.get("value")
        if path:
            _apply(changed, word, remove_urn(str(path)), value, names)
        elif word == "remove":
            raise NoTarget
        elif isinstance(value, dict):
            # Some directories repeat the resource's id there.
            parts = {remove_urn(name): part for name, part in value.items()}
            for name in parts.keys() - _READ_ONLY:
                _apply(changed, word, name, parts[name], names)
        else:
            raise InvalidSyntax
    return changed


def _apply(
    resource: JsonObject, word: str, path: str, value: object, names: Mapping[str, str]
) -> None:
    match = _PATH.fullmatch(path)
    if match is None:
        raise InvalidPath
    if match["attribute"].lower() in _READ_ONLY:
        raise Immutable
    name = names.get(match["attribute"].lower())
    if name is None:
        return
    if match["filter"]:
        _apply_to_matches(resource, name, word, parse_filter(match["filter"]), match["sub"], value)
    elif match["sub"]:
        there = resource.get(name)
        parts = there if isinstance(there, list) else [there if isinstance(there, dict) else {}]
        for part in parts:
            _set_part(part, word, match["sub"], value)
        resource[name] = parts if isinstance(there, list) else parts[0]
    elif word == "remove" and isinstance(value, list) and isinstance(resource.get(name), list):
        # Some directories list the values that go.
        gone = {_identify(each) for each in value}
        resource[name] = [each for each in resource[name] if _identify(each) not in gone]
    elif word == "remove":
        resource.pop(name, None)
    elif isinstance(resource.get(name), list) and word == "add":
        resource[name] = _join(resource[name], value if isinstance(value, list) else [value])
    elif isinstance(resource.get(name), dict) and isinstance(value, dict):
        resource[name] = {**resource[name], **value}
    else:
        resource[name] = value


def _apply_to_matches(
    resource: JsonObject, name: str, word: str, condition: Node, sub: str | None, value: object
) -> None:
    values = resource.get(name) or []
    matches = [each for each in values if is_match(condition, each)]
    if word == "remove" and not sub:
        resource[name] = [each for each in values if each not in matches]
        return
    if not matches:
        if word == "remove":
            return
        if not isinstance(condition, Comparison) or condition.operator != "eq":
            raise NoTarget
        # The value that an equality describes is made, as for `emails[type eq "work"].value`.
        made = {condition.attribute: condition.value}
        matches = [made]
        resource[name] = [*values, made]
    for each in matches:
        if sub:
            _set_part(each, word, sub, value)
        elif isinstance(value, dict):
            each.update(value)
        else:
            raise InvalidSyntax


def _set_part(part: JsonObject, word: str, sub: str, value: object) -> None:
    name = next((each for each in part if each.lower() == sub.lower()), sub)
    if word == "remove":
        part.pop(name, None)
    else:
        part[name] = value


def _join(values: list[Any], more: list[Any]) -> list[Any]:
    """Without values that are there already. A new primary one is the only primary one."""
    if any(isinstance(each, dict) and each.get("primary") is True for each in more):
        values = [
            {**each, "primary": False} if isinstance(each, dict) and each.get("primary") else each
            for each in values
        ]
    there = {_identify(each) for each in values}
    return [*values, *(each for each in more if _identify(each) not in there)]


def _identify(value: object) -> str:
    return str(value.get("value")) if isinstance(value, dict) else str(value)
