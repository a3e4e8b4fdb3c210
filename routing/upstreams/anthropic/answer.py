"""Whole answers of the messages API in the shape of chat, and the pieces that streams share."""

from typing import Any, Final

from gateway.http.jsonio import JsonObject, dumps
from routing.entities.exchange import Answer, Native
from routing.upstreams.anthropic.usage import UsageCounter, read_tier
from routing.upstreams.base import parse_answer, read_word, restore_long_integers
from routing.upstreams.failures import from_error_object, malformed_answer

_STATUSES: Final = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}


def put_status_code(error: object) -> Any:
    """The error object with the HTTP status that its `type` stands for as its `code`."""
    if not isinstance(error, dict):
        return error or {}
    kind = error.get("type")
    status = _STATUSES.get(kind) if isinstance(kind, str) else None
    return {**error, "code": status} if status and error.get("code") is None else error


REASONING_FORMAT: Final = "anthropic-claude-v1"


def build_reasoning_detail(kind: str, index: int, **fields: str) -> JsonObject:
    """A `reasoning_details` item; the pieces of one block share `index`, the block's place among
    the reasoning blocks of its answer."""
    return {"type": kind, **fields, "index": index, "format": REASONING_FORMAT, "id": None}


def arguments_text(arguments: object) -> str:
    """A tool's input as compact JSON text; some providers give it as text already."""
    text = (
        arguments if arguments is None or isinstance(arguments, str) else dumps(arguments).decode()
    )
    return text or "{}"


def build_tool_call(block: JsonObject, arguments: str) -> JsonObject:
    """The chat call of a `tool_use` block."""
    function = {"name": read_word(block.get("name")) or "", "arguments": arguments}
    return {"id": read_word(block.get("id")) or None, "type": "function", "function": function}


def build_citation(citation: object, start: int, end: int) -> JsonObject | None:
    """The `url_citation` of a citation that names a URL, for the characters from `start` to `end`
    of the content. The other kinds point into documents, which chat annotations cannot."""
    if not isinstance(citation, dict):
        return None
    source = read_word(citation.get("source")) or ""
    web_source = source if source.startswith(("https://", "http://")) else None
    url = read_word(citation.get("url")) or web_source
    if not url:
        return None
    cited = {"url": url, "title": read_word(citation.get("title")) or ""}
    if content := read_word(citation.get("cited_text")):
        cited["content"] = content
    return {
        "type": "url_citation",
        "url_citation": {**cited, "start_index": start, "end_index": end},
    }


def read_refusal(stop_reason: object, details: object) -> str | None:
    """Why the model refused, where it said so."""
    if stop_reason != "refusal" or not isinstance(details, dict):
        return None
    return read_word(details.get("explanation")) or None


# --- Whole answers --------------------------------------------------------------------------------

KIND: Final = "anthropic"


def read_answer(body: bytes, content_type: str) -> Answer:
    """Read a whole answer. Raises `UpstreamFailure` where there is none in it."""
    parsed = parse_answer(body, content_type)
    try:
        value: JsonObject = restore_long_integers(parsed, body)
    except ValueError:
        raise malformed_answer("the answer nests too deeply", raw=body) from None
    blocks = value.get("content")
    if value.get("type") == "error" or not isinstance(blocks, list):
        if error := value.get("error"):
            raise from_error_object(put_status_code(error))
        raise malformed_answer("no content", raw=body)
    usage = value.get("usage")
    counter = UsageCounter()
    counter.add(usage)
    stop_reason = read_word(value.get("stop_reason"))
    message = _build_message([block for block in blocks if isinstance(block, dict)])
    _put_refusal(message, stop_reason, value.get("stop_details"))
    return Answer(
        message=message,
        native_finish=stop_reason,
        logprobs=None,
        usage=counter.report(),
        error=put_status_code(value["error"]) if value.get("error") else None,
        upstream_id=read_word(value.get("id")),
        system_fingerprint=None,
        service_tier=read_tier(usage),
        stop_sequence=read_word(value.get("stop_sequence")),
        native=Native(KIND, "", body, value),
    )


def _build_message(blocks: list[JsonObject]) -> JsonObject:
    message: JsonObject = {"role": "assistant", "content": None}
    _put_text(message, [block for block in blocks if block.get("type") == "text"])
    details: list[JsonObject] = []
    for block in blocks:
        if block.get("type") == "redacted_thinking":
            data = _read_text(block.get("data"))
            details.append(build_reasoning_detail("reasoning.encrypted", len(details), data=data))
        elif block.get("type") == "thinking":
            fields = {"text": _read_text(block.get("thinking"))}
            if signature := _read_text(block.get("signature")):
                fields["signature"] = signature
            details.append(build_reasoning_detail("reasoning.text", len(details), **fields))
    if details:
        message["reasoning_details"] = details
    if text := "".join(item.get("text", "") for item in details):
        message["reasoning"] = text
    calls = [
        build_tool_call(block, arguments_text(block.get("input")))
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    if calls:
        message["tool_calls"] = calls
    return message


def _put_text(message: JsonObject, blocks: list[JsonObject]) -> None:
    """One content, with the web citations of every block over the block's own characters."""
    texts: list[str] = []
    annotations: list[JsonObject] = []
    start = 0
    for block in blocks:
        text = block.get("text")
        if not isinstance(text, str):
            continue
        texts.append(text)
        end = start + len(text)
        citations = block.get("citations")
        for citation in citations if isinstance(citations, list) else ():
            if (annotation := build_citation(citation, start, end)) is not None:
                annotations.append(annotation)
        start = end
    if texts:
        message["content"] = "".join(texts)
    if annotations:
        message["annotations"] = annotations


def _read_text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _put_refusal(message: JsonObject, stop_reason: str | None, details: object) -> None:
    """A refusal is the model's explanation, or what it said instead of an answer."""
    if stop_reason != "refusal":
        return
    refusal = read_refusal(stop_reason, details)
    if refusal is None and message["content"]:
        refusal, message["content"] = message["content"], None
    if refusal:
        message["refusal"] = refusal
