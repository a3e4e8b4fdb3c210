"""Filters of an analytics query as SQL conditions, their values bound."""

import re
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from gateway.end_users import hash_user
from gateway.http.errors import SchemaInvalid
from gateway.http.validation import Issue, describe_options, name_json_type
from routing.history.columns import TAG
from routing.history.dialect import Dialect, Sql
from routing.history.metrics import ARRAY, DIMENSIONS, SCALAR
from routing.history.schemas import AnalyticsFilter
from routing.history.statement import QueryCondition

_HASH: Final = re.compile(r"[0-9a-f]{64}")
_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_STATUS: Final = re.compile(r"[1-5][0-9]{2}")
_LARGEST: Final = 2**63 - 1
# Their order has no meaning, so only equality is offered.
_UNORDERED: Final = frozenset({"user", "workspace", "tag"})
_EQUALITIES: Final = ("eq", "neq", "in", "not_in")
# What a column holds where nothing is known, if not "".
_UNSET: Final = {"user": "0"}
_NEVER_UNSET: Final = frozenset({"api_key_id", "workspace", "status"})
# An id that no row has.
_NOBODY: Final = -1


class _UnusableValue(ValueError):
    """The value cannot name anything of its field; arguments are the place and the message."""


def build_conditions(
    filters: Sequence[AnalyticsFilter], account_id: UUID, sql_dialect: Dialect
) -> tuple[QueryCondition, ...]:
    """Build the condition of each filter. Raises `SchemaInvalid` for unusable values."""
    conditions: list[QueryCondition] = []
    issues: list[Issue] = []
    for index, each in enumerate(filters):
        try:
            conditions.append(_build_condition(each, account_id, sql_dialect))
        except _UnusableValue as error:
            issues.append(Issue(f"filters.{index}.{error.args[0]}", error.args[1]))
    if issues:
        raise SchemaInvalid(issues)
    return tuple(conditions)


def _build_condition(
    query_filter: AnalyticsFilter, account_id: UUID, sql_dialect: Dialect
) -> QueryCondition:
    field, operator, value = query_filter.field, query_filter.operator, query_filter.value
    if field in _UNORDERED and operator not in _EQUALITIES:
        raise _UnusableValue("operator", describe_options(_EQUALITIES))
    given_values = value if isinstance(value, list) else [value]
    bound = [
        each
        for given in given_values
        for each in _read_value(field, given, account_id, sql_dialect)
    ]
    is_negative = operator in {"neq", "not_in"}
    if field == "tag":
        matching = match_tags(given_values, sql_dialect)
        if not is_negative:
            return matching
        unset = "" if query_filter.include_unset else " AND {column} IS NOT NULL"
        return matching._replace(sql=f"(NOT {matching.sql}{unset})")
    dimension = DIMENSIONS[field]
    if operator in _EQUALITIES:
        word = "NOT IN" if is_negative else "IN"
        sql = f"{{column}} {word} ({', '.join(each.sql for each in bound)})"
    else:
        order = "" if dimension.is_number else sql_dialect.bytewise
        sql = f"{{column}}{order} {SCALAR[operator]} {bound[0].sql}"
    unset = _UNSET.get(field, "" if field in _NEVER_UNSET else "''")
    if unset:
        sql = f"({sql} AND {{column}} <> {unset})"
        if query_filter.include_unset:
            sql = f"({sql} OR {{column}} = {unset})"
    values = tuple(value for each in bound for value in each.values)
    return QueryCondition(dimension.column, sql, values)


def match_tags(tags: Sequence[str], sql_dialect: Dialect) -> QueryCondition:
    """That a request has one of these tags, each `name=value`."""
    places = ", ".join(["%s"] * len(tags))
    pairs = sql_dialect.tags("{column}")
    has = f"EXISTS (SELECT 1 FROM {pairs} WHERE {TAG} IN ({places}))"  # noqa: S608 - Constant fragments and placeholders.
    return QueryCondition("tags", has, tuple(tags))


def _read_value(field: str, value: Any, account_id: UUID, sql_dialect: Dialect) -> list[Sql]:
    """The stored values that a caller's value means: two for an end user, else one."""
    match field:
        case "api_key_id":
            # A key's number, also as text, or its hash.
            if isinstance(value, str) and _HASH.fullmatch(value):
                query = "SELECT id FROM accounts_apikey WHERE hash = %s AND account_id = %s"
                values = (value, sql_dialect.uuid(account_id))
                return [Sql(f"COALESCE(({query}), {_NOBODY})", values)]
            if isinstance(value, str) and _NUMBER.fullmatch(value):
                value = int(value)
            if not isinstance(value, int) or not 0 <= value <= _LARGEST:
                text = "Invalid input: expected the number or the hash of a key"
                raise _UnusableValue("value", text)
            return [Sql("%s", (value,))]
        case "status":
            if isinstance(value, str) and _STATUS.fullmatch(value):
                value = int(value)
            if not isinstance(value, int) or not 100 <= value <= 599:
                raise _UnusableValue("value", "Invalid input: expected an HTTP status")
            return [Sql("%s", (value,))]
        case "workspace":
            try:
                return [Sql("%s", (sql_dialect.uuid(UUID(value)),))]
            except (ValueError, AttributeError, TypeError):
                raise _UnusableValue("value", "Invalid UUID") from None
    if not isinstance(value, str):
        text = f"Invalid input: expected string, received {name_json_type(value)}"
        raise _UnusableValue("value", text)
    if field == "user":
        query = "SELECT id FROM accounts_user WHERE public_id = %s"
        return [Sql(f"COALESCE(({query}), {_NOBODY})", (value,))]
    by_value = [Sql("%s", (value,))]
    # An end user's name as the caller gave it, and the hash that is stored of it.
    hashed = [Sql("%s", (hash_user(account_id, value),))] if field == "external_user" else []
    return by_value + hashed


assert set(_EQUALITIES) == {"eq", "neq", *ARRAY}
