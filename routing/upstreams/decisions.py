"""Endpoints that answer decisions themselves.

Pure: what to send, how to read the answer. Whether each question was answered is not looked at
here.
"""

import re
from typing import Any, Final

from gateway.http.jsonio import dumps
from routing.exchange import Answer, Native, Prompt, StreamReader, Terms, Wire, WireRequest
from routing.upstreams.failures import (
    PROVIDER_RETURNED_ERROR,
    UpstreamFailure,
    from_error_object,
    malformed,
)
from routing.upstreams.openai import parsed, word

KIND: Final = "decisions"
PATH: Final = "/systemone"
_UNPROCESSABLE: Final = 422
_QUESTION: Final = re.compile(r"question", re.IGNORECASE)
# Where in a body something is wrong, and what is wrong with it, as validators write it.
_BLAMES: Final = (
    re.compile(r'"loc"\s*:\s*\[[^\]]*"questions"'),
    re.compile(r'"(?:path|param)"\s*:\s*"questions\b'),
    re.compile(r'"detail"\s*:\s*"[^"]*question', re.IGNORECASE),
)


class Decisions:
    """See `Wire`. A prompt's body has `state` and `questions`; an answer's `native` is what the
    upstream said."""

    kind = KIND

    def request(self, prompt: Prompt, terms: Terms) -> WireRequest:
        headers = [("Content-Type", "application/json"), ("Accept", "application/json")]
        if terms.credential:
            headers.append(("Authorization", f"Bearer {terms.credential}"))
        body = {"model": terms.upstream_model, **prompt.body}
        return WireRequest(PATH, tuple(headers), dumps(body))

    def answer(self, body: bytes, content_type: str) -> Answer:
        value = parsed(body, content_type)
        error = value.get("error")
        if error or not isinstance(value.get("answers"), dict):
            raise from_error_object(error) if error else malformed("no answers", raw=body)
        return Answer(
            message={},
            native_finish="stop",
            logprobs=None,
            usage=_usage(value.get("usage")),
            error=None,
            upstream_id=word(value.get("id")),
            system_fingerprint=None,
            service_tier=None,
            native=Native(KIND, "", body, value),
        )

    def reader(self) -> StreamReader:
        raise malformed("decisions are not streamed")


def without_unprocessable(failure: UpstreamFailure, *, of_questions: bool) -> UpstreamFailure:
    """The failure as callers of decisions are told it: they know no 422, but a 400 where one of
    their questions is blamed (inference reference 6.5). `of_questions` says whether the upstream
    was sent these as they are."""
    if failure.told_status != _UNPROCESSABLE:
        return failure
    if of_questions and _blames_a_question(failure):
        failure.told_status, failure.error_type = 400, "invalid_request"
        return failure
    failure.told_status, failure.error_type = 502, "provider_unavailable"
    failure.message, failure.elsewhere = PROVIDER_RETURNED_ERROR, True
    return failure


def _blames_a_question(failure: UpstreamFailure) -> bool:
    """By a place or in words. Some quote the whole body beside, where questions stand too."""
    raw = failure.raw or ""
    return any(form.search(raw) for form in _BLAMES) or bool(_QUESTION.search(failure.message))


def _usage(reported: Any) -> Any:
    """The counts in the chat format's words."""
    if not isinstance(reported, dict):
        return None
    names = {"input_tokens": "prompt_tokens", "output_tokens": "completion_tokens"}
    return {chat: reported.get(name, reported.get(chat)) for name, chat in names.items()}


DECISIONS: Final[Wire] = Decisions()
