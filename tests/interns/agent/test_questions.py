"""Which answers a question takes."""

import json
from typing import Any

import pytest

from interns.agent.questions import (
    PERMISSION_OPTIONS,
    AnswerNotOffered,
    AskForm,
    AskPermission,
    FormField,
    GivenAnswer,
)

FORM = AskForm(
    "Tell me",
    (
        FormField("name"),
        FormField("age", "integer"),
        FormField("weight", "number", required=False),
        FormField("member", "boolean", required=False),
        FormField("size", required=False, options=["s", "m"]),
    ),
)


def test_a_permission_takes_its_options_and_a_dismissal() -> None:
    asked = AskPermission("write_file: a")
    for option in PERMISSION_OPTIONS:
        allowed, always = option.startswith("allow"), option.endswith("always")
        assert asked.read(option) == GivenAnswer(accepted=allowed, always=always)
    assert asked.read("cancel") == GivenAnswer(accepted=False, dismissed=True)
    for odd in ("", "yes", "allow", '{"action":"accept"}'):
        with pytest.raises(AnswerNotOffered):
            asked.read(odd)


PERSON: dict[str, Any] = {"name": "Ann", "age": 3}


@pytest.mark.parametrize(
    "content",
    [
        PERSON,
        {"name": "", "age": -3, "weight": 2, "member": False, "size": "m"},
        PERSON | {"weight": 2.5, "size": None},
    ],
)
def test_what_a_form_takes(content: dict[str, Any]) -> None:
    answer = json.dumps({"action": "accept", "content": content})
    assert FORM.read(answer) == GivenAnswer(accepted=True, content=content)


@pytest.mark.parametrize(
    "content",
    [
        *(None, [], {}, {"name": "Ann"}),
        *(PERSON | {"name": odd} for odd in (None, 1)),
        *(PERSON | {"age": odd} for odd in (3.5, True)),
        *(PERSON | odd for odd in ({"member": 1}, {"weight": "2"}, {"size": "xl"}, {"other": 1})),
    ],
)
def test_what_a_form_does_not_take(content: Any) -> None:
    with pytest.raises(AnswerNotOffered):
        FORM.read(json.dumps({"action": "accept", "content": content}))


def test_a_form_that_is_declined_dismissed_or_answered_oddly() -> None:
    assert FORM.read('{"action":"decline"}') == GivenAnswer(accepted=False)
    assert FORM.read('{"action":"cancel"}') == GivenAnswer(accepted=False, dismissed=True)
    for odd in ("", "accept", "[]", "null", "{}", '{"action":"maybe"}'):
        with pytest.raises(AnswerNotOffered):
            FORM.read(odd)
