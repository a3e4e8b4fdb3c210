"""Which generations pass a destination's filter rules."""

from typing import Any

import pytest

from gateway.http.errors import SchemaInvalid
from routing.destinations.filters import FilterRules, passes_filter, reads_content
from tests.routing.destinations.examples import facts


def rules(*groups: tuple[str, list[tuple[str, str, Any]]], enabled: bool = True) -> Any:
    body = {
        "enabled": enabled,
        "groups": [
            {
                "logic": logic,
                "rules": [
                    {"field": field, "operator": operator, "value": value}
                    for field, operator, value in own
                ],
            }
            for logic, own in groups
        ],
    }
    return FilterRules.read(body).model_dump()


def passes(field: str, operator: str, value: Any = None, **changes: Any) -> bool:
    values = facts(**changes).filter_values()
    return passes_filter(rules(("and", [(field, operator, value)])), values)


@pytest.mark.parametrize(
    ("field", "operator", "value", "expected"),
    [
        ("model", "equals", "acme/small", True),
        ("model", "not_equals", "acme/small", False),
        ("provider", "not_contains", "cm", False),
        ("session_id", "starts_with", "session", True),
        ("user_id", "regex", "^user-[a-z]+$", True),
        ("finish_reason", "exists", None, True),
        ("finish_reason", "not_exists", None, False),
        ("input", "contains", "is up", True),
        ("output", "equals", "The sky.", True),
        ("total_cost", "gt", 0.0015, False),
        ("total_cost", "gte", "0.0015", True),
        ("total_tokens", "equals", "15", True),
        ("prompt_tokens", "lt", 12, False),
        ("prompt_tokens", "lte", 12, True),
        ("completion_tokens", "contains", 3, True),
        # A number and a text that is none are not compared.
        ("model", "gt", 1, False),
    ],
)
def test_a_rule_compares_its_field(field: str, operator: str, value: Any, expected: bool) -> None:
    assert passes(field, operator, value) is expected


def test_an_absent_value_equals_and_contains_nothing() -> None:
    absent: dict[str, Any] = {"session_id": None, "input": None, "output": None}
    assert [
        passes("session_id", operator, value, **absent)
        for operator, value in (("equals", ""), ("contains", ""), ("regex", ".*"), ("gt", 0))
    ] == [False] * 4
    assert passes("session_id", "not_equals", "a", **absent)
    assert passes("session_id", "not_contains", "a", **absent)
    assert passes("input", "not_exists", **absent)


def test_groups_are_joined_with_and_and_rules_as_the_group_says() -> None:
    values = facts().filter_values()
    good, bad = ("model", "exists", None), ("model", "equals", "no")
    assert passes_filter(rules(("or", [good, bad])), values)
    assert not passes_filter(rules(("and", [good, bad])), values)
    assert not passes_filter(rules(("or", [good, bad]), ("and", [bad])), values)
    assert passes_filter(rules(("and", [bad]), enabled=False), values)
    assert passes_filter(None, values)


def test_content_is_read_where_a_rule_names_it() -> None:
    assert reads_content(rules(("or", [("model", "exists", None), ("input", "exists", None)])))
    assert not reads_content(rules(("or", [("model", "exists", None)])))
    assert not reads_content(rules(("or", [("input", "exists", None)]), enabled=False))


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (("model", "equals", None), "Invalid input: this operator takes a value"),
        (("total_cost", "gt", "much"), "Invalid input: this operator takes a number"),
        (("model", "regex", "(?=a)"), "Invalid input: lookaround is not supported"),
        (("model", "regex", "("), "Invalid input: missing ): ("),
        (
            ("weather", "equals", "a"),
            'rules.0.field: Invalid option: expected one of "model"|',
        ),
    ],
)
def test_a_rule_that_cannot_hold_is_refused(rule: Any, text: str) -> None:
    with pytest.raises(SchemaInvalid) as refusal:
        rules(("and", [rule]))
    assert text in refusal.value.text
