"""Whole answers of the responses API, and what they share with the end of a stream."""

from typing import Any, Final

from routing.entities.exchange import Answer, Event, Native
from routing.upstreams.failures import UpstreamFailure, from_error_object, malformed
from routing.upstreams.openai import word
from routing.upstreams.payloads import parsed_answer
from routing.upstreams.responses.errors import error_of
from routing.upstreams.responses.output import Output
from routing.upstreams.responses.usage import chat_usage

KIND: Final = "responses"
_BROKEN: Final = ("failed", "cancelled", "queued", "in_progress")
CALLS: Final = ("function_call", "custom_tool_call")


def read_answer(body: bytes, content_type: str) -> Answer:
    """Read a whole answer. Raises `UpstreamFailure` where there is none in it."""
    value = parsed_answer(body, content_type)
    items = value.get("output")
    if not isinstance(items, list):
        raise _no_answer(value, body)
    event = Event()
    output = Output()
    output.finish(event, items)
    return Answer(
        message=_message(event.delta),
        native_finish=finish_of(value),
        logprobs=event.logprobs,
        usage=chat_usage(value.get("usage"), searches=output.searches),
        error=failure_of(value),
        upstream_id=word(value.get("id")),
        system_fingerprint=None,
        service_tier=word(value.get("service_tier")),
        native=Native(KIND, "", body, value),
    )


def finish_of(response: dict[str, Any]) -> str | None:
    """How the model ended, in words of the chat format; None for a response that failed, or is
    incomplete without saying why."""
    status = response.get("status")
    if status in _BROKEN:
        return None
    if status == "incomplete":
        details = response.get("incomplete_details")
        reason = details.get("reason") if isinstance(details, dict) else None
        if not isinstance(reason, str):
            return None
        return "content_filter" if reason == "content_filter" else "length"
    items = response.get("output")
    called = any(
        isinstance(item, dict) and item.get("type") in CALLS
        for item in (items if isinstance(items, list) else ())
    )
    return "tool_calls" if called else "stop"


def failure_of(response: dict[str, Any]) -> dict[str, Any] | None:
    """The error of a response that failed or was left unfinished."""
    error, status = response.get("error"), response.get("status")
    if error:
        return error_of(error, response.get("error_type"))
    if status in _BROKEN:
        return error_of(f"the response ended as {status}", response.get("error_type"))
    return None


def _no_answer(value: dict[str, Any], body: bytes) -> UpstreamFailure:
    error = failure_of(value)
    return from_error_object(error) if error else malformed("no output", raw=body)


def _message(delta: dict[str, Any]) -> dict[str, Any]:
    """Everything that was said, in one message."""
    message = {"role": "assistant", "content": None, **delta}
    for call in message.get("tool_calls", ()):
        del call["index"]
    return message
