"""JSON that a model wrote carelessly."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.plugins import json_mender, response_healing
from routing.plugins.response_healing import (
    CHARS_MAX,
    FENCES_MAX,
    ResponseHealing,
    find_schema_problem,
    heal_json,
)
from tests.routing.formats.chat_bodies import parse_fields

VALUE = {"name": "Ada", "langs": ["en", "fr"], "deep": {"n": 1.5, "none": None}}
GOOD = json.dumps(VALUE)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(st.text(max_size=8), json_values, max_size=5)


@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{GOOD}\n```",
        f"```\n{GOOD}\n```",
        f"Sure! Here it is:\n\n```json\n{GOOD}\n```\nAnything else?",
        f"Here you are: {GOOD}. Enjoy!",
        f"```json\n{GOOD}",
        GOOD[:-1] + ",}",
        GOOD.replace('"fr"]', '"fr",]'),
        GOOD[:-2],
        GOOD[:-1],
        GOOD.replace('"', "'").replace("None", "null"),
        "prose before\n" + GOOD[:-1],
    ],
)
def test_what_was_meant_is_found(text: str) -> None:
    made = heal_json(text, wants_object=True)
    assert made is not None
    assert json.loads(made) == VALUE


@pytest.mark.parametrize("text", [GOOD, f"  {GOOD}\n", json.dumps(VALUE, indent=2)])
def test_what_is_good_stays_as_it_is(text: str) -> None:
    assert heal_json(text, wants_object=True) is None


@pytest.mark.parametrize(
    "text", ["I cannot do that.", "", "{", "[", "{no json at all}", "```\n```"]
)
def test_what_cannot_be_mended_stays_as_it_is(text: str) -> None:
    made = heal_json(text, wants_object=True)
    assert made is None or isinstance(json.loads(made), dict)
    if ":" not in text and "{" not in text:
        assert made is None


def test_a_list_will_do_only_where_no_object_is_asked_for() -> None:
    text = "```json\n[1, 2,]\n```"
    made = heal_json(text, wants_object=False)
    assert made is not None
    assert json.loads(made) == [1, 2]
    assert heal_json(text, wants_object=True) is None


@pytest.mark.parametrize("text", ["[" * 60_000, '{"a":' * 12_000, '{"a": "' + "x" * 60_000])
def test_what_is_deep_or_long_harms_nobody(text: str) -> None:
    made = heal_json(text, wants_object=False)
    assert made is None or json.loads(made)


@given(objects)
def test_whatever_stands_in_a_fence_comes_out_the_same(value: dict[str, Any]) -> None:
    made = heal_json(f"Here:\n```json\n{json.dumps(value)}\n```\n", wants_object=True)
    assert made is not None
    assert json.loads(made) == value


@given(st.lists(st.text(max_size=200), max_size=3))
def test_any_texts_become_json_or_nothing(texts: list[str]) -> None:
    made = json_mender.mend(texts, wants_object=True)
    assert made is None or isinstance(json.loads(made), dict)


@pytest.mark.parametrize("text", ['{"a": 1e999,}', '{"a": "\ud800",}'])
def test_what_json_has_no_words_for_is_not_mended(text: str) -> None:
    assert heal_json(text, wants_object=True) is None


def test_what_would_take_hours_is_left_as_it_is() -> None:
    text = "{ // a\n" * (CHARS_MAX // 7)
    assert heal_json(text, wants_object=True) is None


def test_what_is_looked_at_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def nothing(texts: list[str], *, wants_object: bool) -> None:
        tried.extend(texts)

    monkeypatch.setattr(response_healing, "mend_json", nothing)
    many = "".join(f"```\n{{{number}]\n```\n" for number in range(1_000))
    assert heal_json(many, wants_object=True) is None
    assert tried[:FENCES_MAX] == ["{0]", "{1]", "{2]"]
    assert len(tried) == FENCES_MAX + 1
    assert heal_json("{" * (CHARS_MAX + 1), wants_object=True) is None
    assert len(tried) == FENCES_MAX + 1


@pytest.mark.parametrize(
    ("text", "schema", "expected"),
    [
        ("1", {"type": "integer"}, ""),
        ("null", {"type": "null"}, ""),
        ('{"a": {"b": 2}}', {"properties": {"a": {"required": ["c"]}}}, "$.a: 'c' is a required"),
        ("so", {}, "it is not JSON"),
        # What is no schema, what would be fetched, and what would take for ever.
        ("1", {"type": "whole"}, None),
        ("1", {"$ref": "http://127.0.0.1:1/schema"}, None),
        (f'"{"a" * 40}!"', {"pattern": "^(a+)+$"}, None),
        ("1" * (CHARS_MAX + 1), {}, None),
        # As deep as bodies may nest, and as deep as orjson reads but json cannot write.
        ("[" * 128 + "]" * 128, {"type": "array"}, ""),
        ("[" * 129 + "]" * 129, {"type": "array"}, None),
        ("[" * 1_000 + "]" * 1_000, {"type": "array"}, None),
    ],
)
def test_what_does_not_fit_a_schema_is_told(text: str, schema: Any, expected: str | None) -> None:
    problem = find_schema_problem(text, schema)
    assert problem == expected or (expected and (problem or "").startswith(expected))


@pytest.mark.parametrize(
    ("fields", "is_its_work"),
    [
        ({"response_format": {"type": "json_object"}}, True),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "n"}}}, True),
        ({"response_format": {"type": "text"}}, False),
        ({}, False),
        ({"response_format": {"type": "json_object"}, "stream": True}, False),
    ],
)
def test_it_heals_whole_answers_that_were_to_be_json(fields, is_its_work) -> None:
    chat, plugin = parse_fields(**fields), ResponseHealing({"id": "response-healing"})
    message = {"role": "assistant", "content": f"```json\n{GOOD}\n```"}
    made = plugin.change_answer(chat, message)
    assert plugin.rewrites(chat) is is_its_work
    assert (made["content"] == GOOD) is is_its_work
    assert (made is message) is not is_its_work
    assert [stage["type"] for stage in plugin.stages] == ["response_healing"] * is_its_work


@pytest.mark.parametrize("content", [None, "", "   ", [{"type": "text", "text": "{"}]])
def test_what_is_no_text_is_left_alone(content: Any) -> None:
    chat = parse_fields(response_format={"type": "json_object"})
    message = {"role": "assistant", "content": content}
    assert ResponseHealing({"id": "response-healing"}).change_answer(chat, message) is message
