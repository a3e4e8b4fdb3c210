"""Whole answers of the messages API."""

from typing import Any, Final

from routing.entities.exchange import Answer, Native
from routing.upstreams.anthropic.errors import coded
from routing.upstreams.anthropic.exact import exactly
from routing.upstreams.anthropic.output import (
    annotation,
    arguments_of,
    called,
    detail,
    refusal_of,
)
from routing.upstreams.anthropic.usage import Tally, tier_of
from routing.upstreams.failures import UpstreamFailure, from_error_object, malformed
from routing.upstreams.openai import word
from routing.upstreams.payloads import parsed_answer

KIND: Final = "anthropic"


def read_answer(body: bytes, content_type: str) -> Answer:
    """Read a whole answer. Raises `UpstreamFailure` where there is none in it."""
    value = _parsed(body, content_type)
    blocks = value.get("content")
    if value.get("type") == "error" or not isinstance(blocks, list):
        raise _no_answer(value, body)
    usage = value.get("usage")
    tally = Tally()
    tally.add(usage)
    stop_reason = word(value.get("stop_reason"))
    message = _message([block for block in blocks if isinstance(block, dict)])
    _put_refusal(message, stop_reason, value.get("stop_details"))
    return Answer(
        message=message,
        native_finish=stop_reason,
        logprobs=None,
        usage=tally.report(),
        error=coded(value["error"]) if value.get("error") else None,
        upstream_id=word(value.get("id")),
        system_fingerprint=None,
        service_tier=tier_of(usage),
        stop_sequence=word(value.get("stop_sequence")),
        native=Native(KIND, "", body, value),
    )


def _parsed(body: bytes, content_type: str) -> dict[str, Any]:
    value = parsed_answer(body, content_type)
    try:
        exact: dict[str, Any] = exactly(value, body)
    except ValueError:
        raise malformed("the answer nests too deeply", raw=body) from None
    return exact


def _no_answer(value: dict[str, Any], body: bytes) -> UpstreamFailure:
    error = value.get("error")
    return from_error_object(coded(error)) if error else malformed("no content", raw=body)


def _message(blocks: list[dict[str, Any]]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None}
    _put_text(message, [block for block in blocks if block.get("type") == "text"])
    _put_reasoning(message, blocks)
    calls = [
        called(block, arguments_of(block.get("input")))
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    if calls:
        message["tool_calls"] = calls
    return message


def _put_text(message: dict[str, Any], blocks: list[dict[str, Any]]) -> None:
    """One content, with the web citations of every block over the block's own characters."""
    texts: list[str] = []
    annotations: list[dict[str, Any]] = []
    start = 0
    for block in blocks:
        text = block.get("text")
        if not isinstance(text, str):
            continue
        texts.append(text)
        end = start + len(text)
        citations = block.get("citations")
        for citation in citations if isinstance(citations, list) else ():
            if (made := annotation(citation, start, end)) is not None:
                annotations.append(made)
        start = end
    if texts:
        message["content"] = "".join(texts)
    if annotations:
        message["annotations"] = annotations


def _put_reasoning(message: dict[str, Any], blocks: list[dict[str, Any]]) -> None:
    kinds = ("thinking", "redacted_thinking")
    told = [block for block in blocks if block.get("type") in kinds]
    details = [_detail(block, index) for index, block in enumerate(told)]
    if details:
        message["reasoning_details"] = details
    if text := "".join(item.get("text", "") for item in details):
        message["reasoning"] = text


def _detail(block: dict[str, Any], index: int) -> dict[str, Any]:
    if block["type"] == "redacted_thinking":
        return detail("reasoning.encrypted", index, data=_text(block.get("data")))
    fields = {"text": _text(block.get("thinking"))}
    if signature := _text(block.get("signature")):
        fields["signature"] = signature
    return detail("reasoning.text", index, **fields)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _put_refusal(message: dict[str, Any], stop_reason: str | None, details: Any) -> None:
    """A refusal is the model's explanation, or what it said instead of an answer."""
    if stop_reason != "refusal":
        return
    refusal = refusal_of(stop_reason, details)
    if refusal is None and message["content"]:
        refusal, message["content"] = message["content"], None
    if refusal:
        message["refusal"] = refusal
