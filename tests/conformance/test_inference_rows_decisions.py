"""Rows 71 to 81: typed questions about a state."""

from typing import Any

import pytest

from tests.conformance.deciding import (
    CHOICE,
    DECISIONS,
    NOUL,
    SCORE,
    SYSTEMONE,
    DecisionsDesk,
    check,
)
from tests.conformance.desk import issue_paths
from tests.support.server import as_json

# One model for each way of answering.
WAYS = ["typesafe/jev-1.13", "acme/judge", "acme/numbers", "acme/letters", "acme/replies"]


@pytest.fixture(params=[DECISIONS, SYSTEMONE])
def asking(deciding: DecisionsDesk, request: pytest.FixtureRequest) -> DecisionsDesk:
    """A caller at each of the two paths."""
    return deciding.at(request.param)


@pytest.mark.parametrize("model", WAYS)
def test_a_noul_needs_no_criteria(asking: DecisionsDesk, model: str) -> None:
    response = asking.post(model=model)

    asking.paid(response)
    body = as_json(response)
    assert body.keys() == {"id", "model", "provider", "answers", "usage"}
    assert body["id"].startswith("gen-dec-")
    assert body["id"] == response.headers["X-Generation-Id"]
    assert body["model"] == model
    assert body["usage"].keys() == {"input_tokens", "output_tokens", "cost"}
    check(NOUL, body["answers"]["q"])


@pytest.mark.parametrize("model", WAYS)
def test_every_type_is_answered_in_every_way(deciding: DecisionsDesk, model: str) -> None:
    described = {**NOUL, "criteria": {"true": "They ask for it", "false": ["nothing", "else"]}}
    questions = {"z": NOUL, "team": CHOICE, "a": described, "mood": SCORE}

    answers = deciding.answers(questions, model=model, state={"mail": ["Hello", 5]})

    assert answers["mood"]["legend"] == {"0": "hostile", "1": "neutral", "2": "friendly"}


@pytest.mark.parametrize("criteria", [{"true": "x"}, {"false": "x"}, {}, {"true": "x", "false": 1}])
def test_criteria_of_a_noul_are_both_or_none(
    asking: DecisionsDesk, criteria: dict[str, Any]
) -> None:
    error = asking.refused(400, "invalid_request", questions={"q": {**NOUL, "criteria": criteria}})

    assert issue_paths(error)[0].startswith("questions.q.criteria.")


@pytest.mark.parametrize(
    ("question", "field"),
    [
        ({"type": "choice", "instructions": "Which?"}, "questions.q.criteria"),
        ({**CHOICE, "criteria": {str(n): None for n in range(256)}}, "questions.q.criteria"),
        ({**CHOICE, "criteria": {}}, "questions.q.criteria"),
        ({**CHOICE, "criteria": {"a": 5}}, "questions.q.criteria.a"),
        ({**CHOICE, "criteria": ["a", "b"]}, "questions.q.criteria"),
    ],
)
def test_a_choice_has_1_to_255_labels(
    asking: DecisionsDesk, question: dict[str, Any], field: str
) -> None:
    error = asking.refused(400, "invalid_request", questions={"q": question})

    assert issue_paths(error) == [field]


@pytest.mark.parametrize("model", WAYS)
def test_a_choice_of_255_labels_is_answered(deciding: DecisionsDesk, model: str) -> None:
    labels = {f"label {n}": None for n in range(255)}
    deciding.upstream.verdicts("native-a", {"when": "Which", "weights": {"label 200": 9}})

    answers = deciding.answers({"q": {**CHOICE, "criteria": labels}}, model=model)

    assert len(answers["q"]["probabilities"]) == 255


@pytest.mark.parametrize("model", WAYS)
def test_probabilities_cover_the_labels(deciding: DecisionsDesk, model: str) -> None:
    question = {**CHOICE, "criteria": {"a": None, "b": "…"}}
    for persona in (
        "native-a",
        "native-b",
        "judge-a",
        "judge-b",
        "numbers-a",
        "letters-a",
        "replies-a",
    ):
        deciding.upstream.verdicts(persona, {"when": "Which", "weights": {"a": 0.25, "b": 0.75}})

    answer = deciding.answers({"q": question}, model=model)["q"]

    assert answer["choice"] == "b"
    assert answer["probabilities"] == pytest.approx({"a": 0.25, "b": 0.75}, abs=1e-6)
    assert answer["confidence"] == pytest.approx(0.5, abs=1e-6)


def test_a_score_is_the_mean_level(asking: DecisionsDesk) -> None:
    shares = {"0": 0.0, "1": 0.95, "2": 0.05}
    given = {"type": "score", "score": 2, "probabilities": shares}
    asking.upstream.verdicts("native-a", {"when": "friendly", "answer": given})

    answer = asking.answers({"q": SCORE}, provider={"order": ["native-a"]})["q"]

    assert answer["score"] == 1.05
    assert list(answer["legend"]) == ["0", "1", "2"]
    assert answer["probabilities"] == shares
    assert answer["confidence"] == pytest.approx((0.95 - 1 / 3) / (2 / 3))


