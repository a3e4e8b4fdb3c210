"""Writes the response object: its status, usage, errors and ids."""

import time
from binascii import b2a_base64
from hashlib import sha256
from typing import Final, NamedTuple

from gateway.http.jsonio import JsonObject
from routing.entities.exchange import Native
from routing.formats.caller import AnswerIdentity, Ending
from routing.formats.chat.request import ChatRequest

_INCOMPLETE_REASONS: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}
# Fields of the caller's that an upstream gets without, or with another value.
_CALLER_FIELDS: Final = (
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "previous_response_id",
    "store",
    "background",
    "truncation",
    "user",
    "safety_identifier",
    "prompt_cache_key",
)
_UNEXPLAINED_FAILURE: Final = {
    "message": "The model ended its answer with an error",
    "metadata": {},
}


_IN_PROGRESS: Final = {
    "completed_at": None,
    "status": "in_progress",
    "error": None,
    "incomplete_details": None,
}


class ResponseStatus(NamedTuple):
    """How a response ended. `failure` has message and metadata."""

    status: str
    reason: str | None = None
    failure: JsonObject | None = None

    @property
    def is_cut(self) -> bool:
        return self.status != "completed"

    def fields(self) -> JsonObject:
        fields: JsonObject = {
            "completed_at": None if self.is_cut else int(time.time()),
            "status": self.status,
            "error": build_error(self.failure) if self.failure else None,
            "incomplete_details": {"reason": self.reason} if self.reason else None,
        }
        if self.failure:
            fields["error_type"] = read_error_type(self.failure)
        return fields


def judge_ending(ending: Ending, *, has_output: bool) -> ResponseStatus:
    """Status by finish reason; a limit met half-way is no failure."""
    if ending.failure is not None:
        if ends_incomplete(read_error_type(ending.failure), has_output=has_output):
            return ResponseStatus("incomplete", "max_output_tokens")
        return ResponseStatus("failed", failure=ending.failure)
    if ending.finish_reason == "error":
        metadata = {"error_type": "provider_unavailable"}
        return ResponseStatus("failed", failure={**_UNEXPLAINED_FAILURE, "metadata": metadata})
    reason = _INCOMPLETE_REASONS.get(ending.finish_reason)
    return ResponseStatus("incomplete", reason) if reason else ResponseStatus("completed")


def build_response(
    served: AnswerIdentity,
    request: ChatRequest,
    stem: str,
    *,
    verdict: ResponseStatus | None = None,
    output: list[JsonObject] | None = None,
    usage: JsonObject | None = None,
    service_tier: str | None = None,
    router_metadata: JsonObject | None = None,
) -> JsonObject:
    """The whole object; without a `verdict` the response is in progress. `usage` is the chat-shaped
    report."""
    value: JsonObject = {
        "id": response_id(stem),
        "object": "response",
        "created_at": served.created,
        **(_IN_PROGRESS if verdict is None else verdict.fields()),
        "model": served.model,
        "output": output or [],
        "output_text": _join_texts(output),
        **build_echo(request),
        "usage": build_usage(usage) if usage else None,
    }
    if service_tier is not None:
        value["service_tier"] = service_tier
    if router_metadata is not None:
        value["router_metadata"] = router_metadata
    return value


def build_native_response(
    native: Native, served: AnswerIdentity, request: ChatRequest, stem: str, ending: Ending
) -> JsonObject:
    """The upstream's own last object with the gateway's fields in it; unknown ones stay."""
    own, inner = native.value, native.value.get("response")
    if own.get("object") != "response" and isinstance(inner, dict):
        # A terminal event holds the object that a whole answer is.
        own = inner
    response = _fill_response(own, request)
    value = response | _gateway_fields(served, request, stem)
    usage = build_usage(ending.usage)
    value["usage"] = usage
    if isinstance(theirs := response.get("usage"), dict):
        # What was counted and charged takes the place of the upstream's own counts.
        value["usage"] = {**theirs, **usage}
        for name in ("input_tokens_details", "output_tokens_details"):
            if isinstance(theirs.get(name), dict):
                value["usage"][name] = {**theirs[name], **usage[name]}
    value["output_text"] = _join_texts(response.get("output"))
    if ending.failure is not None:
        value |= judge_ending(ending, has_output=bool(response.get("output"))).fields()
    if "completed_at" not in value:
        is_complete = value.get("status") == "completed"
        value["completed_at"] = int(time.time()) if is_complete else None
    if ending.router_metadata is not None:
        value["router_metadata"] = ending.router_metadata
    return value


def build_native_progress(
    response: JsonObject, served: AnswerIdentity, request: ChatRequest, stem: str
) -> JsonObject:
    """The upstream's own object at the beginning of a stream."""
    return _fill_response(response, request) | _gateway_fields(served, request, stem)


