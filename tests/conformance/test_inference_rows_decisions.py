"""Rows 71 to 81: typed questions about a state."""

from typing import Any

import pytest
from openrouter import OpenRouter

from tests.conformance.deciding import (
    CHOICE,
    DECISIONS,
    NOUL,
    SCORE,
    STATE,
    SYSTEMONE,
    DecisionsDesk,
    check,
)
from tests.conformance.desk import issue_paths
from tests.support.server import as_json

# One model for each way of answering, and those who serve them.
WAYS = ["typesafe/jev-1.13", "acme/judge", "acme/numbers", "acme/letters", "acme/replies"]
PERSONAS = (*("native-a", "native-b", "judge-a", "judge-b", "numbers-a", "letters-a", "replies-a"),)


@pytest.fixture(params=[DECISIONS, SYSTEMONE])
def asking(deciding: DecisionsDesk, request: pytest.FixtureRequest) -> DecisionsDesk:
    """A caller at each of the two paths."""
    return deciding.at(request.param)


@pytest.mark.grid
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
    for persona in PERSONAS:
        deciding.upstream.verdicts(persona, {"when": "Which of", "weights": {"a": 1, "b": 3}})
    described = {**NOUL, "criteria": {"true": "They ask for it", "false": ["nothing", "else"]}}
    two = {"type": "choice", "instructions": "Which of two?", "criteria": {"a": None, "b": "…"}}
    many = {**CHOICE, "criteria": {f"label {n}": None for n in range(255)}}
    questions = {"z": NOUL, "two": two, "many": many, "a": described, "mood": SCORE}

    answers = deciding.answers(questions, model=model, state={"mail": ["Hello", 5]})

    assert answers["mood"]["legend"] == {"0": "hostile", "1": "neutral", "2": "friendly"}
    assert len(answers["many"]["probabilities"]) == 255
    assert answers["two"]["choice"] == "b"
    assert answers["two"]["probabilities"] == pytest.approx({"a": 0.25, "b": 0.75}, abs=1e-6)
    assert answers["two"]["confidence"] == pytest.approx(0.5, abs=1e-6)


def test_a_score_is_the_mean_level(deciding: DecisionsDesk) -> None:
    shares = {"0": 0.0, "1": 0.95, "2": 0.05}
    given = {"type": "score", "score": 2, "probabilities": shares}
    deciding.upstream.verdicts("native-a", {"when": "friendly", "answer": given})

    answer = deciding.answers({"q": SCORE}, provider={"order": ["native-a"]})["q"]

    assert answer["score"] == 1.05
    assert list(answer["legend"]) == ["0", "1", "2"]
    assert answer["probabilities"] == shares
    assert answer["confidence"] == pytest.approx((0.95 - 1 / 3) / (2 / 3))


def choice_with(criteria: Any) -> dict[str, Any]:
    return {**CHOICE, "criteria": criteria}


WRONG_CRITERIA: list[tuple[dict[str, Any], str]] = [
    # Those of a noul are both or none.
    ({**NOUL, "criteria": {"true": "x"}}, ".false"),
    ({**NOUL, "criteria": {"false": "x"}}, ".true"),
    ({**NOUL, "criteria": {}}, ".true"),
    ({**NOUL, "criteria": {"true": "x", "false": 1}}, ".false"),
    # A choice has 1 to 255 labels, a score 2 to 10 levels.
    ({"type": "choice", "instructions": "Which?"}, ""),
    (choice_with({str(n): None for n in range(256)}), ""),
    (choice_with({}), ""),
    (choice_with({"a": 5}), ".a"),
    (choice_with(["a", "b"]), ""),
    *(({**SCORE, "criteria": [f"level {n}" for n in range(count)]}, "") for count in (0, 1, 11)),
]
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"questions": {}}, "questions"),
    ({"questions": None}, "questions"),
    ({"questions": []}, "questions"),
    ({"questions": {"": NOUL}}, "questions."),
    ({"questions": {f"q{n}": NOUL for n in range(1001)}}, "questions"),
    *(({"state": value}, "state") for value in (5, None, True)),
    *(({"model": value}, "model") for value in ("", None)),
    ({"questions": {"q": {"type": "noul"}}}, "questions.q.instructions"),
    ({"questions": {"q": {**NOUL, "instructions": ""}}}, "questions.q.instructions"),
    ({"questions": {"q": {**NOUL, "instructions": 5}}}, "questions.q.instructions"),
    ({"questions": {"q": {**NOUL, "type": "maybe"}}}, "questions.q.type"),
    ({"questions": {"q": {**NOUL, "type": "box"}}}, "questions.q.type"),
    ({"questions": {"q": "yes?"}}, "questions.q"),
    *(({"questions": {"q": each}}, f"questions.q.criteria{at}") for each, at in WRONG_CRITERIA),
    ({"user": "u" * 257}, "user"),
    ({"session_id": "s" * 257}, "session_id"),
    ({"trace": "t"}, "trace"),
    ({"provider": {"nearest": True}}, "provider"),
]


