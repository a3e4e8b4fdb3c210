"""Endpoints that answer decisions themselves.

Pure: what to send, how to read the answer. Whether each question was answered is not looked at
here.
"""

import re
from collections.abc import Iterable
from typing import Final

from gateway.http.errors import MalformedJson
from gateway.http.jsonio import dumps, loads
from routing.entities.exchange import Answer, Native, Prompt, StreamReader, Terms, Wire, WireRequest
from routing.upstreams.base import BearerWire, parse_answer, read_word
from routing.upstreams.failures import (
    PROVIDER_RETURNED_ERROR,
    UpstreamFailure,
    from_error_object,
    malformed_answer,
)

KIND: Final = "decisions"
PATH: Final = "/systemone"
_UNPROCESSABLE: Final = 422
_QUESTION: Final = re.compile(r"question", re.IGNORECASE)
# Where in a body something is wrong, as validators write it: in pieces, or joined with dots.
_PLACES: Final = re.compile(
    r'"(?:loc|path)"\s*:\s*\[\s*(?:"body"\s*,\s*)?"questions"\s*(?:,\s*("(?:[^"\\]|\\.)*"))?'
)
_PLACE: Final = re.compile(r'"loc"\s*:\s*\[')
_PATHS: Final = re.compile(r'"(?:path|param)"\s*:\s*"questions(?:\.((?:[^"\\]|\\.)*))?"')
_DETAIL: Final = re.compile(r'"detail"\s*:\s*"[^"]*question', re.IGNORECASE)
# The questions that are blamed for a refusal: None among them is all of them together. Empty where
# some question is, and it is not said which.
BlamedQuestions = frozenset[str | None]


class Decisions(BearerWire):
    """See `Wire`. A prompt's body has `state` and `questions`; an answer's `native` is what the
    upstream said."""

    kind = KIND
    takes_budgets = False

    def request(self, prompt: Prompt, terms: Terms) -> WireRequest:
        body = {"model": terms.upstream_model, **prompt.body}
        return WireRequest(PATH, self.headers(terms.credential, stream=False), dumps(body))

    def answer(self, body: bytes, content_type: str) -> Answer:
        value = parse_answer(body, content_type)
        error = value.get("error")
        if error or not isinstance(value.get("answers"), dict):
            raise from_error_object(error) if error else malformed_answer("no answers", raw=body)
        usage = value.get("usage")
        if isinstance(usage, dict):
            # The counts in the chat format's words.
            words = {"input_tokens": "prompt_tokens", "output_tokens": "completion_tokens"}
            usage = {chat: usage.get(name, usage.get(chat)) for name, chat in words.items()}
        else:
            usage = None
        return Answer(
            message={},
            native_finish="stop",
            logprobs=None,
            usage=usage,
            error=None,
            upstream_id=read_word(value.get("id")),
            system_fingerprint=None,
            service_tier=None,
            native=Native(KIND, "", body, value),
        )

    def reader(self) -> StreamReader:
        raise malformed_answer("decisions are not streamed")


def find_blamed_questions(failure: UpstreamFailure, names: Iterable[str]) -> BlamedQuestions | None:
    """Which of these questions an upstream blames, None where it blames something else.

    It does so by a place or in words. Some quote the whole body beside, where questions stand too.
    """
    raw = failure.raw or ""
    places = [_read_json_string(each.group(1)) for each in _PLACES.finditer(raw)]
    paths = []
    for each in _PATHS.finditer(raw):
        path = _read_json_string(f'"{each.group(1) or ""}"')
        # The question that the path begins with: names may have dots in them.
        begun = [name for name in names if path and f"{path}.".startswith(f"{name}.")]
        paths.append(max(begun, key=len, default=path))
    if places or paths:
        return frozenset([*places, *paths])
    if _PLACE.search(raw):
        return None
    in_words = _DETAIL.search(raw) or _QUESTION.search(failure.message)
    return frozenset() if in_words else None


def _read_json_string(quoted: str | None) -> str | None:
    """What a JSON string says; None for nothing."""
    try:
        text = loads(quoted.encode()) if quoted else None
    except MalformedJson:
        return None
    return text if isinstance(text, str) and text else None


def adapt_failure(failure: UpstreamFailure, *, of_caller: bool | None) -> UpstreamFailure:
    """The failure for a caller of decisions, who knows no 422, but a 400 where one of the questions
    is blamed.

    `of_caller` is True where a question of the caller's is blamed. It is False where it is what the
    gateway made of one: the caller can change nothing, and another endpoint may take it. None is
    neither.
    """
    if failure.caller_status == _UNPROCESSABLE and of_caller:
        failure.caller_status, failure.error_type = 400, "invalid_request"
    elif failure.caller_status == _UNPROCESSABLE or (
        # The request was refused, for nothing that has a name of its own.
        of_caller is False
        and (failure.caller_status, failure.error_type) == (400, "invalid_request")
    ):
        failure.caller_status, failure.error_type = 502, "provider_unavailable"
        failure.message, failure.elsewhere = PROVIDER_RETURNED_ERROR, True
    return failure


DECISIONS: Final[Wire] = Decisions()
