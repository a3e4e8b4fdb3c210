"""Streams made of whole answers, event by event, and what their deltas add up to for a client."""

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import orjson

from routing.entities.exchange import Event, Wire

Told = Iterator[dict[str, Any]]


def read(wire: Wire, events: Iterable[Any]) -> list[Event]:
    reader = wire.reader()
    return [event for told in events for event in reader.events(orjson.dumps(told))]


def added_up(events: Iterable[Event]) -> dict[str, Any]:
    """The message that a client makes of the deltas."""
    message: dict[str, Any] = {"role": "assistant", "content": None}
    for name, value in (pair for event in events for pair in event.delta.items()):
        if name == "tool_calls":
            for call in value:
                _add_call(message.setdefault("tool_calls", []), call)
        elif isinstance(value, list):
            message[name] = message.get(name, []) + value
        else:
            message[name] = (message.get(name) or "") + value
    return message


def _add_call(calls: list[dict[str, Any]], piece: dict[str, Any]) -> None:
    if piece["index"] == len(calls):
        calls.append({"id": None, "type": "function", "function": {"name": "", "arguments": ""}})
    whole, function = calls[piece["index"]], piece["function"]
    whole["id"] = piece.get("id") or whole["id"]
    whole["function"]["name"] += function.get("name", "")
    whole["function"]["arguments"] += function["arguments"]


def thoughts(message: dict[str, Any]) -> dict[Any, str]:
    """The texts of each reasoning block by its id, or else its place: pieces of one as one text."""
    found: dict[Any, str] = {}
    for item in message.get("reasoning_details", ()):
        for name in ("summary", "text", "data", "signature"):
            if text := item.get(name):
                key = item["id"] or item["index"], name
                found[key] = found.get(key, "") + text
    return found


def tokens(events: list[Event]) -> list[Any]:
    found = [event.logprobs["content"] for event in events if event.logprobs is not None]
    return list(itertools.chain.from_iterable(found))


def pieces(text: str, chars: int) -> list[str]:
    return [text[start : start + chars] for start in range(0, len(text), chars)]


def messages_stream(answer: dict[str, Any], chars: int = 3) -> list[dict[str, Any]]:
    """The events that say a whole answer of the messages API, texts in pieces."""
    ending = ("stop_reason", "stop_sequence", "stop_details")
    usage = answer["usage"]
    empty = {
        **answer,
        "content": [],
        **dict.fromkeys(ending),
        "usage": {**usage, "output_tokens": 1},
    }
    events: list[dict[str, Any]] = [{"type": "message_start", "message": empty}, {"type": "ping"}]
    for index, block in enumerate(answer["content"]):
        start, deltas = _block(block, chars)
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events += [{"type": "content_block_delta", "index": index, "delta": d} for d in deltas]
        events.append({"type": "content_block_stop", "index": index})
    delta = {name: answer.get(name) for name in ending}
    told = {"output_tokens": usage["output_tokens"]}
    last = {"type": "message_delta", "delta": delta, "usage": told}
    return [*events, last, {"type": "message_stop"}]


def _block(block: dict[str, Any], chars: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """How a block begins, and the deltas that follow."""
    match block["type"]:
        case "text":
            cited = [{"type": "citations_delta", "citation": c} for c in block["citations"] or []]
            said = [{"type": "text_delta", "text": piece} for piece in pieces(block["text"], chars)]
            return {**block, "text": "", "citations": None}, cited + said
        case "thinking":
            thought = pieces(block["thinking"], chars)
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in thought]
            signature = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, [*deltas, signature]
        case "tool_use":
            written = orjson.dumps(block["input"]).decode() if block["input"] else ""
            parts = ["", *pieces(written, chars)]
            return {**block, "input": {}}, [
                {"type": "input_json_delta", "partial_json": part} for part in parts
            ]
    return block, []


def response(output: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    """A whole answer of the responses API."""
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    told = {"id": "resp_1", "object": "response", "status": "completed", "usage": usage}
    return {**told, "output": output, **fields}


class Telling(NamedTuple):
    """How an upstream of the responses API tells an answer: which of the redundant events it sends,
    and in which pieces it cuts texts. What it leaves out comes with the item or at the end."""

    deltas: bool
    dones: bool
    items: bool
    cut: int

    def events(self, output: list[dict[str, Any]]) -> Told:
        start = response([], status="in_progress", usage=None)
        yield {"type": "response.created", "response": start}
        for place, item in enumerate(output):
            yield from self._item(place, item)
        yield {"type": "response.completed", "response": response(output)}

    def _item(self, place: int, item: dict[str, Any]) -> Told:
        if self.deltas or self.items:
            bare: dict[str, Any] = {
                "arguments": "",
                "content": [],
                "summary": [],
                "encrypted_content": None,
            }
            added = {**item, **{name: bare[name] for name in bare if name in item}}
            yield {"type": "response.output_item.added", "output_index": place, "item": added}
        for told in self._pieces(item):
            yield {**told, "output_index": place, "item_id": item["id"]}
        if self.items:
            yield {"type": "response.output_item.done", "output_index": place, "item": item}

    def _pieces(self, item: dict[str, Any]) -> Told:
        if item["type"] == "function_call":
            yield from self._text("function_call_arguments", "arguments", item["arguments"])
        for index, part in enumerate(item.get("summary", ())):
            text = part["text"]
            yield from self._text("reasoning_summary_text", "text", text, summary_index=index)
        for index, part in enumerate(item.get("content", ())):
            kind = part["type"]
            name = "refusal" if kind == "refusal" else "text"
            told = self._text(kind, name, part[name], content_index=index)
            if kind == "output_text":
                # All of the log probabilities come with the first event of the text.
                firsts = itertools.chain([part["logprobs"]], itertools.repeat([]))
                told = (
                    {**each, "logprobs": first} for first, each in zip(firsts, told, strict=False)
                )
            yield from told
            if self.dones and kind != "reasoning_text":
                yield {"type": "response.content_part.done", "part": part, "content_index": index}

    def _text(self, kind: str, name: str, text: str, **at: int) -> Told:
        if self.deltas:
            for piece in pieces(text, self.cut):
                yield {"type": f"response.{kind}.delta", "delta": piece, **at}
        if self.dones:
            yield {"type": f"response.{kind}.done", name: text, **at}
