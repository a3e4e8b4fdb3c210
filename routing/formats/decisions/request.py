"""A decisions body, checked and read."""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

from gateway.http.validation import issues_of
from routing.decisions.question import YES_NO, Question, text_of
from routing.formats.chat.request import (
    ChatInvalid,
    ChatRequest,
    header_issues,
    translated_request,
)
from routing.formats.decisions.schema import check_decisions

_AS_THEY_ARE: Final = ("model", "session_id", "trace", "user")


def parse_decisions(
    body: dict[str, Any],
    *,
    session_header: str | None,
    beside: dict[str, Any] | None = None,
) -> ChatRequest:
    """Check a parsed body and the `x-session-id` header. Raises `ChatInvalid`.

    The request's own body tells what is judged as a conversation, for whatever looks at texts; what
    upstreams are asked is made of `original`. `beside` are further models.
    """
    try:
        body, checked = check_decisions(body)
    except ValidationError as error:
        raise ChatInvalid(issues_of(error) + header_issues(session_header)) from None
    if issues := header_issues(session_header):
        raise ChatInvalid(issues)
    chat: dict[str, Any] = {name: body[name] for name in _AS_THEY_ARE if name in body}
    chat |= {"provider": checked.get("provider"), "messages": messages_of(body), **(beside or {})}
    request = translated_request(
        chat, session_header=session_header, format="decisions", original=body
    )
    # What comes out is no text that a model would have to be made for.
    request.output_modalities = frozenset()
    # No prompt has more than one question, or more than its provider can take.
    request.prompt_text_chars = _longest_chars(body)
    return request


def _longest_chars(body: Mapping[str, Any]) -> int:
    """Of the state and the longest question."""
    return len(text_of(body["state"])) + max(map(len, map(text_of, body["questions"].values())))


def messages_of(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """State and questions as a conversation."""
    told = (body["state"], body["questions"])
    return [{"role": "user", "content": text_of(each)} for each in told]


def questions_of(body: Mapping[str, Any]) -> dict[str, Question]:
    """The questions of a checked body, in order."""
    return {name: _question(each) for name, each in body["questions"].items()}


def _question(said: Mapping[str, Any]) -> Question:
    kind, instructions = said["type"], said["instructions"]
    criteria: Any = said.get("criteria")
    if kind == "choice":
        return Question(kind, instructions, tuple(criteria), tuple(criteria.values()))
    if kind == "score":
        return Question(kind, instructions, tuple(map(str, range(len(criteria)))), tuple(criteria))
    described = (criteria["true"], criteria["false"]) if criteria else (None, None)
    return Question(kind, instructions, YES_NO, described)
