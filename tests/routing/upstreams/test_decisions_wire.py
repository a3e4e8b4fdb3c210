"""The wire kind of providers that answer decisions themselves."""

import json
from typing import Any

import pytest

from routing.entities.exchange import Prompt, Terms
from routing.upstreams.decisions import (
    DECISIONS,
    BlamedQuestions,
    adapt_failure,
    find_blamed_questions,
)
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


COUNTS = {"prompt_tokens": 7, "completion_tokens": 2}


@pytest.mark.parametrize(
    ("usage", "told"),
    [
        ({"input_tokens": 7, "output_tokens": 2, "cost": 1}, COUNTS),
        (COUNTS, COUNTS),
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
        *[(body, 502) for body in (b"", b"[]", b"{}", b'{"answers": []}')],
        (b'{"answers": {}, "error": {"code": 429, "message": "slow"}}', 429),
    ],
)
def test_what_is_no_answer_is_a_failure(body: bytes, status: int) -> None:
    with pytest.raises(UpstreamFailure) as failed:
        DECISIONS.answer(body, "application/json")
    assert failed.value.caller_status == status


NAMES = ("q", "q.more", "0", '"ö"')
Q: BlamedQuestions = frozenset(["q"])
SOME: BlamedQuestions = frozenset()
ALL: BlamedQuestions = frozenset([None])


def error_at(*loc: str) -> dict[str, Any]:
    return {"detail": [{"loc": list(loc), "msg": "bad"}]}


@pytest.mark.parametrize(
    ("body", "blamed"),
    [
        (error_at("body", "questions", "q", "criteria"), Q),
        (error_at("questions", "q"), Q),
        ({"detail": [{"loc": ["body", "state"]}, {"loc": ["body", "questions", "q"]}]}, Q),
        (error_at("body", "questions", '"ö"'), {NAMES[-1]}),
        (error_at("body", "questions"), ALL),
        ({"detail": [{"loc": ["body", "state"], "input": BODY}]}, None),
        (error_at("body", "state", "questions"), None),
        ({"detail": "question q is empty"}, SOME),
        ({"detail": "state is empty"}, None),
        ({"error": {"message": "Question q has too many labels"}}, SOME),
        ({"error": {"message": "bad", "param": "questions.q.criteria"}}, Q),
        ({"error": {"message": "bad", "param": "questions.q.more.criteria"}}, {"q.more"}),
        ({"error": {"message": "bad", "param": "questions"}}, ALL),
        ({"error": {"metadata": {"issues": [{"path": "questions.q"}]}}}, Q),
        ({"error": {"issues": [{"path": ["questions", "0", "type"]}]}}, {"0"}),
        ({"error": {"message": "odd"}}, None),
        ("", None),
    ],
)
def test_which_questions_are_blamed(body: Any, blamed: Any) -> None:
    failure = from_status(422, {}, json.dumps(body).encode())
    assert find_blamed_questions(failure, NAMES) == blamed


@pytest.mark.parametrize(
    ("status", "of_caller", "told", "elsewhere"),
    [
        (422, True, 400, False),
        *[(422, of_caller, 502, True) for of_caller in (False, None)],
        *[(400, of_caller, 400, False) for of_caller in (True, None)],
        (400, False, 502, True),
        (413, False, 413, True),
        (500, False, 502, True),
    ],
)
def test_what_is_told_of_a_question_that_is_blamed(
    status: int, of_caller: bool | None, told: int, elsewhere: bool
) -> None:
    failure = from_status(status, {}, b'{"error": {"message": "question"}}')
    changed = adapt_failure(failure, of_caller=of_caller)
    assert (changed.caller_status, changed.elsewhere) == (told, elsewhere)
    assert (changed.message == "question") == (told in (400, 413))


def test_a_refusal_with_a_name_of_its_own_keeps_it() -> None:
    body = b'{"error": {"message": "question", "code": "context_length_exceeded"}}'
    changed = adapt_failure(from_status(400, {}, body), of_caller=False)
    assert (changed.caller_status, changed.error_type) == (400, "context_length_exceeded")
