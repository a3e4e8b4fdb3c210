"""A caller of messages."""

import json
from typing import Any

from tests.support.speakers.base import Call, Counts, Said, Streamed, nano, plain

CHOICES = {"auto": {"type": "auto"}, "none": {"type": "none"}, "required": {"type": "any"}}
FINISHES = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
BUDGET = 2048


class Messages:
    name = "messages"
    path = "/api/v1/messages"
    keep_alive = b'event: ping\ndata: {"type":"ping"}\n\n'

    def body(self, model: str, history: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
        cap = options.pop("cap", 4096)
        given: dict[str, Any] = {"model": model, "messages": history, "max_tokens": cap}
        if "tools" in options:
            given["tools"] = [_tool(tool) for tool in options.pop("tools")]
        if "choice" in options:
            given["tool_choice"] = CHOICES[options.pop("choice")]
        if "schema" in options:
            shape = {"type": "json_schema", "schema": options.pop("schema")}
            given["output_config"] = {"format": shape}
        if "effort" in options:
            options.pop("effort")
            given["thinking"] = {"type": "enabled", "budget_tokens": BUDGET}
        if "stop" in options:
            given["stop_sequences"] = options.pop("stop")
        return given | options

    def user(self, text: str, *, image_url: str | None = None) -> list[dict[str, Any]]:
        if image_url is None:
            return [{"role": "user", "content": text}]
        head, _, data = image_url.partition(";base64,")
        source = {"type": "url", "url": image_url}
        if data:
            media_type = head.removeprefix("data:")
            source = {"type": "base64", "media_type": media_type, "data": data}
        blocks = [{"type": "text", "text": text}, {"type": "image", "source": source}]
        return [{"role": "user", "content": blocks}]

    def results(self, outputs: dict[str, str]) -> list[dict[str, Any]]:
        blocks = [
            {"type": "tool_result", "tool_use_id": call_id, "content": text}
            for call_id, text in outputs.items()
        ]
        return [{"role": "user", "content": blocks}]

    def read_answer(self, answer: Any) -> Said:
        assert (answer["type"], answer["role"]) == ("message", "assistant")
        return _read_answer(answer, answer["content"], answer["usage"])

    def read_events(self, streamed: Streamed) -> Said:
        blocks: list[dict[str, Any]] = []
        whole: dict[str, Any] = {"stop_reason": None}
        usage: dict[str, Any] | None = None
        failure = None
        for name, value in streamed.events:
            assert failure is None
            if name == "message_start":
                whole = dict(value["message"])
            elif name == "content_block_start":
                assert value["index"] == len(blocks)
                blocks.append({**value["content_block"], "partial_json": ""})
            elif name == "content_block_delta":
                _add(blocks[value["index"]], value["delta"])
            elif name == "message_delta":
                whole |= value["delta"]
                usage = {**whole["usage"], **value["usage"]}
            elif name == "error":
                failure = value["error"]
        said = _read_answer(whole, [_finish_block(block) for block in blocks], usage)
        said.failure = failure
        return said

    def read_error(self, body: Any) -> tuple[int, str, str]:
        assert body["type"] == "error"
        error = body["error"]
        return error["code"], error["error_type"], error["message"]


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in tool.items() if name != "parameters"}
    return rest | {"input_schema": tool["parameters"]}


def _add(block: dict[str, Any], delta: dict[str, Any]) -> None:
    for name in ("text", "thinking", "partial_json"):
        if name in delta:
            block[name] += delta[name]
    if "signature" in delta:
        block["signature"] = delta["signature"]


def _finish_block(block: dict[str, Any]) -> dict[str, Any]:
    fragments = block.pop("partial_json")
    if block["type"] == "server_tool_use":
        return {**block, "input": json.loads(fragments or "{}")}
    if block["type"] != "tool_use":
        return block
    return {**block, "input": json.loads(fragments or "{}"), "fragments": fragments}


def _read_answer(answer: Any, blocks: list[dict[str, Any]], usage: Any) -> Said:
    calls = [
        Call(
            block["id"],
            block["name"],
            block.pop("fragments", None) or json.dumps(plain(block["input"])),
        )
        for block in blocks
        if block["type"] == "tool_use"
    ]
    return Said(
        text="".join(block["text"] for block in blocks if block["type"] == "text"),
        reasoning="".join(b["thinking"] for b in blocks if b["type"] == "thinking"),
        calls=calls,
        finish=FINISHES.get(answer["stop_reason"]),
        usage=None if usage is None else _counts(usage),
        cost_nano=None if usage is None else nano(usage["cost"]),
        native=[{"role": "assistant", "content": plain(blocks)}],
        model=answer.get("model"),
        provider=answer.get("provider"),
    )


def _counts(usage: dict[str, Any]) -> Counts:
    cached = usage["cache_read_input_tokens"] or 0
    written = usage["cache_creation_input_tokens"] or 0
    prompt = usage["input_tokens"] + cached + written
    return Counts(prompt, usage["output_tokens"], cached, written)
