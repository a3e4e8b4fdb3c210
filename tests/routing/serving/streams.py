"""What upstreams of each wire say when they stream some texts."""

from typing import Any

import orjson


def data_events(*values: dict[str, Any]) -> list[bytes]:
    return [b"data: " + orjson.dumps(each) + b"\n\n" for each in values]


def named_events(*values: dict[str, Any]) -> list[bytes]:
    return [b"event: %b\n" % value["type"].encode() + data_events(value)[0] for value in values]


def chat_events(*texts: str) -> list[bytes]:
    chunks: list[dict[str, Any]] = [{"choices": [{"delta": {"content": t}}]} for t in texts]
    chunks = [{"choices": [{"delta": {"role": "assistant"}}]}, *chunks]
    chunks.append({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    chunks.append({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}})
    return [*data_events(*chunks), b"data: [DONE]\n\n"]


def messages_events(*texts: str) -> list[bytes]:
    message = {"id": "msg_1", "content": [], "usage": {"input_tokens": 3, "output_tokens": 1}}
    delta, block = "content_block_delta", {"type": "text", "text": ""}
    stop = {"stop_reason": "stop_sequence", "stop_sequence": "END"}
    return named_events(
        {"type": "message_start", "message": message, "odd": 1},
        {"type": "ping"},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *({"type": delta, "index": 0, "delta": {"type": "text_delta", "text": t}} for t in texts),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    )


def responses_events(*texts: str) -> list[bytes]:
    text = "".join(texts)
    part = {"type": "output_text", "text": text, "annotations": []}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "content": [part]}
    begun = {"id": "resp_1", "object": "response", "status": "in_progress", "output": []}
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    ended = {**begun, "status": "completed", "output": [item], "usage": usage}
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    delta = "response.output_text.delta"
    values: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.content_part.added", **place, "part": {**part, "text": ""}},
        *({"type": delta, **place, "delta": each} for each in texts),
        {"type": "response.output_text.done", **place, "text": text},
        {"type": "response.content_part.done", **place, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": ended},
    ]
    return named_events(*({**value, "sequence_number": n} for n, value in enumerate(values)))


EVENTS = {"openai": chat_events, "anthropic": messages_events, "responses": responses_events}
