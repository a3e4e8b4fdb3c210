"""What native upstreams are asked, and what of their answers is believed."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.decisions import native
from routing.decisions.question import (
    Judgement,
    NoAnswer,
    TypedQuestion,
    build_answer,
    compute_confidence,
)
from tests.routing.decisions.asked import choice, noul, score

LEVELS = score("calm", "cross", {"how": "furious"})
QUEUE = choice("other", billing="money")


def test_questions_are_asked_as_they_came() -> None:
    assert native.serialize_question(noul()) == {"type": "noul", "instructions": "Is it urgent?"}
    assert native.serialize_question(noul("x", ["y"]))["criteria"] == {"true": "x", "false": ["y"]}
    assert native.serialize_question(QUEUE)["criteria"] == {"other": None, "billing": "money"}
    assert native.serialize_question(LEVELS)["criteria"] == ["calm", "cross", {"how": "furious"}]


def test_probabilities_are_believed_and_made_to_sum_to_one() -> None:
    answer = {"type": "choice", "probabilities": {"billing": 0.604, "other": 0.4}}

    judged = native.read_judgement(QUEUE, answer | {"choice": "other"})

    assert judged.probabilities == pytest.approx((0.4 / 1.004, 0.604 / 1.004))
    # The likeliest, whatever the upstream itself made of it.
    assert build_answer(QUEUE, judged)["choice"] == "billing"


def test_a_yes_leaves_the_rest_to_no_and_a_rounding_error_is_missed() -> None:
    yes = {0.25: (0.25, 0.75), -native._ROUNDING: (0.0, 1.0), 1 + native._ROUNDING: (1.0, 0.0)}
    for told, shares in yes.items():
        judged = native.read_judgement(noul(), {"type": "noul", "noul": told})
        assert judged.probabilities == shares
        assert build_answer(noul(), judged) == {"type": "noul", "noul": shares[0]}


def rounded_judgement(shares: list[float], decimals: int) -> dict[str, Any]:
    told = {str(n): round(share, decimals) for n, share in enumerate(shares)}
    return {"type": "choice", "probabilities": told}


@given(
    st.lists(st.floats(0, 1), min_size=2, max_size=60).filter(lambda weights: sum(weights) > 0.1),
    st.integers(2, 8),
)
def test_what_rounding_did_to_a_sum_is_forgiven(weights: list[float], decimals: int) -> None:
    shares = [weight / math.fsum(weights) for weight in weights]
    question = choice(*map(str, range(len(shares))))

    judged = native.read_judgement(question, rounded_judgement(shares, decimals))

    assert math.isclose(math.fsum(judged.probabilities), 1, abs_tol=1e-9)
    off = len(shares) / 2 * 10**-decimals
    for told, share in zip(judged.probabilities, shares, strict=True):
        assert told == pytest.approx(share, abs=2 * off + 0.01)


def test_a_sum_that_no_rounding_explains_is_no_answer() -> None:
    names = [str(n) for n in range(200)]
    for shares in ([0.0] * 200, [0.01] * 200, [0.4, *[0.0] * 199]):
        with pytest.raises(NoAnswer):
            native.read_judgement(choice(*names), rounded_judgement(shares, 2))
    # Two hundred times less than half of a hundredth is much; four times is not.
    native.read_judgement(choice(*names), rounded_judgement([0.6, *[0.0] * 199], 2))
    native.read_judgement(choice(*names[:4]), rounded_judgement([0.25, 0.25, 0.25, 0.23], 2))
    with pytest.raises(NoAnswer):
        native.read_judgement(choice(*names[:4]), rounded_judgement([0.97, 0.0, 0.0, 0.0], 2))


def test_half_precision_is_forgiven_however_many_digits_are_told() -> None:
    def build_judgement(sum_off: float) -> dict[str, Any]:
        shares = {"other": 0.1234567891234, "billing": 1 - 0.1234567891234 + sum_off}
        return {"type": "choice", "probabilities": shares}

    native.read_judgement(QUEUE, build_judgement(0.003))
    with pytest.raises(NoAnswer):
        native.read_judgement(QUEUE, build_judgement(-0.004))


def test_a_confidence_of_the_upstream_s_own_is_told() -> None:
    answer = {"type": "choice", "probabilities": {"other": 1.0}, "confidence": 0.25}

    assert build_answer(QUEUE, native.read_judgement(QUEUE, answer))["confidence"] == 0.25
    sure = {**answer, "probabilities": {"other": 0.6, "billing": 0.4}, "confidence": 1}
    assert build_answer(QUEUE, native.read_judgement(QUEUE, sure))["confidence"] == 1
    for odd in (7, -1, "sure", True, math.inf, None):
        judged = native.read_judgement(QUEUE, answer | {"confidence": odd})
        assert build_answer(QUEUE, judged)["confidence"] == 1


def test_a_choice_alone_has_a_distribution_too() -> None:
    def shares(**answer: Any) -> tuple[float, ...]:
        return native.read_judgement(QUEUE, {"type": "choice", **answer}).probabilities

    assert shares(choice="billing") == (0, 1)
    assert shares(choice="billing", confidence=0.5) == (0.25, 0.75)
    assert shares(choice="other", confidence=0) == (0.5, 0.5)
    three = {"type": "choice", "choice": "b", "confidence": 0.25}
    judged = native.read_judgement(choice("a", "b", "c"), three)
    assert judged.probabilities == pytest.approx((0.25, 0.5, 0.25))


def test_a_score_alone_is_the_mean_of_the_levels_beside_it() -> None:
    alone: dict[float, tuple[float, ...]] = {0: (1, 0, 0), 1.25: (0, 0.75, 0.25), 2: (0, 0, 1)}
    for told, shares in alone.items():
        judged = native.read_judgement(LEVELS, {"type": "score", "score": told})
        assert judged.probabilities == shares
        assert build_answer(LEVELS, judged)["score"] == told


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (noul(), None),
        (noul(), "yes"),
        (noul(), {"type": "noul"}),
        *[(noul(), {"type": "noul", "noul": n}) for n in (True, "0.5", 1.01, -0.01, math.nan)],
        (noul(), {"type": "choice", "noul": 1}),
        (noul(), {"noul": 1}),
        (QUEUE, {"type": "choice"}),
        (QUEUE, {"type": "choice", "choice": "nobody"}),
        (QUEUE, {"type": "choice", "choice": ["other"]}),
        (QUEUE, {"type": "choice", "choice": "other", "probabilities": []}),
        (QUEUE, {"type": "choice", "probabilities": {"other": 0.5}}),
        (QUEUE, {"type": "choice", "probabilities": {"other": 1, "third": 0}}),
        (QUEUE, {"type": "choice", "probabilities": {"other": 2, "billing": -1}}),
        *[(LEVELS, {"type": "score", "score": score}) for score in (2.5, -0.5, None)],
        (LEVELS, {"type": "score", "probabilities": {"calm": 1}}),
    ],
)
def test_what_is_no_answer(question: TypedQuestion, answer: Any) -> None:
    with pytest.raises(NoAnswer):
        native.read_judgement(question, answer)


def test_confidence_is_how_far_the_likeliest_is_above_chance() -> None:
    shares = {(1.0,): 1, (0.5, 0.5): 0, (0.75, 0.25): 0.5, (0.0, 1.0, 0.0): 1, (0.4, 0.3, 0.3): 0.1}
    for each, confidence in shares.items():
        assert compute_confidence(each) == pytest.approx(confidence)


def test_of_equals_the_first_is_chosen() -> None:
    question = choice("b", "a", "c")

    answer = build_answer(question, Judgement((0.4, 0.4, 0.2)))

    assert answer["choice"] == "b"
    assert list(answer["probabilities"]) == ["b", "a", "c"]


def test_a_score_is_exact_where_its_parts_are() -> None:
    assert build_answer(LEVELS, Judgement((0.0, 0.95, 0.05)))["score"] == 1.05