@pytest.mark.parametrize("levels", [0, 1, 11])
def test_a_score_has_2_to_10_levels(asking: DecisionsDesk, levels: int) -> None:
    question = {**SCORE, "criteria": [f"level {n}" for n in range(levels)]}

    error = asking.refused(400, "invalid_request", questions={"q": question})

    assert issue_paths(error) == ["questions.q.criteria"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"questions": {}}, "questions"),
        ({"questions": None}, "questions"),
        ({"questions": []}, "questions"),
        ({"questions": {"": NOUL}}, "questions."),
        ({"questions": {f"q{n}": NOUL for n in range(1001)}}, "questions"),
        ({"state": 5}, "state"),
        ({"state": None}, "state"),
        ({"state": True}, "state"),
        ({"model": ""}, "model"),
        ({"model": None}, "model"),
        ({"questions": {"q": {"type": "noul"}}}, "questions.q.instructions"),
        ({"questions": {"q": {**NOUL, "instructions": ""}}}, "questions.q.instructions"),
        ({"questions": {"q": {**NOUL, "instructions": 5}}}, "questions.q.instructions"),
        ({"questions": {"q": {**NOUL, "type": "maybe"}}}, "questions.q.type"),
        ({"questions": {"q": {**NOUL, "type": "box"}}}, "questions.q.type"),
        ({"questions": {"q": "yes?"}}, "questions.q"),
        ({"user": "u" * 257}, "user"),
        ({"session_id": "s" * 257}, "session_id"),
        ({"trace": "t"}, "trace"),
        ({"provider": {"nearest": True}}, "provider"),
    ],
)
def test_what_is_no_question_is_refused(
    asking: DecisionsDesk, body: dict[str, Any], field: str
) -> None:
    assert issue_paths(asking.refused(400, "invalid_request", **body))[0] == field


def test_all_that_is_wrong_is_told_at_once(asking: DecisionsDesk) -> None:
    questions = {"a": {"type": "noul"}, "b": {**SCORE, "criteria": ["one"]}}

    error = asking.refused(400, "invalid_request", state=5, questions=questions)

    assert issue_paths(error) == [*("state", "questions.a.instructions", "questions.b.criteria")]


@pytest.mark.parametrize("state", ["", {}, [], "x", {"a": [1, None, 2.5]}, [{}, "…"]])
@pytest.mark.parametrize("model", WAYS[:2])
def test_a_state_may_be_any_text_object_or_array(
    deciding: DecisionsDesk, state: Any, model: str
) -> None:
    deciding.answers({"q": {**NOUL, "instructions": {"ask": ["why?"]}, "extra": 5}}, state=state)


@pytest.mark.parametrize("model", ["jev-1.13", "jev-latest", "typesafe/jev-1.13"])
def test_systemone_knows_models_without_their_author(deciding: DecisionsDesk, model: str) -> None:
    response = deciding.at(SYSTEMONE).post(model=model, headers={"X-Router-Metadata": "enabled"})

    assert response.status_code == 200, response.text
    body = as_json(response)
    assert body["model"] == "typesafe/jev-1.13"
    assert body["router_metadata"]["requested"] == model


@pytest.mark.parametrize("model", ["nobody-1", "nobody-latest", "acme/nobody"])
def test_an_unknown_model_is_named_as_the_caller_did(deciding: DecisionsDesk, model: str) -> None:
    response = deciding.at(SYSTEMONE).post(model=model)

    error = deciding.check_refused(response, 400, "invalid_request")
    assert error["message"] == f"{model} is not a valid model ID"


def test_a_bare_name_is_unknown_elsewhere(deciding: DecisionsDesk) -> None:
    error = deciding.refused(400, "invalid_request", model="jev-1.13")

    assert error["message"] == "jev-1.13 is not a valid model ID"


@pytest.mark.parametrize("model", ["acme/off", "acme/plain"])
def test_a_model_that_is_not_to_decide_is_refused(asking: DecisionsDesk, model: str) -> None:
    error = asking.refused(400, "invalid_request", model=model)

    assert error["message"] == f"{model} does not answer decisions"


def test_a_timeout_everywhere_is_a_524(asking: DecisionsDesk) -> None:
    asking.upstream.script("slow", {"gate": "never"}, repeat=True)

    response = asking.post(model="acme/slow")

    asking.told(response, 524, "timeout")
    record = asking.generation(response.headers["X-Generation-Id"])
    assert record["api_type"] == "decisions"
    assert asking.total_usage_nano() == 0