def test_what_is_no_question_is_refused(deciding: DecisionsDesk) -> None:
    for body, field in WRONG:
        assert issue_paths(deciding.expect_refusal(400, "invalid_request", **body))[0] == field, (
            body
        )
    # All that is wrong is told at once.
    questions = {"a": {"type": "noul"}, "b": {**SCORE, "criteria": ["one"]}}
    error = deciding.expect_refusal(400, "invalid_request", state=5, questions=questions)
    assert issue_paths(error) == ["state", "questions.a.instructions", "questions.b.criteria"]
    for raw in (b"", b"[1]", b"{", b'{"state": NaN}'):
        deciding.check_refused(deciding.raw(raw), 400, "invalid_request")


@pytest.mark.parametrize("model", WAYS[:2])
def test_a_state_may_be_any_text_object_or_array(deciding: DecisionsDesk, model: str) -> None:
    question = {**NOUL, "instructions": {"ask": ["why?"]}, "extra": 5}
    states: list[Any] = ["", {}, [], "x", {"a": [1, None, 2.5]}, [{}, "…"]]
    for state in states:
        deciding.answers({"q": question}, state=state, model=model)


@pytest.mark.parametrize("model", ["jev-1.13", "jev-latest", "typesafe/jev-1.13"])
def test_systemone_knows_models_without_their_author(deciding: DecisionsDesk, model: str) -> None:
    response = deciding.at(SYSTEMONE).post(model=model, headers={"X-Router-Metadata": "enabled"})

    assert response.status_code == 200, response.text
    body = as_json(response)
    assert body["model"] == "typesafe/jev-1.13"
    assert body["router_metadata"]["requested"] == model


@pytest.mark.parametrize(
    ("path", "model", "why"),
    [
        *((SYSTEMONE, name, "is not a valid model ID") for name in ("nobody-1", "acme/nobody")),
        (SYSTEMONE, "nobody-latest", "is not a valid model ID"),
        # A bare name is unknown elsewhere.
        (DECISIONS, "jev-1.13", "is not a valid model ID"),
        *((path, "acme/off", "does not answer decisions") for path in (DECISIONS, SYSTEMONE)),
        (DECISIONS, "acme/plain", "does not answer decisions"),
    ],
)
def test_a_model_that_decides_nothing_is_named_as_the_caller_did(
    deciding: DecisionsDesk, path: str, model: str, why: str
) -> None:
    error = deciding.at(path).expect_refusal(400, "invalid_request", model=model)

    assert error["message"] == f"{model} {why}"


def test_a_timeout_everywhere_is_a_524(deciding: DecisionsDesk) -> None:
    deciding.upstream.script("slow", {"gate": "never"}, repeat=True)

    response = deciding.post(model="acme/slow")

    deciding.check_error(response, 524, "timeout")
    record = deciding.generation(response.headers["X-Generation-Id"])
    assert record["api_type"] == "decisions"
    assert deciding.total_usage_nano() == deciding.spent_nano


def test_the_openrouter_package_asks_at_both_paths(deciding: DecisionsDesk) -> None:
    key, server = deciding.account.api_key, deciding.server
    questions: Any = {"noul": NOUL, "team": CHOICE, "mood": SCORE}
    asked: Any = {"state": STATE, "questions": questions}
    more: Any = {"session_id": "s", "trace": {"trace_id": "t"}, "user": "u"}
    with OpenRouter(api_key=key, server_url=server.base_url, retry_config=None) as client:
        # The package knows this one path by the root of the server.
        answer: Any = client.alpha.decisions.create(
            model="acme/judge",
            server_url=server.root_url,
            provider={"sort": "price"},
            **asked,
            **more,
        )
        other: Any = client.system_one.create(model="jev-latest", **asked)

    assert list(answer.answers) == ["noul", "team", "mood"]
    assert 0 <= answer.answers["noul"].noul <= 1
    assert answer.answers["team"].choice in CHOICE["criteria"]
    assert answer.answers["mood"].legend == {"0": "hostile", "1": "neutral", "2": "friendly"}
    assert (answer.model, answer.id[:8]) == ("acme/judge", "gen-dec-")
    assert answer.usage.cost > 0
    assert sum(other.answers["team"].probabilities.values()) == pytest.approx(1)
    assert other.provider
