"""Filters of a query as SQL: what is bound, in which order texts stand, and which ids can be."""

from typing import Any
from uuid import UUID

import pytest

from gateway.end_users import hash_user
from gateway.http.errors import SchemaInvalid
from routing.history.conditions import build_conditions
from routing.history.dialect import Dialect
from routing.history.schemas import AnalyticsFilter
from routing.history.statement import QueryCondition

ACCOUNT = UUID(int=7)


def build(field: str, value: Any, operator: str = "eq") -> QueryCondition:
    wanted = AnalyticsFilter(field=field, operator=operator, value=value)
    [condition] = build_conditions([wanted], ACCOUNT, Dialect(sqlite=False))
    return condition


def test_texts_are_compared_by_their_bytes_and_numbers_are_not() -> None:
    assert "COLLATE" in build("model", "b", "gt").sql
    assert "COLLATE" not in build("status", 400, "gt").sql


def test_a_key_s_number_is_any_that_a_row_can_have() -> None:
    assert [build("api_key_id", each).values for each in (0, 2**63 - 1)] == [(0,), (2**63 - 1,)]
    for outside in (-1, 2**63, "9" * 19):
        with pytest.raises(SchemaInvalid):
            build("api_key_id", outside)


def test_only_the_name_of_an_end_user_is_looked_for_as_its_hash_too() -> None:
    assert build("external_user", "ann").values == ("ann", hash_user(ACCOUNT, "ann"))
    assert build("model", "ann").values == ("ann",)


def test_whom_nobody_knows_is_a_number_that_no_row_has() -> None:
    """Where it was 1, an unknown hash would be the first key of all."""
    assert "COALESCE((SELECT id FROM accounts_apikey" in (sql := build("api_key_id", "a" * 64).sql)
    assert sql.endswith("), -1))")
