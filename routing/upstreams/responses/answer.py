"""Whole answers of the responses API, with the errors and usage that streams share."""

from typing import Final

from gateway.http.jsonio import JsonObject
from routing.entities.exchange import Answer, Event, Native
from routing.upstreams.base import parse_answer, read_word
from routing.upstreams.failures import from_error_object, malformed_answer
from routing.upstreams.responses.output import Output

# --- Errors inside a 200 --------------------------------------------------------------------------

# Codes that stand for an HTTP status; the others speak for themselves.
_STATUS_OF: Final[dict[str, int]] = {
    "invalid_prompt": 400,
    "invalid_request": 400,
    "invalid_request_error": 400,
    "rate_limit_exceeded": 429,
    "rate_limit_error": 429,
    "insufficient_quota": 429,
    "timeout": 524,
    "server_is_overloaded": 503,
    "slow_down": 503,
    "provider_overloaded": 503,
}
# Other names for codes that are known.
_ALSO_CALLED: Final = {"image_content_policy_violation": "content_policy_violation"}
# What a gateway's own code says more exactly in a field beside it.
_VAGUE: Final = (None, "server_error", "invalid_prompt")


def build_error(value: object, error_type: object = None) -> JsonObject:
    """The error object of a failure. `value` is what was said where an error belongs, and
    `error_type` the more exact word that gateways put beside it."""
    error = value if isinstance(value, dict) else {}
    code = error.get("code")
    if code in _VAGUE and isinstance(error_type, str):
        code = error_type
    if code is None:
        code = error.get("type")
    message = error.get("message") or (value if isinstance(value, str) else None)
    if not isinstance(message, str):
        message = "the upstream failed the response"
    if isinstance(code, str):
        code = _STATUS_OF.get(code) or _ALSO_CALLED.get(code, code)
    elif type(code) is not int:
        code = None
    return {"code": code, "message": message}


# --- Usage ----------------------------------------------------------------------------------------

_NAMES: Final = (
    ("input_tokens", "prompt_tokens"),
    ("output_tokens", "completion_tokens"),
    ("total_tokens", "total_tokens"),
)
_DETAILS: Final = (
    (
        "input_tokens_details",
        "prompt_tokens_details",
        ("cached_tokens", "cache_write_tokens", "audio_tokens", "video_tokens"),
    ),
    (
        "output_tokens_details",
        "completion_tokens_details",
        (
            *("reasoning_tokens", "audio_tokens", "image_tokens"),
            *("accepted_prediction_tokens", "rejected_prediction_tokens"),
        ),
    ),
)


def build_chat_usage(usage: object, *, searches: int = 0) -> JsonObject | None:
    """None where there is none. The counts themselves are not judged here. `searches` are the web
    searches that the upstream made, which its usage does not count."""
    if not isinstance(usage, dict):
        return None
    report = {
        chat_name: usage[api_name]
        for api_name, chat_name in _NAMES
        if usage.get(api_name) is not None
    }
    for api_name, chat_name, names in _DETAILS:
        details = usage.get(api_name)
        if isinstance(details, dict):
            report[chat_name] = {
                name: details[name] for name in names if details.get(name) is not None
            }
    if searches:
        report["server_tool_use_details"] = {"web_search_requests": searches}
    return report


# --- Answers --------------------------------------------------------------------------------------

KIND: Final = "responses"
_BROKEN: Final = ("failed", "cancelled", "queued", "in_progress")
CALLS: Final = ("function_call", "custom_tool_call")


def read_answer(body: bytes, content_type: str) -> Answer:
    """Read a whole answer. Raises `UpstreamFailure` where there is none in it."""
    value = parse_answer(body, content_type)
    items = value.get("output")
    if not isinstance(items, list):
        if error := read_failure(value):
            raise from_error_object(error)
        raise malformed_answer("no output", raw=body)
    event = Event()
    output = Output()
    output.finish(event, items)
    message = {"role": "assistant", "content": None, **event.delta}
    for call in message.get("tool_calls", ()):
        del call["index"]
    return Answer(
        message=message,
        native_finish=read_finish(value),
        logprobs=event.logprobs,
        usage=build_chat_usage(value.get("usage"), searches=output.searches),
        error=read_failure(value),
        upstream_id=read_word(value.get("id")),
        system_fingerprint=None,
        service_tier=read_word(value.get("service_tier")),
        native=Native(KIND, "", body, value),
    )


def read_finish(response: JsonObject) -> str | None:
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


def read_failure(response: JsonObject) -> JsonObject | None:
    """The error of a response that failed or was left unfinished."""
    error, status = response.get("error"), response.get("status")
    if error:
        return build_error(error, response.get("error_type"))
    if status in _BROKEN:
        return build_error(f"the response ended as {status}", response.get("error_type"))
    return None
