"""Probabilities that a model writes as numbers."""

import json
import math
from typing import Any

import pytest

from routing.decisions.question import NoAnswer
from routing.decisions.schema import build_request, read_judgement
from tests.routing.decisions.asked import choice, noul, score


def test_numbers_are_brought_to_a_sum_of_one():
    answer = read_judgement(choice("a", "b"), '{"A": 3, "B": 1}')

    assert answer.probabilities == (0.75, 0.25)
    assert answer.label_mass is answer.confidence is None


def test_a_noul_is_one_number():
    assert read_judgement(noul(), ' {"yes": 0.25}\n').probabilities == (0.25, 0.75)
    assert read_judgement(noul(), '{"yes": 0}').probabilities == (0, 1)


def test_nothing_but_zeros_says_nothing_and_large_and_small_keep_their_proportion():
    assert (
        read_judgement(score("x", "y", "z"), '{"0": 0, "1": 0.0, "2": 0}').probabilities
        == (1 / 3,) * 3
    )
    assert read_judgement(choice("a", "b"), '{"A": 1e308, "B": 1e308}').probabilities == (0.5, 0.5)
    assert read_judgement(choice("a", "b"), '{"A": 5e-324, "B": 0}').probabilities == (1, 0)


def test_what_is_said_beside_does_not_matter():
    assert read_judgement(choice("a"), '{"A": 1, "B": "x"}').probabilities == (1,)


@pytest.mark.parametrize(
    "content",
    [
        *["", "A", "null", "[]", "{}", '{"A": 0.5}', '{"A": 0.5, "B": null}'],
        *['{"A": 0.5, "B": "0.5"}', '{"A": true, "B": false}', '{"A": 1.1, "B": -0.1}'],
        *['{"A": 1e999, "B": 0}', '{"A": NaN, "B": 0}', f'{{"A": 1{"0" * 400}, "B": 0}}'],
        *['{"A": 0.5, "B": 0.5', '```json\n{"A": 0.5, "B": 0.5}\n```'],
        '{"A": 0.5, "B": 0.5} \ud800',
    ],
)
def test_what_does_not_fit_the_schema_is_no_answer(content):
    with pytest.raises(NoAnswer):
        read_judgement(choice("a", "b"), content)


def test_a_probability_is_not_above_one():
    with pytest.raises(NoAnswer):
        read_judgement(noul(), '{"yes": 1.01}')


@pytest.mark.parametrize(
    ("question", "names"),
    [
        (noul(), ["yes"]),
        (choice("refund", "other"), ["A", "B"]),
        (score("low", "high"), ["0", "1"]),
    ],
)
def test_the_schema_is_strict_about_every_label(question, names):
    body: dict[str, Any] = build_request("A letter.", question)
    shape = body["response_format"]["json_schema"]

    assert shape["strict"] is True
    assert shape["schema"]["required"] == list(shape["schema"]["properties"]) == names
    assert shape["schema"]["additionalProperties"] is False
    assert (body["temperature"], body["reasoning"]) == (0, {"effort": "none"})


def test_there_is_room_for_the_longest_answer():
    labels = [str(n) for n in range(26)]
    written = json.dumps({chr(65 + n): math.pi for n in range(26)}, indent=4)
    room = build_request("", choice(*labels))["max_tokens"]

    assert room > len(written) / 2
    assert build_request("", choice(*labels), reasons=True)["max_tokens"] > 2 * room


def test_a_model_that_cannot_but_reason_is_not_told_otherwise():
    assert "reasoning" not in build_request("", noul(), reasons=True)