def _fill_response(response: JsonObject, request: ChatRequest) -> JsonObject:
    """The upstream's object with the fields it left out, which callers may rely on."""
    defaults = {"error": None, "incomplete_details": None, **build_echo(request)}
    return response | {name: value for name, value in defaults.items() if name not in response}


def build_echo(request: ChatRequest) -> JsonObject:
    """What the caller asked for, every field there."""
    original = request.original or {}
    same = {name: original.get(name) for name in _ECHOED_FIELDS}
    return {
        **same,
        "tools": original.get("tools", []),
        "tool_choice": original.get("tool_choice", "auto"),
        "parallel_tool_calls": original.get("parallel_tool_calls") is not False,
        "text": {"format": {"type": "text"}, **original.get("text", {})},
        "truncation": original.get("truncation") or "disabled",
        "previous_response_id": None,
        "store": False,
        "background": False,
        "service_tier": request.service_tier or "auto",
    }


_ECHOED_FIELDS: Final = (
    "instructions",
    "metadata",
    "temperature",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "max_output_tokens",
    "max_tool_calls",
    "top_logprobs",
    "reasoning",
    "user",
    "safety_identifier",
    "prompt_cache_key",
)


def _gateway_fields(served: AnswerIdentity, request: ChatRequest, stem: str) -> JsonObject:
    echo = build_echo(request)
    caller_fields = {name: echo[name] for name in _CALLER_FIELDS}
    return {"id": response_id(stem), "model": served.model, **caller_fields}


def _join_texts(output: object) -> str:
    """The texts of an upstream's own output items, joined; what is no item has none."""
    items = [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
    contents = [item.get("content") for item in items if item.get("type") == "message"]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "".join(text for text in texts if isinstance(text, str))


_COSTS: Final = {
    "upstream_inference_cost": "upstream_inference_cost",
    "upstream_inference_input_cost": "upstream_inference_prompt_cost",
    "upstream_inference_output_cost": "upstream_inference_completions_cost",
}


def build_usage(report: JsonObject) -> JsonObject:
    """The chat-shaped report in this format's words; money is copied as it is."""
    prompt = report.get("prompt_tokens_details") or {}
    completion = report.get("completion_tokens_details") or {}
    costs = report.get("cost_details")
    if costs is not None:
        costs = {name: costs.get(theirs) for name, theirs in _COSTS.items()}
    # Official clients insist on all three counts among the details.
    usage = {
        "input_tokens": report["prompt_tokens"],
        "input_tokens_details": {
            "cached_tokens": prompt.get("cached_tokens") or 0,
            "cache_write_tokens": prompt.get("cache_write_tokens") or 0,
        },
        "output_tokens": report["completion_tokens"],
        "output_tokens_details": {"reasoning_tokens": completion.get("reasoning_tokens") or 0},
        "total_tokens": report["total_tokens"],
        "cost": report.get("cost"),
        "cost_details": costs,
        "is_byok": report.get("is_byok", False),
    }
    if "server_tool_use_details" in report:
        usage["server_tool_use_details"] = report["server_tool_use_details"]
    return usage


# Limits that an upstream met while it answered: what exists by then is an answer cut short.
LIMITS: Final = frozenset(
    {"context_length_exceeded", "max_tokens_exceeded", "token_limit_exceeded", "string_too_long"}
)
_ERROR_CODES: Final = {
    "rate_limit_exceeded": "rate_limit_exceeded",
    "context_length_exceeded": "invalid_prompt",
    "invalid_request": "invalid_prompt",
    "refusal": "invalid_prompt",
    "content_policy_violation": "image_content_policy_violation",
}


def ends_incomplete(error_type: str | None, *, has_output: bool) -> bool:
    """Whether this failure is delivered as a finished response (`incomplete`, for want of output
    tokens) rather than as an error. So it is for a limit that was met after some output."""
    return has_output and error_type in LIMITS


def read_error_type(failure: JsonObject) -> str:
    """`failure` has code, message and metadata."""
    error_type: str = (failure.get("metadata") or {}).get("error_type", "server")
    return error_type


def build_error(failure: JsonObject) -> dict[str, str]:
    """`error` of a failed response."""
    code = _ERROR_CODES.get(read_error_type(failure), "server_error")
    return {"code": code, "message": failure["message"]}


_STEM_CHARS: Final = 32
_LETTERS_ONLY: Final = bytes.maketrans(b"+/", b"aZ")


def derive_stem(generation_id: str) -> str:
    """32 alphanumerics that belong to this generation."""
    digest = b2a_base64(sha256(generation_id.encode()).digest(), newline=False)
    return digest.translate(_LETTERS_ONLY)[:_STEM_CHARS].decode()


def response_id(stem: str) -> str:
    return f"resp_{stem}"


def item_id(prefix: str, stem: str, output_index: int) -> str:
    """`msg_...`, `rs_...`, `fc_...` or `ig_...`."""
    return f"{prefix}_{stem}_{output_index}"
