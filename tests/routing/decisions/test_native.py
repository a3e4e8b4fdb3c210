"""What native upstreams are asked, and what of their answers is believed."""

import math
from typing import Any

import pytest

from routing.decisions import native
from routing.decisions.answers import answer_of, confidence_of
from routing.decisions.question import Judged, NoAnswer, Question
from tests.routing.decisions.asked import choice, noul, score

LEVELS = score("calm", "cross", {"how": "furious"})
QUEUE = choice("other", billing="money")


def test_questions_are_asked_as_they_came() -> None:
    assert native.asked(noul()) == {"type": "noul", "instructions": "Is it urgent?"}
    assert native.asked(noul("x", ["y"]))["criteria"] == {"true": "x", "false": ["y"]}
    assert native.asked(QUEUE)["criteria"] == {"other": None, "billing": "money"}
    assert native.asked(LEVELS)["criteria"] == ["calm", "cross", {"how": "furious"}]


def test_probabilities_are_believed_and_made_to_sum_to_one() -> None:
    answer = {
        "type": "choice",
        "choice": "other",
        "probabilities": {"billing": 0.604, "other": 0.4},
    }

    judged = native.judged(QUEUE, answer)

    assert judged.probabilities == pytest.approx((0.4 / 1.004, 0.604 / 1.004))
    # The likeliest, whatever the upstream itself made of it.
    assert answer_of(QUEUE, judged)["choice"] == "billing"


def test_a_confidence_of_the_upstream_s_own_is_told() -> None:
    answer = {"type": "choice", "probabilities": {"other": 1.0}, "confidence": 0.25}

    assert answer_of(QUEUE, native.judged(QUEUE, answer))["confidence"] == 0.25
    for odd in (7, -1, "sure", True, math.inf, None):
        judged = native.judged(QUEUE, answer | {"confidence": odd})
        assert answer_of(QUEUE, judged)["confidence"] == 1


@pytest.mark.parametrize(
    ("answer", "shares"),
    [
        ({"choice": "billing"}, (0, 1)),
        ({"choice": "billing", "confidence": 0.5}, (0.25, 0.75)),
        ({"choice": "other", "confidence": 0}, (0.5, 0.5)),
    ],
)
def test_a_choice_alone_has_a_distribution_too(
    answer: dict[str, Any], shares: tuple[float, ...]
) -> None:
    assert native.judged(QUEUE, {"type": "choice", **answer}).probabilities == shares


@pytest.mark.parametrize(
    ("told", "shares"), [(0, (1, 0, 0)), (1.25, (0, 0.75, 0.25)), (2, (0, 0, 1))]
)
def test_a_score_alone_is_the_mean_of_the_levels_beside_it(
    told: float, shares: tuple[float, ...]
) -> None:
    judged = native.judged(LEVELS, {"type": "score", "score": told})

    assert judged.probabilities == shares
    assert answer_of(LEVELS, judged)["score"] == told


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (noul(), None),
        (noul(), "yes"),
        (noul(), {"type": "noul"}),
        (noul(), {"type": "noul", "noul": True}),
        (noul(), {"type": "noul", "noul": "0.5"}),
        (noul(), {"type": "noul", "noul": 1.01}),
        (noul(), {"type": "noul", "noul": -0.01}),
        (noul(), {"type": "noul", "noul": math.nan}),
        (noul(), {"type": "choice", "noul": 1}),
        (noul(), {"noul": 1}),
        (QUEUE, {"type": "choice"}),
        (QUEUE, {"type": "choice", "choice": "nobody"}),
        (QUEUE, {"type": "choice", "choice": ["other"]}),
        (QUEUE, {"type": "choice", "choice": "other", "probabilities": []}),
        (QUEUE, {"type": "choice", "probabilities": {"other": 0.5}}),
        (QUEUE, {"type": "choice", "probabilities": {"other": 1, "third": 0}}),
        (QUEUE, {"type": "choice", "probabilities": {"other": 2, "billing": -1}}),
        (LEVELS, {"type": "score", "score": 2.5}),
        (LEVELS, {"type": "score", "score": -0.5}),
        (LEVELS, {"type": "score", "score": None}),
        (LEVELS, {"type": "score", "probabilities": {"calm": 1}}),
    ],
)
def test_what_is_no_answer(question: Question, answer: Any) -> None:
    with pytest.raises(NoAnswer):
        native.judged(question, answer)


@pytest.mark.parametrize(
    ("shares", "confidence"),
    [
        ((1.0,), 1),
        ((0.5, 0.5), 0),
        ((0.75, 0.25), 0.5),
        ((0.0, 1.0, 0.0), 1),
        ((0.4, 0.3, 0.3), 0.1),
    ],
)
def test_confidence_is_how_far_the_likeliest_is_above_chance(
    shares: tuple[float, ...], confidence: float
) -> None:
    assert confidence_of(shares) == pytest.approx(confidence)


def test_of_equals_the_first_is_chosen() -> None:
    question = choice("b", "a", "c")

    answer = answer_of(question, Judged((0.4, 0.4, 0.2)))

    assert answer["choice"] == "b"
    assert list(answer["probabilities"]) == ["b", "a", "c"]


def test_a_score_is_exact_where_its_parts_are() -> None:
    assert answer_of(LEVELS, Judged((0.0, 0.95, 0.05)))["score"] == 1.05
