"""Small answers in the shapes that real providers were seen to use, one peculiarity each."""

import json
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]
USAGE: Json = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
WEATHER: Json = {"name": "weather", "arguments": '{"city":"Oslo"}'}
CALL: Json = {"id": "call_1", "type": "function", "function": WEATHER}


def small_answers() -> Iterator[Json]:
    for kind, cases in (("openai", CHAT), ("anthropic", MESSAGES), ("responses", RESPONSES)):
        for name, answer in cases.items():
            is_stream = isinstance(answer, list)
            body = _events(answer) if is_stream else json.dumps(answer)
            status = 400 if "error" in answer else 200
            yield {"id": name, "kind": kind, "stream": is_stream, "status": status, "body": body}


def _events(events: list[Json]) -> str:
    named = [f"event: {e['type']}\n" if "type" in e else "" for e in events]
    texts = [f"{n}data: {json.dumps(e)}\n\n" for n, e in zip(named, events, strict=True)]
    return "".join(texts) + ("" if named[0] else "data: [DONE]\n\n")


# --- openai ---------------------------------------------------------------------------------------


def _chat(message: Json, finish: str = "stop", usage: Json = USAGE, **fields: Any) -> Json:
    said = {"role": "assistant", "content": None, **message}
    choice = {"index": 0, "message": said, "finish_reason": finish}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1700000000, "model": "m"}
    return {**head, "choices": [choice], "usage": usage, **fields}


def _chunks(*deltas: Json, finish: str = "stop", usage: Json | None = USAGE) -> list[Json]:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1700000000}
    said: list[tuple[Json, str | None]] = [*((delta, None) for delta in deltas), ({}, finish)]
    chunks: list[Json] = [
        {**head, "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": end}]}
        for delta, end in said
    ]
    return chunks + ([{**head, "model": "m", "choices": [], "usage": usage}] if usage else [])


_THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": "Two and two."}]}
_REASONED = {**USAGE, "completion_tokens_details": {"reasoning_tokens": 3}}
CHAT: dict[str, Any] = {
    "plain": _chat({"content": "Four."}),
    "a call without arguments": _chat(
        {"tool_calls": [{**CALL, "function": {"name": "now"}}]}, "tool_calls"
    ),
    "a call": _chat({"tool_calls": [CALL]}, "tool_calls"),
    "content in parts": _chat({"content": [_THOUGHT, {"type": "text", "text": "Four."}]}),
    "reasoning beside the content": _chat(
        {"content": "Four.", "reasoning_content": "Two and two."}, usage=_REASONED
    ),
    "a refusal that ends with stop": _chat({"refusal": "I cannot."}),
    "a refused request": {"error": {"message": "No such field: x", "type": "invalid", "code": 400}},
    "deltas": _chunks({"role": "assistant", "content": "Fo"}, {"content": "ur."}),
    "a role with every delta": _chunks(
        {"role": "assistant", "content": "Fo"}, {"role": "assistant", "content": "ur."}
    ),
    "a streamed call without index and type": _chunks(
        {"role": "assistant", "tool_calls": [{"id": "call_1", "function": WEATHER}]},
        finish="tool_calls",
    ),
    "a streamed call in fragments": _chunks(
        {"tool_calls": [{"index": 0, **CALL, "function": {"name": "weather", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"city":'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '"Oslo"}'}}]},
        finish="tool_calls",
    ),
    "streamed reasoning": _chunks(
        {"role": "assistant", "reasoning_content": "Two and "},
        {"reasoning_content": "two."},
        {"content": "Four."},
        usage=_REASONED,
    ),
    "a streamed refusal": _chunks({"role": "assistant", "refusal": "I can"}, {"refusal": "not."}),
}


# --- anthropic ------------------------------------------------------------------------------------

_COUNTED: Json = {"input_tokens": 9, "output_tokens": 4}
_THINKING: Json = {"type": "thinking", "thinking": "Two and two.", "signature": "c2ln"}
_USE: Json = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Oslo"}}


def _message(*content: Json, stop: str | None = "end_turn") -> Json:
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m"}
    end = {"stop_reason": stop, "stop_sequence": None, "usage": _COUNTED}
    return {**head, "content": list(content), **end}


def _message_stream(
    *events: Json, stop: str = "end_turn", begun: tuple[Json, ...] = ()
) -> list[Json]:
    start = {**_message(*begun, stop=None), "usage": {"input_tokens": 9, "output_tokens": 1}}
    end = {"delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 4}}
    return [
        {"type": "message_start", "message": start},
        *events,
        {"type": "message_delta", **end},
        {"type": "message_stop"},
    ]


def _block(index: int, empty: Json, *deltas: Json) -> list[Json]:
    return [
        {"type": "content_block_start", "index": index, "content_block": empty},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


MESSAGES: dict[str, Any] = {
    "text with null for citations": _message({"type": "text", "text": "Four.", "citations": None}),
    "thinking and a call": _message(_THINKING, _USE, stop="tool_use"),
    "text in deltas": _message_stream(
        *_block(
            0,
            {"type": "text", "text": ""},
            {"type": "text_delta", "text": "Fo"},
            {"type": "text_delta", "text": "ur."},
        )
    ),
    "thinking and a call in deltas": _message_stream(
        *_block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "Two and two."},
            {"type": "signature_delta", "signature": "c2ln"},
        ),
        *_block(
            1,
            {**_USE, "input": {}},
            {"type": "input_json_delta", "partial_json": '{"city":'},
            {"type": "input_json_delta", "partial_json": '"Oslo"}'},
        ),
        stop="tool_use",
    ),
    "blocks that come with the start": _message_stream(stop="tool_use", begun=(_USE,)),
}


# --- responses ------------------------------------------------------------------------------------

_RESPONSE: Json = {"id": "resp_1", "object": "response", "created_at": 1700000000, "model": "m"}
_RESPONSE |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
_CALLED: Json = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "status": "completed"}
_TEXT: Json = {"type": "output_text", "text": "Four.", "annotations": [], "logprobs": []}
_SUMMARY: Json = {"type": "summary_text", "text": "Two and two."}


def _item(*content: Json, **fields: Any) -> Json:
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    return {**item, "content": list(content), **fields}


def _response(*output: Json, status: str = "completed", **fields: Any) -> Json:
    details = {
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    return {
        **_RESPONSE,
        "status": status,
        "output": list(output),
        "usage": {**_COUNTED, "total_tokens": 13, **details},
        **fields,
    }


def _item_stream(item: Json, *events: Json) -> list[Json]:
    begun = {**_response(status="in_progress"), "usage": None}
    nothing: Json = {"content": []} if "content" in item else {"arguments": ""}
    empty = {**item, "status": "in_progress", **nothing}
    place: Json = {"output_index": 0}
    said: list[Json] = [
        {"type": "response.created", "response": begun},
        {"type": "response.output_item.added", **place, "item": empty},
        *({**place, "item_id": item["id"], **event} for event in events),
        {"type": "response.output_item.done", **place, "item": item},
        {"type": "response.completed", "response": _response(item)},
    ]
    return [{**event, "sequence_number": number} for number, event in enumerate(said)]


_OF_TEXT: Json = {"content_index": 0, "logprobs": []}
RESPONSES: dict[str, Any] = {
    "reasoning, text and a call": _response(
        {"type": "reasoning", "id": "rs_1", "summary": [_SUMMARY]},
        _item(_TEXT),
        {**_CALLED, **WEATHER},
    ),
    "a refusal": _response(_item({"type": "refusal", "refusal": "I cannot."})),
    "an end for want of room": _response(
        _item(_TEXT, status="incomplete"),
        status="incomplete",
        incomplete_details={"reason": "max_output_tokens"},
    ),
    "a text in events": _item_stream(
        _item(_TEXT),
        {"type": "response.content_part.added", "content_index": 0, "part": {**_TEXT, "text": ""}},
        {"type": "response.output_text.delta", **_OF_TEXT, "delta": "Fo"},
        {"type": "response.output_text.delta", **_OF_TEXT, "delta": "ur."},
        {"type": "response.output_text.done", **_OF_TEXT, "text": "Four."},
        {"type": "response.content_part.done", "content_index": 0, "part": _TEXT},
    ),
    "a call in events": _item_stream(
        {**_CALLED, **WEATHER},
        {"type": "response.function_call_arguments.delta", "delta": WEATHER["arguments"]},
        {"type": "response.function_call_arguments.done", **WEATHER},
    ),
}
