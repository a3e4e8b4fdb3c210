"""Decisions: native answers, labels with log-probabilities, and verdicts that say the truth."""

import json
from math import exp, isclose, log
from typing import Any

import pytest

from tests.routing.simulator.conftest import Asked

CHOICE = "Question: Which queue?\nA) billing: About money\nB) other\n\nAnswer with a letter."
NOUL = "Question: Is it urgent?\n\nAnswer yes or no."
TEAM = {
    "type": "choice",
    "instructions": "Which queue?",
    "criteria": {"billing": "x", "other": None},
}
LEVELS = {"type": "score", "instructions": "How angry?", "criteria": ["calm", "cross", "furious"]}


@pytest.fixture
def decide(upstream, wire) -> Asked:
    return Asked(upstream, wire, "systemone")


@pytest.fixture
def judge(upstream, wire) -> Asked:
    return Asked(upstream, wire, "chat/completions")


def label_of(judge: Asked, text: str, **body: Any) -> dict[str, float]:
    """Probabilities by token, as the one token of the answer tells them."""
    asked = {"max_tokens": 1, "logprobs": True, "top_logprobs": 20, **body}
    answer = judge.document(messages=[{"role": "user", "content": text}], **asked)
    [choice] = answer["choices"]
    [token] = choice["logprobs"]["content"]
    assert choice["message"]["content"] == token["token"]
    assert token["top_logprobs"][0]["token"] == token["token"]
    return {each["token"]: exp(each["logprob"]) for each in token["top_logprobs"]}


def numbers_of(judge: Asked, text: str, *names: str) -> Any:
    properties = {name: {"type": "number"} for name in names}
    shape = {"type": "json_schema", "json_schema": {"schema": {"properties": properties}}}
    answer = judge.document(messages=[{"role": "user", "content": text}], response_format=shape)
    return json.loads(answer["choices"][0]["message"]["content"])


def test_every_type_of_question_is_answered_in_kind(decide):
    urgent = {"type": "noul", "instructions": "Is it urgent?"}
    document = decide.document(questions={"q1": TEAM, "q2": LEVELS, "q3": urgent})
    assert list(document["answers"]) == ["q1", "q2", "q3"]
    team, anger, noul = document["answers"].values()
    assert isclose(sum(team["probabilities"].values()), 1)
    assert team["probabilities"][team["choice"]] == max(team["probabilities"].values())
    assert anger["legend"] == {"0": "calm", "1": "cross", "2": "furious"}
    assert 0 <= anger["score"] <= 2
    assert 0 <= noul["noul"] <= 1
    assert document["usage"]["output_tokens"] == 3
    assert document["usage"]["input_tokens"] > 3


def test_a_verdict_is_the_truth_of_its_question_in_every_way_of_asking(upstream, decide, judge):
    weights = {"billing": 0.7, "other": 0.3}
    tokens = [[" A", log(0.5)], ["a", log(0.25)]]
    upstream.verdicts("default", {"when": "queue", "weights": weights})
    [native] = decide.document(questions={"q": TEAM})["answers"].values()
    assert native["probabilities"] == pytest.approx(weights)
    # What the state says is no option.
    for told in (label_of(judge, f"x\nC) none\n{CHOICE}"), numbers_of(judge, CHOICE, "A", "B")):
        assert told == pytest.approx({"A": 0.7, "B": 0.3})
    upstream.verdicts("default", {"when": "queue", "tokens": tokens})
    assert label_of(judge, CHOICE) == pytest.approx({" A": 0.5, "a": 0.25})


def test_without_a_verdict_an_option_is_as_likely_wherever_it_stands(judge):
    turned = "Question: Which queue?\nA) other\nB) billing: About money"
    one, other = label_of(judge, CHOICE), label_of(judge, turned)
    assert (one["A"], one["B"]) == pytest.approx((other["B"], other["A"]))
    noul = label_of(judge, NOUL)
    assert noul.keys() == {"yes", "no"}
    yes = noul["yes"] / sum(noul.values())
    assert numbers_of(judge, NOUL, "yes") == {"yes": pytest.approx(yes)}
    # Levels may be of any form.
    levels = 'Question: How much?\n0) ["a", [1, 2]]\n1) [{"k": 1}]\n\nAnswer with a digit.'
    assert {"0", "1"} <= label_of(judge, levels).keys()


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"state": 5}, ["state"]),
        ({"questions": {}}, ["questions"]),
        ({"provider": {}}, ["provider"]),
        ({"questions": {"q": {"type": "box", "instructions": "x"}}}, ["questions", "q", "type"]),
        ({"questions": {"q": {"type": "noul"}}}, ["questions", "q", "instructions"]),
        ({"questions": {"q": LEVELS | {"criteria": ["one"]}}}, ["questions", "q", "criteria"]),
        ({"questions": {"q": TEAM | {"criteria": {}}}}, ["questions", "q", "criteria"]),
    ],
)
def test_what_breaks_the_form_is_422_and_names_its_place(decide, body, place):
    status, _, data = decide(**body)
    [detail] = json.loads(data)["detail"]
    assert (status, detail["loc"]) == (422, ["body", *place])
