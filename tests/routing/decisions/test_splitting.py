"""A question with too many labels, asked in parts and put together again."""

from math import ceil, isclose
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.decisions.question import Judgement, TypedQuestion
from routing.decisions.splitting import QuestionLimits, split_question
from tests.routing.decisions.asked import choice, noul, score


def many(count: int) -> TypedQuestion:
    return choice(*(f"label {n}" for n in range(count)))


def levels(count: int) -> TypedQuestion:
    return score(*(f"level {n}" for n in range(count)))


def even(question: TypedQuestion) -> Judgement:
    return Judgement((1 / len(question.labels),) * len(question.labels), label_mass=1.0)


def test_a_question_within_its_limits_stays_as_it_is() -> None:
    for question in (noul(), many(4), levels(3)):
        whole = split_question(question, QuestionLimits(4, 3))
        own = even(question)._replace(confidence=0.25)

        assert whole.parts == (question,)
        assert whole.merge([own]) is own


@pytest.mark.parametrize(("count", "most", "parts"), [(27, 26, 3), (52, 26, 3), (53, 26, 4)])
def test_groups_are_as_few_as_can_be(count: int, most: int, parts: int) -> None:
    whole = split_question(many(count), QuestionLimits(most))

    assert len(whole.parts) == parts
    groups, *within = whole.parts
    assert groups.labels == tuple(str(n) for n in range(1, parts))
    assert sum(len(each.labels) for each in within) == count
    assert groups.criteria[0] == dict.fromkeys(within[0].labels)


def test_groups_of_levels_are_levels_again() -> None:
    whole = split_question(levels(5), QuestionLimits(levels=3))

    groups, *within = whole.parts
    assert groups.kind == "score"
    assert groups.labels == ("0", "1")
    assert groups.criteria == (["level 0", "level 1"], ["level 2", "level 3", "level 4"])
    assert [each.labels for each in within] == [("0", "1"), ("0", "1", "2")]


def test_probabilities_are_those_of_the_group_times_those_within() -> None:
    whole = split_question(many(4), QuestionLimits(2))
    groups = Judgement((0.75, 0.25), label_mass=0.8)
    within = [Judgement((0.5, 0.5), label_mass=1.0), Judgement((0.2, 0.8), label_mass=0.5)]

    merged = whole.merge([groups, *within])

    assert merged.probabilities == pytest.approx((0.375, 0.375, 0.05, 0.2))
    assert merged.label_mass == pytest.approx(0.8 * (0.75 * 1.0 + 0.25 * 0.5))
    assert merged.confidence is None


def test_what_is_not_known_of_a_part_is_not_known_of_the_whole() -> None:
    whole = split_question(many(3), QuestionLimits(2))
    judged = [Judgement((0.5, 0.5), label_mass=0.9) for _ in whole.parts]

    assert whole.merge([judged[0], judged[1]._replace(label_mass=None)]).label_mass is None


@given(count=st.integers(1, 255), most=st.integers(1, 60))
def test_every_part_keeps_to_the_limit_and_every_label_is_found_again(
    count: int, most: int
) -> None:
    question = many(count)
    whole = split_question(question, QuestionLimits(most))

    assert all(len(part.labels) <= max(2, most) for part in whole.parts)
    merged = whole.merge([even(part) for part in whole.parts])
    assert len(merged.probabilities) == count
    assert isclose(sum(merged.probabilities), 1, abs_tol=1e-9)
    assert merged.label_mass == pytest.approx(1)
    if most >= count:
        assert len(whole.parts) == 1
    elif most > 2 and ceil(count / most) <= most:
        assert len(whole.parts) <= 1 + ceil(count / most)


@given(weights=st.lists(st.floats(0.01, 1), min_size=2, max_size=60), most=st.integers(2, 9))
def test_what_is_judged_alike_in_parts_comes_out_as_the_whole_would(
    weights: list[float], most: int
) -> None:
    question = many(len(weights))
    by_label = dict(zip(question.labels, weights, strict=True))
    whole = split_question(question, QuestionLimits(most))

    def weigh(label: str, told: Any) -> float:
        """Of a label of its own, or of all members of a group."""
        if label in by_label:
            return by_label[label]
        return float(sum(weigh(name, inner) for name, inner in told.items()))

    judged = []
    for part in whole.parts:
        found = list(map(weigh, part.labels, part.criteria))
        judged.append(Judgement(tuple(each / sum(found) for each in found)))
    total = sum(weights)
    assert whole.merge(judged).probabilities == pytest.approx([each / total for each in weights])
