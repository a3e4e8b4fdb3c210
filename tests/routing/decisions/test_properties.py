"""Whatever is asked and however likely it is: what holds of every answer.

The simulated model judges what the gateway would send it; nothing goes over a network.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.decisions import logprobs, schema
from routing.decisions.question import YES_NO, Judgement, NoAnswer, TypedQuestion, build_answer
from routing.decisions.splitting import QuestionLimits, split_question
from routing.simulator.script import Verdicts

Judge = Callable[[TypedQuestion, Mapping[str, float]], Judgement]
# What is asked about one label too many is asked in groups.
LIMITS = QuestionLimits(logprobs.LABELS_MAX)
# More are not all among the alternatives.
TOP = 20

texts = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=9)
told = st.one_of(texts, st.lists(texts, max_size=2), st.dictionaries(texts, texts, max_size=2))
# Labels that are not each other's beginning, and no number that stands for a group.
names = texts.map(lambda text: f"<{text}>")
weight = st.floats(0.001, 1)


@st.composite
def nouls(draw: st.DrawFn) -> TypedQuestion:
    criteria = draw(st.one_of(st.none(), st.tuples(told, told)))
    return TypedQuestion("noul", draw(told), YES_NO, criteria or (None, None))


@st.composite
def choices(draw: st.DrawFn, *, least: int = 1, most: int = 40) -> TypedQuestion:
    labels = draw(st.lists(names, unique=True, min_size=least, max_size=most))
    described = [draw(st.none() | texts) for _ in labels]
    return TypedQuestion("choice", draw(told), tuple(labels), tuple(described))


@st.composite
def scores(draw: st.DrawFn) -> TypedQuestion:
    levels = draw(st.lists(names, unique=True, min_size=2, max_size=10))
    return TypedQuestion("score", draw(told), tuple(map(str, range(len(levels)))), tuple(levels))


questions = st.one_of(nouls(), choices(), scores())
# All labels are among the alternatives: at once, or within groups.
whole_choices = st.one_of(choices(most=TOP), choices(least=logprobs.LABELS_MAX + 1))


def keys_of(question: TypedQuestion) -> Sequence[str]:
    """By what a verdict names the labels."""
    return question.criteria if question.kind == "score" else question.labels


def simulate_answer(body: dict[str, Any], weights: Mapping[str, float]) -> dict[str, Any]:
    """What the simulated model says."""
    verdicts = Verdicts()
    verdicts.put("judge", {"verdicts": [{"when": "", "weights": dict(weights)}]})
    _, said = verdicts.of_chat("judge", body)
    return said


def by_letters(question: TypedQuestion, weights: Mapping[str, float]) -> Judgement:
    parts = split_question(question, LIMITS)
    said = [
        simulate_answer(logprobs.build_request("A state", part), weights) for part in parts.parts
    ]
    found = [
        logprobs.read_judgement(part, one["logprobs"])
        for part, one in zip(parts.parts, said, strict=True)
    ]
    return parts.merge(found)


def by_numbers(question: TypedQuestion, weights: Mapping[str, float]) -> Judgement:
    parts = split_question(question, QuestionLimits(schema.LABELS_MAX))
    said = [simulate_answer(schema.build_request("A state", part), weights) for part in parts.parts]
    found = [
        schema.read_judgement(part, one["text"])
        for part, one in zip(parts.parts, said, strict=True)
    ]
    return parts.merge(found)


both_ways = pytest.mark.parametrize("judge", [by_letters, by_numbers])


def drawn_weights(data: st.DataObject, question: TypedQuestion) -> dict[str, float]:
    return {key: data.draw(weight) for key in keys_of(question)}


@both_ways
@given(question=questions, data=st.data())
def test_an_answer_is_of_its_questions_type_covers_all_labels_and_is_the_truth_of_the_model(
    judge: Judge, question: TypedQuestion, data: st.DataObject
) -> None:
    weights = drawn_weights(data, question)

    judged = judge(question, weights)
    answer = build_answer(question, judged)

    # Letters beyond the alternatives share what is left.
    if not TOP < len(question.labels) <= logprobs.LABELS_MAX:
        meant = [weights[key] / sum(weights.values()) for key in keys_of(question)]
        assert judged.probabilities == pytest.approx(meant, rel=1e-6, abs=1e-9)
    assert answer["type"] == question.kind
    if question.kind == "noul":
        assert 0 <= answer["noul"] <= 1
        return
    shares = answer["probabilities"]
    assert tuple(shares) == question.labels
    assert sum(shares.values()) == pytest.approx(1, abs=1e-9)
    assert all(0 <= share <= 1 for share in [*shares.values(), answer["confidence"]])
    if question.kind == "choice":
        best = max(shares.values())
        assert answer["choice"] == next(name for name in shares if shares[name] == best)
    else:
        mean = sum(int(level) * share for level, share in shares.items())
        assert answer["score"] == pytest.approx(mean, abs=1e-9)
        assert list(answer["legend"].values()) == list(question.criteria)


@both_ways
@given(question=whole_choices, data=st.data())
def test_the_order_of_options_does_not_matter(
    judge: Judge, question: TypedQuestion, data: st.DataObject
) -> None:
    weights = drawn_weights(data, question)
    described = dict(zip(question.labels, question.criteria, strict=True))
    labels = data.draw(st.permutations(question.labels))
    criteria = tuple(described[label] for label in labels)
    turned = question._replace(labels=tuple(labels), criteria=criteria)

    one, other = (build_answer(each, judge(each, weights)) for each in (question, turned))

    assert other["probabilities"] == pytest.approx(one["probabilities"], rel=1e-6, abs=1e-9)
    assert other["confidence"] == pytest.approx(one["confidence"], abs=1e-9)
    first, second, *_ = [*sorted(weights.values(), reverse=True), 0.0]
    if first > second * (1 + 1e-6):
        assert other["choice"] == one["choice"]


@given(question=choices(least=TOP + 1, most=logprobs.LABELS_MAX), data=st.data())
def test_the_alternatives_that_are_left_out_are_the_least_likely(
    question: TypedQuestion, data: st.DataObject
) -> None:
    weights = drawn_weights(data, question)
    ranked = sorted(weights, key=lambda label: -weights[label])

    shares = dict(zip(question.labels, by_letters(question, weights).probabilities, strict=True))

    least = shares[ranked[TOP - 1]]
    assert all(shares[label] == pytest.approx(least) for label in ranked[TOP:])


KEYS = st.sampled_from(["content", "top_logprobs", "token", "logprob"])
LEAVES = st.none() | st.booleans() | st.floats() | texts | st.sampled_from(["A", " b", "yes", "0"])
SAID = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(question=questions, given_=SAID)
def test_whatever_an_upstream_says_is_an_answer_or_none(
    question: TypedQuestion, given_: Any
) -> None:
    parts = split_question(question, LIMITS).parts
    for told_ in (given_, {"content": [given_]}, {"content": [{"top_logprobs": given_}]}):
        try:
            found = logprobs.read_judgement(parts[0], told_)
        except NoAnswer:
            continue
        assert sum(found.probabilities) == pytest.approx(1, abs=1e-9)
        assert found.label_mass is not None
        assert 0 <= found.label_mass <= 1


@given(question=questions, given_=st.dictionaries(st.sampled_from("ABC012"), st.floats() | texts))
def test_whatever_numbers_an_upstream_writes_are_an_answer_or_none(
    question: TypedQuestion, given_: Any
) -> None:
    part = split_question(question, LIMITS).parts[0]
    try:
        found = schema.read_judgement(part, json.dumps(given_))
    except NoAnswer:
        return
    assert sum(found.probabilities) == pytest.approx(1, abs=1e-9)
