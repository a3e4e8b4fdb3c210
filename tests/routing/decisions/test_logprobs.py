"""Distributions against values worked out by hand."""

import math
from typing import Any

import pytest

from routing.decisions.logprobs import build_request, read_judgement
from routing.decisions.question import NoAnswer, TypedQuestion
from tests.routing.decisions.asked import choice, logprobs, noul, score


def shares(question: TypedQuestion, tokens: Any) -> list[float]:
    return list(read_judgement(question, logprobs(tokens)).probabilities)


@pytest.mark.parametrize("variants", [("A", " A", "a", " a"), ("A", "  A", "\u2581A", "\u0120a")])
def test_variants_by_space_and_case_are_summed(variants):
    tokens = [("B", 0.4), *((each, 0.1) for each in variants)]

    assert shares(choice("a", "b"), tokens) == pytest.approx([0.5, 0.5], abs=1e-12)


@pytest.mark.parametrize("token", ["A)", "(A", "AB", "A\n", "Yes", "\u0130"])
def test_what_is_more_than_a_label_is_none(token):
    assert shares(choice("a", "b"), {"B": 0.5, "A": 0.25, token: 0.25}) == pytest.approx(
        [1 / 3, 2 / 3]
    )


def test_a_missing_label_is_as_likely_as_the_least_likely_alternative():
    # C is given the 0.1 of "The": 0.6, 0.3, 0.1 of 1.0. That is no mass of labels.
    answer = read_judgement(choice("a", "b", "c"), logprobs({"A": 0.6, "B": 0.3, "The": 0.1}))

    assert answer.probabilities == pytest.approx((0.6, 0.3, 0.1), abs=1e-12)
    assert answer.label_mass == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("question", "tokens", "expected"),
    [
        # One label found of one is certain, and ties stay ties.
        (choice("only"), {"A": 0.01, "The": 0.9}, [1.0]),
        (score("x", "y", "z"), {"0": 0.2, "1": 0.2, "2": 0.2}, [1 / 3] * 3),
        # A noul is the share of yes; the same token listed twice counts twice.
        (noul(), {" Yes": 0.3, "No": 0.1, "yes": 0.3}, [6 / 7, 1 / 7]),
        (noul(), [("yes", 0.3), ("yes", 0.3), ("no", 0.2)], [0.75, 0.25]),
        # However far apart they are.
        (choice("a", "b"), {"A": 0.5, "a": 5e-324, "B": 0.5}, [0.5, 0.5]),
        # Levels go by their numbers.
        (score("calm", "cross"), {"1": 0.75, " 0": 0.25}, [0.25, 0.75]),
        # The least likely alternative may be a part of a label: " a" alone is 0.1, so B and C are.
        (choice("a", "b", "c"), {"A": 0.4, " a": 0.1}, [5 / 7, 1 / 7, 1 / 7]),
    ],
)
def test_shares_by_hand(question: TypedQuestion, tokens: Any, expected: list[float]) -> None:
    assert shares(question, tokens) == pytest.approx(expected, abs=1e-12)


def test_only_the_first_token_counts():
    given = logprobs({"A": 0.5, "B": 0.25})
    given["content"].append(logprobs({"B": 1.0})["content"][0])

    assert read_judgement(choice("a", "b"), given).probabilities == pytest.approx((2 / 3, 1 / 3))


def test_the_token_itself_counts_where_it_is_not_among_its_alternatives():
    given = logprobs({"B": 0.25})
    given["content"][0] |= {"token": "A", "logprob": math.log(0.75)}

    assert read_judgement(choice("a", "b"), given).probabilities == pytest.approx((0.75, 0.25))


@pytest.mark.parametrize("never", [-9999.0, -1e308, -(10**400), float("-inf"), -1e9])
def test_never_is_a_number_too(never):
    given = logprobs({"A": 1.0})
    given["content"][0]["top_logprobs"].append({"token": "B", "logprob": never})

    assert read_judgement(choice("a", "b"), given).probabilities == (1.0, 0.0)


def test_labels_that_are_all_but_impossible_are_compared_none_the_less():
    given = logprobs({"The": 1.0})
    given["content"][0]["top_logprobs"] += [
        {"token": "A", "logprob": -900.0},
        {"token": "B", "logprob": -900.0 - math.log(3)},
    ]
    answer = read_judgement(choice("a", "b"), given)

    assert answer.probabilities == pytest.approx((0.75, 0.25))
    assert answer.label_mass == 0


def test_probabilities_of_an_engine_that_rounds_do_not_exceed_one():
    given = {"content": [{"token": "A", "logprob": 1e-7, "top_logprobs": None}]}

    assert read_judgement(choice("a"), given).label_mass == 1


NO_CONTENTS: list[Any] = [None, {}, [], ["A"], [{}]]


@pytest.mark.parametrize(
    "given",
    [
        *[None, [], "logprobs", {}],
        *[{"content": content} for content in NO_CONTENTS],
        *[{"content": [{"token": "A", "logprob": number}]} for number in (None, "-1", True)],
        {"content": [{"token": None, "logprob": -1}]},
        {"content": [{"token": "The", "logprob": -1, "top_logprobs": "A"}]},
        {"content": [{"token": "The", "logprob": -1, "top_logprobs": [["A", -1], None, {}]}]},
        {"tokens": ["A"], "token_logprobs": [-1]},
    ],
)
def test_what_tells_of_no_label_is_no_answer(given):
    with pytest.raises(NoAnswer):
        read_judgement(choice("a", "b"), given)


def test_the_request_asks_for_one_token_with_its_alternatives():
    body = build_request("A letter.", choice("billing", other="anything else"))
    [message] = body.pop("messages")

    told = {"logprobs": True, "top_logprobs": 20, "reasoning": {"effort": "none"}}
    assert body == told | {"max_tokens": 1, "temperature": 0}
    lines = message["content"].splitlines()
    assert lines.index("A letter.") < lines.index("Question: Which queue?")
    assert lines[-4:-2] == ["A) billing", "B) other: anything else"]


def test_questions_about_one_state_begin_alike():
    state = "word " * 100
    asked = [noul(), noul("now", "later"), choice("a", "b"), score("low", {"high": 1})]
    texts = [build_request(state, each)["messages"][0]["content"] for each in asked]

    shared = texts[0].partition("Question:")[0]
    assert state in shared
    assert all(text.startswith(shared) for text in texts)
    assert texts[1].count("yes) now") == texts[1].count("no) later") == 1
    assert texts[3].count('1) {"high":1}') == 1
