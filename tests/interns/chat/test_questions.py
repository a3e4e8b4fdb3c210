"""Questions and the answers that they take."""

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from interns.runtime.questions import (
    PERMISSION_OPTIONS,
    AnswerRejected,
    InvalidQuestion,
    check_answer,
    read_question,
)

# The JSON door lets no NUL and no lone surrogate in, no infinity, and no endless integers.
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
numbers = st.integers(-(10**9), 10**9) | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | texts
anything = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=8
)
OF_TYPE: dict[str, st.SearchStrategy[Any]] = {
    "string": texts,
    "number": numbers,
    "integer": st.integers(-(10**9), 10**9) | st.integers(-999, 999).map(float),
    "boolean": st.booleans(),
}
names = st.text("abcdefghij_", min_size=1, max_size=8)
Form = tuple[dict[str, Any], dict[str, Any]]


def elicitation(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "elicitation", "message": "?", "fields": list(fields)}


@st.composite
def filled_forms(draw: st.DrawFn) -> Form:
    """A question and what fills it in."""
    fields, content = [], {}
    for name in draw(st.lists(names, unique=True, max_size=4)):
        kind = draw(st.sampled_from(sorted(OF_TYPE)))
        field: dict[str, Any] = {"name": name, "type": kind, "required": draw(st.booleans())}
        values = OF_TYPE[kind]
        if draw(st.booleans()):
            field["options"] = draw(st.lists(values, min_size=1, max_size=3))
            values = st.sampled_from(field["options"])
        fields.append(field)
        if field["required"] or draw(st.booleans()):
            content[name] = draw(values)
    return elicitation(*fields), content


def accept(content: Any) -> str:
    return json.dumps({"action": "accept", "content": content})


options = st.lists(st.sampled_from(PERMISSION_OPTIONS), min_size=1, unique=True)


@given(options, st.sampled_from((*PERMISSION_OPTIONS, "cancel")) | st.text())
def test_a_permission_takes_what_is_offered_and_cancel(offered: list[str], answer: str) -> None:
    asked = {"kind": "permission", "operation": None, "options": offered}
    if answer in offered or answer == "cancel":
        check_answer(asked, answer)
    else:
        with pytest.raises(AnswerRejected):
            check_answer(asked, answer)


@given(filled_forms(), names, anything, st.data())
def test_a_form_takes_what_fills_it_with_all_that_is_required_and_nothing_more(
    form: Form, name: str, value: Any, data: st.DataObject
) -> None:
    question, content = form
    check_answer(question, accept(content))
    if name not in {field["name"] for field in question["fields"]}:
        with pytest.raises(AnswerRejected, match="no field"):
            check_answer(question, accept({**content, name: value}))
    required = [field["name"] for field in question["fields"] if field["required"]]
    if required:
        del content[data.draw(st.sampled_from(required))]
        with pytest.raises(AnswerRejected, match="required"):
            check_answer(question, accept(content))


@given(st.sampled_from(sorted(OF_TYPE)), anything)
def test_a_value_of_another_type(kind: str, value: Any) -> None:
    question = elicitation({"name": "a", "type": kind, "required": True})
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    fits = {
        "string": isinstance(value, str),
        "number": is_number,
        "integer": is_number and float(value).is_integer() if is_number else False,
        "boolean": isinstance(value, bool),
    }[kind]
    said = accept({"a": value})
    if fits:
        check_answer(question, said)
    else:
        with pytest.raises(AnswerRejected):
            check_answer(question, said)


@given(anything.map(json.dumps) | st.text())
def test_anything_else_is_no_answer(text: str) -> None:
    assume('"action"' not in text)
    with pytest.raises(AnswerRejected):
        check_answer(elicitation(), text)


NAMED = elicitation({"name": "a", "type": "string", "required": True})


def test_declining_needs_no_content_and_accepting_does() -> None:
    for action in ("decline", "cancel"):
        check_answer(NAMED, json.dumps({"action": action}))
    for answer in (
        *('{"action": "decline", "content": {}}', '{"action": "cancel", "content": {}}'),
        *('{"action": "accept"}', '{"action": ["accept"]}', '{"action": {"accept": 1}}'),
        *('{"action": "accept", "content": ["a"]}', '{"action": "accept", "content": null}'),
        '{"action": "accept", "content": {"a": "x"}, "more": 1}',
        '{"action": "Accept", "content": {"a": "x"}}',
    ):
        with pytest.raises(AnswerRejected):
            check_answer(NAMED, answer)


def test_options_are_compared_as_json_is() -> None:
    question = elicitation({"name": "a", "type": "number", "required": True, "options": [1, 2.5]})
    for right in (1, 1.0, 2.5):
        check_answer(question, accept({"a": right}))
    for wrong in (True, 2, "1"):
        with pytest.raises(AnswerRejected):
            check_answer(question, accept({"a": wrong}))


PERMISSION: dict[str, Any] = {"kind": "permission", "operation": "x", "options": ["allow_once"]}
FIELD = {"name": "a", "type": "string", "required": False}


@pytest.mark.parametrize(
    "question",
    [
        *(None, [], {}, {"kind": "other"}),
        *(PERMISSION | {"options": options} for options in ([], ["allow"], None)),
        *(PERMISSION | {"operation": 1}, PERMISSION | {"operation": "x" * 65_536}),
        {"kind": "permission", "options": ["allow_once"]},
        elicitation(FIELD, FIELD),
        *(elicitation(FIELD | odd) for odd in ({"type": "object"}, {"name": ""})),
        *(elicitation(FIELD | {"options": []}), elicitation(FIELD | {"options": [{}]})),
        elicitation({"name": "a", "type": "string"}),
        {"kind": "elicitation", "message": None, "fields": []},
    ],
)
def test_what_is_no_question(question: Any) -> None:
    with pytest.raises(InvalidQuestion):
        read_question("c", question)


def test_a_question_has_an_id_and_carries_only_what_is_described() -> None:
    for call_id in ("", "c" * 129, None, 7):
        with pytest.raises(InvalidQuestion):
            read_question(call_id, PERMISSION)
    asked = read_question("c" * 128, PERMISSION | {"secret": 1, "options": ["allow_once"] * 2})
    assert asked.question == PERMISSION
    field = FIELD | {"options": ["x"]}
    assert read_question("c", elicitation(field | {"more": 1})).question == elicitation(field)
