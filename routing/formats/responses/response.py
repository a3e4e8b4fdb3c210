"""The response object (inference reference 5.4)."""

import time
from typing import Any, Final, NamedTuple

from routing.entities.exchange import Native
from routing.formats.caller import Ending
from routing.formats.chat.answer import Served
from routing.formats.chat.request import ChatRequest
from routing.formats.responses.failures import ends_incomplete, error_type_of, response_error
from routing.formats.responses.ids import response_id
from routing.formats.responses.usage import merged_usage, response_usage

_INCOMPLETE: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}
# Fields of the caller's that an upstream is not told, or is told another value of.
_KEPT_FROM_UPSTREAM: Final = (
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
_NO_WORDS: Final = {"message": "The model ended its answer with an error", "metadata": {}}


class Verdict(NamedTuple):
    """How a response ended. `failure` has message and metadata."""

    status: str
    reason: str | None = None
    failure: dict[str, Any] | None = None

    @property
    def is_cut(self) -> bool:
        return self.status != "completed"

    def fields(self) -> dict[str, Any]:
        said: dict[str, Any] = {
            "completed_at": None if self.is_cut else int(time.time()),
            "status": self.status,
            "error": response_error(self.failure) if self.failure else None,
            "incomplete_details": {"reason": self.reason} if self.reason else None,
        }
        if self.failure:
            said["error_type"] = error_type_of(self.failure)
        return said


def verdict_of(ending: Ending, *, has_output: bool) -> Verdict:
    """Status by finish reason (inference reference 11); a limit met half-way is no failure."""
    if ending.failure is not None:
        if ends_incomplete(error_type_of(ending.failure), has_output=has_output):
            return Verdict("incomplete", "max_output_tokens")
        return Verdict("failed", failure=ending.failure)
    if ending.finish_reason == "error":
        metadata = {"error_type": "provider_unavailable"}
        return Verdict("failed", failure={**_NO_WORDS, "metadata": metadata})
    reason = _INCOMPLETE.get(ending.finish_reason)
    return Verdict("incomplete", reason) if reason else Verdict("completed")


def response_object(
    served: Served,
    request: ChatRequest,
    stem: str,
    *,
    verdict: Verdict | None = None,
    output: list[dict[str, Any]] | None = None,
    usage: dict[str, Any] | None = None,
    service_tier: str | None = None,
    router_metadata: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The whole object; without a `verdict` the response is in progress. `usage` is the chat-shaped
    report."""
    value: dict[str, Any] = {
        "id": response_id(stem),
        "object": "response",
        "created_at": served.created,
        **_progress(verdict),
        "model": served.model,
        "output": output or [],
        "output_text": _texts(output),
        **echoes(request),
        "usage": response_usage(usage) if usage else None,
    }
    if service_tier is not None:
        value["service_tier"] = service_tier
    if router_metadata is not None:
        value["router_metadata"] = router_metadata
    return value


def native_response(
    native: Native, served: Served, request: ChatRequest, stem: str, ending: Ending
) -> dict[str, Any]:
    """The upstream's own last object with the gateway's fields in it; unknown ones stay."""
    own = _completed(response_in(native), request)
    value = own | _owned(served, request, stem)
    usage = response_usage(ending.usage)
    value["usage"] = merged_usage(own.get("usage"), usage)
    value["output_text"] = _texts(own.get("output"))
    if ending.failure is not None:
        value |= verdict_of(ending, has_output=bool(own.get("output"))).fields()
    value.setdefault("completed_at", _completed_at(value))
    if ending.router_metadata is not None:
        value["router_metadata"] = ending.router_metadata
    return value


def native_progress(
    own: dict[str, Any], served: Served, request: ChatRequest, stem: str
) -> dict[str, Any]:
    """The upstream's own object at the beginning of a stream."""
    return _completed(own, request) | _owned(served, request, stem)


def _completed(own: dict[str, Any], request: ChatRequest) -> dict[str, Any]:
    """The upstream's object with the fields it left out, which callers may rely on."""
    wanted = {"error": None, "incomplete_details": None, **echoes(request)}
    return own | {name: value for name, value in wanted.items() if name not in own}


def response_in(native: Native) -> dict[str, Any]:
    """The response object that a whole answer is, or that a terminal event holds."""
    own, inner = native.value, native.value.get("response")
    return inner if own.get("object") != "response" and isinstance(inner, dict) else own


def echoes(request: ChatRequest) -> dict[str, Any]:
    """What the caller asked for, every field there."""
    asked = request.original or {}
    same = {name: asked.get(name) for name in _ECHOED}
    return {
        **same,
        "tools": asked.get("tools", []),
        "tool_choice": asked.get("tool_choice", "auto"),
        "parallel_tool_calls": asked.get("parallel_tool_calls") is not False,
        "text": {"format": {"type": "text"}, **asked.get("text", {})},
        "truncation": asked.get("truncation") or "disabled",
        "previous_response_id": None,
        "store": False,
        "background": False,
        "service_tier": request.service_tier or "auto",
    }


_ECHOED: Final = (
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


def _progress(verdict: Verdict | None) -> dict[str, Any]:
    if verdict is not None:
        return verdict.fields()
    return {
        "completed_at": None,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
    }


def _owned(served: Served, request: ChatRequest, stem: str) -> dict[str, Any]:
    told = echoes(request)
    kept = {name: told[name] for name in _KEPT_FROM_UPSTREAM}
    return {"id": response_id(stem), "model": served.model, **kept}


def _completed_at(value: dict[str, Any]) -> int | None:
    return int(time.time()) if value.get("status") == "completed" else None


def _texts(output: Any) -> str:
    """The texts of an upstream's own output items, joined; what is no item has none."""
    items = [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
    contents = [item.get("content") for item in items if item.get("type") == "message"]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "".join(text for text in texts if isinstance(text, str))
