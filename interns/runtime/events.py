"""A runtime's events, read with suspicion: whatever runs there may have been talked into more."""

from typing import Annotated, Any, Final, Literal

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from gateway.http.errors import MalformedJson
from gateway.http.jsonio import JsonObject, loads
from interns.runtime.driver import (
    EndEvent,
    InternUsage,
    ModelNameEvent,
    QuestionEvent,
    RunEvent,
    TextEvent,
)
from interns.runtime.questions import InvalidQuestion, read_question
from routing.formats.fields import REQUIRED, Amount, Tagged

_FAILURES: Final = frozenset({"turn_failed", "timeout", "run_ended"})
_MESSAGE_CHARS_MAX: Final = 500
_Tokens = Annotated[int, Field(ge=0, le=2**53)]


class BadEvent(Exception):
    """Not an event as the protocol has them."""


class _Model(TypedDict, total=False):
    type: Annotated[Literal["model"], REQUIRED]
    model: Annotated[str, Field(min_length=1, max_length=256), REQUIRED]


class _Piece(TypedDict, total=False):
    type: Annotated[Literal["content", "reasoning"], REQUIRED]
    text: Annotated[str, REQUIRED]


class _Question(TypedDict, total=False):
    type: Annotated[Literal["question"], REQUIRED]
    id: Annotated[Any, REQUIRED]
    question: Annotated[Any, REQUIRED]


class _CachedTokens(TypedDict, total=False):
    cached_tokens: _Tokens


class _Usage(TypedDict, total=False):
    prompt_tokens: Annotated[_Tokens, REQUIRED]
    completion_tokens: Annotated[_Tokens, REQUIRED]
    total_tokens: Annotated[_Tokens, REQUIRED]
    cost: Amount
    prompt_tokens_details: _CachedTokens


class _End(TypedDict, total=False):
    type: Annotated[Literal["end"], REQUIRED]
    usage: _Usage | None


class _Failed(TypedDict, total=False):
    type: Annotated[Literal["failed"], REQUIRED]
    reason: Annotated[str, REQUIRED]
    message: str
    retryable: bool
    usage: _Usage | None


_Event = Annotated[_Model | _Piece | _Question | _End | _Failed, Tagged("type")]
_check: Final = TypeAdapter[Any](_Event).validator.validate_python
_KNOWN: Final = frozenset({"model", "content", "reasoning", "question", "end", "failed"})


def read_event(payload: bytes) -> RunEvent | None:
    """One event; None for a kind that chats have no use for. Raises `BadEvent`."""
    try:
        event = loads(payload)
    except MalformedJson as error:
        raise BadEvent("no JSON") from error
    kind = event.get("type") if isinstance(event, dict) else None
    if not isinstance(kind, str):
        raise BadEvent("no type")
    if kind not in _KNOWN:
        return None
    try:
        _check(event, strict=True)
    except ValidationError as error:
        raise BadEvent(f"{kind}: {error.error_count()} failures") from error
    return _build_event(kind, event)


def is_last(event: RunEvent) -> bool:
    """Whether nothing follows it on its stream."""
    return isinstance(event, QuestionEvent | EndEvent)


def _build_event(kind: str, event: JsonObject) -> RunEvent:
    if kind in ("content", "reasoning"):
        return TextEvent(event["text"], reasoning=kind == "reasoning")
    if kind == "model":
        return ModelNameEvent(event["model"])
    if kind == "question":
        try:
            asked = read_question(event["id"], event["question"])
        except InvalidQuestion as error:
            raise BadEvent(f"question: {error}") from error
        return QuestionEvent(asked.tool_call_id, asked.question["kind"], asked.question)
    usage = _build_usage(event.get("usage"))
    if kind == "end":
        return EndEvent(usage=usage)
    reason = event["reason"] if event["reason"] in _FAILURES else "turn_failed"
    message = event.get("message", "")[:_MESSAGE_CHARS_MAX]
    return EndEvent(reason, message, retryable=event.get("retryable", False), usage=usage)


def _build_usage(usage: JsonObject | None) -> InternUsage | None:
    """Only what is described of it."""
    if usage is None:
        return None
    described: InternUsage = {
        "prompt_tokens": usage["prompt_tokens"],
        "completion_tokens": usage["completion_tokens"],
        "total_tokens": usage["total_tokens"],
    }
    if "cost" in usage:
        described["cost"] = usage["cost"]
    cached = usage.get("prompt_tokens_details", {}).get("cached_tokens")
    if cached is not None:
        described["prompt_tokens_details"] = {"cached_tokens": cached}
    return described
