"""Which answers a question takes."""

import json
from typing import Any

import pytest

from interns.agent.questions import (
    PERMISSION_OPTIONS,
    Answered,
    Elicitation,
    Field,
    NotAcceptable,
    Permission,
)

FORM = Elicitation(
    "Tell me",
    (
        Field("name"),
        Field("age", "integer"),
        Field("weight", "number", required=False),
        Field("member", "boolean", required=False),
        Field("size", required=False, options=["s", "m"]),
    ),
)


@pytest.mark.parametrize("option", PERMISSION_OPTIONS)
def test_each_option_of_a_permission(option: str) -> None:
    given = Permission("write_file: a").read(option)
    assert given == Answered(accepted=option.startswith("allow"), always=option.endswith("always"))


def test_a_permission_that_is_dismissed_or_answered_oddly() -> None:
    assert Permission("x").read("cancel") == Answered(accepted=False, dismissed=True)
    for odd in ("", "yes", "allow", '{"action":"accept"}'):
        with pytest.raises(NotAcceptable):
            Permission("x").read(odd)


def test_a_form_as_it_is_shown() -> None:
    shown = FORM.shown()
    assert shown["kind"] == "elicitation"
    assert shown["fields"][4] == {
        "name": "size",
        "type": "string",
        "required": False,
        "options": ["s", "m"],
    }


@pytest.mark.parametrize(
    "content",
    [
        {"name": "Ann", "age": 3},
        {"name": "", "age": -3, "weight": 2, "member": False, "size": "m"},
        {"name": "Ann", "age": 3, "weight": 2.5, "size": None},
    ],
)
def test_what_a_form_takes(content: dict[str, Any]) -> None:
    answer = json.dumps({"action": "accept", "content": content})
    assert FORM.read(answer) == Answered(accepted=True, content=content)


@pytest.mark.parametrize(
    "content",
    [
        None,
        [],
        {},
        {"name": "Ann"},
        {"name": None, "age": 3},
        {"name": 1, "age": 3},
        {"name": "Ann", "age": 3.5},
        {"name": "Ann", "age": True},
        {"name": "Ann", "age": 3, "member": 1},
        {"name": "Ann", "age": 3, "weight": "2"},
        {"name": "Ann", "age": 3, "size": "xl"},
        {"name": "Ann", "age": 3, "other": 1},
    ],
)
def test_what_a_form_does_not_take(content: Any) -> None:
    with pytest.raises(NotAcceptable):
        FORM.read(json.dumps({"action": "accept", "content": content}))


def test_a_form_that_is_declined_dismissed_or_answered_oddly() -> None:
    assert FORM.read('{"action":"decline"}') == Answered(accepted=False)
    assert FORM.read('{"action":"cancel"}') == Answered(accepted=False, dismissed=True)
    for odd in ("", "accept", "[]", "null", "{}", '{"action":"maybe"}'):
        with pytest.raises(NotAcceptable):
            FORM.read(odd)
