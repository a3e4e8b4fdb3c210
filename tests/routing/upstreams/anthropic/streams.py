"""Streams of the messages API, made of a whole answer, and what their events add up to."""

from collections.abc import Iterable
from typing import Any

import orjson

from routing.exchange import Event
from routing.upstreams.anthropic.wire import ANTHROPIC


def read(payloads: Iterable[Any]) -> list[Event]:
    """The events of one stream."""
    reader = ANTHROPIC.reader()
    return [event for payload in payloads for event in reader.events(orjson.dumps(payload))]


def stream_of(answer: dict[str, Any], piece_chars: int = 3) -> list[dict[str, Any]]:
    """The events that say a whole answer, texts in pieces."""
    ending = ("stop_reason", "stop_sequence", "stop_details")
    empty = {**answer, "content": [], **dict.fromkeys(ending)}
    if answer.get("usage"):
        empty["usage"] = {**answer["usage"], "output_tokens": 1}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": empty},
        {"type": "ping"},
    ]
    for index, block in enumerate(answer["content"]):
        start, deltas = _told(block, piece_chars)
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events += [{"type": "content_block_delta", "index": index, "delta": d} for d in deltas]
        events.append({"type": "content_block_stop", "index": index})
    last = {"type": "message_delta", "delta": {name: answer.get(name) for name in ending}}
    if answer.get("usage"):
        last["usage"] = {"output_tokens": answer["usage"]["output_tokens"]}
    return [*events, last, {"type": "message_stop"}]


def _told(block: dict[str, Any], chars: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """How a block begins, and the deltas that follow."""
    kind = block["type"]
    if kind == "text":
        texts = [{"type": "text_delta", "text": piece} for piece in pieces(block["text"], chars)]
        cited = [{"type": "citations_delta", "citation": c} for c in block["citations"] or []]
        return {**block, "text": "", "citations": None}, cited + texts
    if kind == "thinking":
        thought = pieces(block["thinking"], chars)
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in thought]
        signature = {"type": "signature_delta", "signature": block["signature"]}
        return {**block, "thinking": "", "signature": ""}, [*deltas, signature]
    if kind == "tool_use":
        written = orjson.dumps(block["input"]).decode() if block["input"] else ""
        parts = ["", *pieces(written, chars)]
        deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
        return {**block, "input": {}}, deltas
    return block, []


def pieces(text: str, chars: int) -> list[str]:
    return [text[start : start + chars] for start in range(0, len(text), chars)]


def added_up(events: Iterable[Event]) -> dict[str, Any]:
    """The message that a client makes of the deltas."""
    message: dict[str, Any] = {"role": "assistant", "content": None}
    for event in events:
        delta = event.delta
        for name in ("content", "reasoning", "refusal"):
            if name in delta:
                message[name] = (message.get(name) or "") + delta[name]
        for name in ("reasoning_details", "annotations"):
            if name in delta:
                message.setdefault(name, []).extend(delta[name])
        for call in delta.get("tool_calls", []):
            _add_call(message.setdefault("tool_calls", []), call)
    if "reasoning_details" in message:
        message["reasoning_details"] = joined(message["reasoning_details"])
    return message


def _add_call(calls: list[dict[str, Any]], piece: dict[str, Any]) -> None:
    if piece["index"] == len(calls):
        function = dict(piece["function"])
        calls.append({"id": piece["id"], "type": piece["type"], "function": function})
    else:
        calls[piece["index"]]["function"]["arguments"] += piece["function"]["arguments"]


def joined(details: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Reasoning details with the pieces of one block (same index) as one item."""
    blocks: dict[int, dict[str, Any]] = {}
    for item in details:
        block = blocks.setdefault(item["index"], {**item, "text": "", "signature": ""})
        for name in ("text", "signature"):
            block[name] += item.get(name, "")
    return list(blocks.values())
