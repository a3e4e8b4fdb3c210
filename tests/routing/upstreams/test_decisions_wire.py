"""The wire kind of providers that answer decisions themselves."""

import json
from typing import Any

import pytest

from routing.exchange import Prompt, Terms
from routing.upstreams.decisions import DECISIONS, without_unprocessable
from routing.upstreams.failures import UpstreamFailure, from_status

BODY = {"state": {"a": 1}, "questions": {"q": {"type": "noul", "instructions": "?"}}}
PROMPT = Prompt(BODY, None, False, None, None, None, False)


def terms(credential: str | None) -> Terms:
    return Terms("jev-1", frozenset(), "hash-of-a-user", credential, None, 100)


def test_a_call_holds_model_state_and_questions_and_nothing_else() -> None:
    request = DECISIONS.request(PROMPT, terms("secret"))

    assert request.path == "/systemone"
    assert dict(request.headers)["Authorization"] == "Bearer secret"
    assert json.loads(request.body) == {"model": "jev-1", **BODY}
    assert "Authorization" not in dict(DECISIONS.request(PROMPT, terms(None)).headers)


@pytest.mark.parametrize(
    ("usage", "told"),
    [
        (
            {"input_tokens": 7, "output_tokens": 2, "cost": 1},
            {"prompt_tokens": 7, "completion_tokens": 2},
        ),
        (
            {"prompt_tokens": 7, "completion_tokens": 2},
            {"prompt_tokens": 7, "completion_tokens": 2},
        ),
        (None, None),
        ("many", None),
    ],
)
def test_usage_in_the_words_of_chat(usage: Any, told: Any) -> None:
    body = {"id": "d-1", "answers": {}, "usage": usage}

    answer = DECISIONS.answer(json.dumps(body).encode(), "application/json")

    assert answer.usage == told
    assert answer.upstream_id == "d-1"
    assert answer.native is not None
    assert answer.native.value == body


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 502),
        (b"[]", 502),
        (b"{}", 502),
        (b'{"answers": []}', 502),
        (b'{"answers": {}, "error": {"code": 429, "message": "slow"}}', 429),
    ],
)
def test_what_is_no_answer_is_a_failure(body: bytes, status: int) -> None:
    with pytest.raises(UpstreamFailure) as failed:
        DECISIONS.answer(body, "application/json")
    assert failed.value.told_status == status


def told(body: Any, *, of_questions: bool = True) -> tuple[int, bool]:
    failure = from_status(422, {}, json.dumps(body).encode())
    changed = without_unprocessable(failure, of_questions=of_questions)
    return changed.told_status, changed.elsewhere


QUESTIONS = {"loc": ["body", "questions", "q"], "msg": "bad"}


@pytest.mark.parametrize(
    ("body", "blames"),
    [
        ({"detail": [QUESTIONS]}, True),
        ({"detail": [{"loc": ["body", "state"]}, QUESTIONS]}, True),
        ({"detail": [{"loc": ["body", "state"], "input": BODY}]}, False),
        ({"detail": "question q is empty"}, True),
        ({"detail": "state is empty"}, False),
        ({"error": {"message": "Question q has too many labels"}}, True),
        ({"error": {"message": "bad", "param": "questions.q.criteria"}}, True),
        ({"error": {"metadata": {"issues": [{"path": "questions.q"}]}}}, True),
        ({"error": {"message": "odd"}}, False),
        ("", False),
    ],
)
def test_a_422_that_blames_a_question_is_a_400(body: Any, blames: bool) -> None:
    assert told(body) == ((400, False) if blames else (502, True))
    assert told(body, of_questions=False) == (502, True)


def test_other_failures_stay_as_they_are() -> None:
    failure = from_status(400, {}, b'{"error": {"message": "question"}}')

    assert without_unprocessable(failure, of_questions=True).told_status == 400
