"""Content filters over what server tools come to: models read it as they read what callers send."""

from collections.abc import Sequence
from dataclasses import replace

from gateway.http.errors import GatewayError
from routing.formats.chat.facts import utf8_bytes
from routing.formats.chat.request import ChatRequest
from routing.guarding.filters import filtered
from routing.serving.request.call import Call
from routing.tools.calls import failed_result
from routing.tools.interface import Result

_KEPT_BACK = "A content filter kept the result back"


def guarded_results(call: Call, results: Sequence[Result]) -> list[Result]:
    """The results after the filters of the caller's guardrails. In place of one that is blocked, or
    that cannot be looked at, the model is told so; what it cost stays."""
    guard = call.caller.guard
    if guard is None or not guard.filters:
        return list(results)
    return [_guarded(call, result) for result in results]


def _guarded(call: Call, result: Result) -> Result:
    caller = call.caller
    assert caller.guard is not None
    try:
        chat, stages, refusal = filtered(
            _as_request(call.chat, result.text), caller.guard.filters, caller.account_id
        )
    except GatewayError:
        return _kept_back(result)
    call.root.stages += stages
    if refusal is not None:
        return _kept_back(result)
    return replace(result, text=chat.body["messages"][0]["content"])


def _as_request(chat: ChatRequest, text: str) -> ChatRequest:
    """A request of that text alone, said by a tool."""
    return replace(
        chat,
        body={"messages": [{"role": "tool", "tool_call_id": "", "content": text}]},
        original=None,
        text_bytes=utf8_bytes(text),
        message_count=1,
        media_parts=0,
    )


def _kept_back(result: Result) -> Result:
    told = failed_result(_KEPT_BACK)
    told.cost_nano, told.web_searches = result.cost_nano, result.web_searches
    return told
