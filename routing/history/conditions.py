"""A filter of an analytics query as a condition, its values bound (management reference 11.3)."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from gateway.http.errors import SchemaInvalid
from gateway.http.validation import Issue, describe_options, name_json_type
from routing.entities.end_users import hash_user
from routing.history.asking import Condition
from routing.history.body import Filter
from routing.history.dialect import Dialect
from routing.history.metrics import ARRAY, DIMENSIONS, SCALAR
from routing.history.text import Text

_HASH: Final = re.compile(r"[0-9a-f]{64}")
_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_LARGEST: Final = 2**63 - 1
# Which of these comes before another says nothing.
_UNORDERED: Final = frozenset({"user", "workspace"})
_EQUALITIES: Final = ("eq", "neq", "in", "not_in")
# Stands for what nothing is equal to.
_NOBODY: Final = -1


class _Odd(ValueError):
    """The value can name nothing of its field."""


def conditions_of(
    filters: Sequence[Filter], account_id: UUID, spelled: Dialect
) -> tuple[Condition, ...]:
    """Of all filters. Raises `SchemaInvalid` for values that can name nothing."""
    found: list[Condition] = []
    issues: list[Issue] = []
    for index, each in enumerate(filters):
        try:
            found.append(_condition(each, account_id, spelled))
        except _Odd as error:
            issues.append(Issue(f"filters.{index}.{error.args[0]}", error.args[1]))
    if issues:
        raise SchemaInvalid(issues)
    return tuple(found)


def _condition(asked: Filter, account_id: UUID, spelled: Dialect) -> Condition:
    dimension = DIMENSIONS[asked.field]
    if asked.field in _UNORDERED and asked.operator not in _EQUALITIES:
        raise _Odd("operator", describe_options(_EQUALITIES))
    said = asked.value if isinstance(asked.value, list) else [asked.value]
    read = _READERS.get(asked.field, _text)
    bound = [each for value in said for each in read(value, account_id, spelled)]
    compared = _compared(asked.operator, bound, is_text=_is_text(asked.field), spelled=spelled)
    unset = _UNSET.get(asked.field, "" if asked.field in {"api_key_id", "workspace"} else "''")
    sql = compared.sql
    if unset:
        sql = f"({sql} AND {{column}} <> {unset})"
        if asked.include_unset:
            sql = f"({sql} OR {{column}} = {unset})"
    return Condition(dimension.column, sql, compared.values)


_UNSET: Final = {"user": "0"}


def _is_text(field: str) -> bool:
    return not DIMENSIONS[field].is_number and field != "workspace"


def _compared(operator: str, bound: Sequence[Text], *, is_text: bool, spelled: Dialect) -> Text:
    values = tuple(value for each in bound for value in each.values)
    if operator in {*_EQUALITIES}:
        word = "NOT IN" if operator in {"neq", "not_in"} else "IN"
        return Text(f"{{column}} {word} ({', '.join(each.sql for each in bound)})", values)
    order = spelled.bytewise if is_text else ""
    return Text(f"{{column}}{order} {SCALAR[operator]} {bound[0].sql}", values)


def _text(value: Any, account_id: UUID, spelled: Dialect) -> list[Text]:
    del account_id, spelled
    if not isinstance(value, str):
        raise _Odd("value", f"Invalid input: expected string, received {name_json_type(value)}")
    return [Text("%s", (value,))]


def _end_user(value: Any, account_id: UUID, spelled: Dialect) -> list[Text]:
    """By the name that the caller gives a user, or by the hash that history has of it."""
    told = _text(value, account_id, spelled)
    return [*told, Text("%s", (hash_user(account_id, value),))]


def _key(value: Any, account_id: UUID, spelled: Dialect) -> list[Text]:
    """A key's number, also as text, or its hash."""
    if isinstance(value, str) and _HASH.fullmatch(value):
        found = "SELECT id FROM accounts_apikey WHERE hash = %s AND account_id = %s"
        values = (value, spelled.uuid(account_id))
        return [Text(f"COALESCE(({found}), {_NOBODY})", values)]
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = int(value)
    if not isinstance(value, int) or not 0 <= value <= _LARGEST:
        raise _Odd("value", "Invalid input: expected the number or the hash of a key")
    return [Text("%s", (value,))]


def _user(value: Any, account_id: UUID, spelled: Dialect) -> list[Text]:
    (said,) = _text(value, account_id, spelled)
    found = "SELECT id FROM accounts_user WHERE public_id = %s"
    return [Text(f"COALESCE(({found}), {_NOBODY})", said.values)]


def _workspace(value: Any, account_id: UUID, spelled: Dialect) -> list[Text]:
    try:
        return [Text("%s", (spelled.uuid(UUID(value)),))]
    except (ValueError, AttributeError, TypeError):
        raise _Odd("value", "Invalid UUID") from None


_Reader = Callable[[Any, UUID, Dialect], list[Text]]
_READERS: Final[Mapping[str, _Reader]] = {
    "api_key_id": _key,
    "user": _user,
    "workspace": _workspace,
    "external_user": _end_user,
}
assert set(_EQUALITIES) == {"eq", "neq", *ARRAY}
