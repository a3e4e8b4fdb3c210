"""What an answer says, by a small reader for each wire that shares no code with the product.

Lenient where real providers stray from their own format: they read recordings, and what callers
of the same format get.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

FINISHES = {
    **dict.fromkeys(("stop", "end_turn", "stop_sequence", "pause_turn", "compaction"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "max_output_tokens"), "length"),
    **dict.fromkeys(("tool_calls", "function_call", "tool_use"), "tool_calls"),
    **dict.fromkeys(("content_filter", "refusal"), "content_filter"),
    "model_context_window_exceeded": "length",
    "error": "error",
}


class Counts(NamedTuple):
    """Tokens as the chat format counts them."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0
    written: int = 0
    reasoning: int = 0


@dataclass
class Said:
    """One answer. Calls are (id, name, arguments as canonical JSON); annotations are URLs."""

    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    refusal: str = ""
    annotations: list[str] = field(default_factory=list)
    finish: str | None = None
    usage: Counts | None = None
    failure: str = ""


def stream_events(body: str) -> list[Any]:
    """The JSON of every event of a stream but `[DONE]`."""
    return list(_events(body))


def _events(body: str) -> Iterator[Any]:
    for block in re.split(r"\r?\n\r?\n", body):
        lines = [line for line in block.splitlines() if line.startswith("data:")]
        data = "\n".join(line[5:].removeprefix(" ") for line in lines)
        if data and data != "[DONE]":
            yield json.loads(data)


def canonical(arguments: Any) -> str:
    """Arguments in one spelling; what is no JSON stays as it is."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except ValueError:
            return str(arguments)
    return json.dumps(arguments, sort_keys=True)


def read_chat(body: str, stream: bool) -> Said:
    values = stream_events(body) if stream else [json.loads(body)]
    said, usage, calls = Said(), None, dict[Any, dict[str, str]]()
    last: Any = None
    for value in values:
        usage = value.get("usage") or (value.get("x_groq") or {}).get("usage") or usage
        choices = value.get("choices") or ()
        choice: dict[str, Any] = next((c for c in choices if not c.get("index")), {})
        failure = value.get("error") or choice.get("error")
        if failure:
            said.failure = str(failure.get("message"))
        finish = choice.get("finish_reason")
        said.finish = FINISHES.get(finish, "stop") if finish else said.finish
        message = choice.get("delta" if stream else "message") or {}
        _add_message(said, message)
        for position, call in enumerate(message.get("tool_calls") or ()):
            key = call.get("index", position if not stream else call.get("id") or last)
            last = key
            function = call.get("function") or {}
            if not (function or call.get("id")):
                continue
            known = calls.setdefault(key, {"id": "", "name": "", "arguments": ""})
            arguments = function.get("arguments")
            known["id"] = call.get("id") or known["id"]
            known["name"] = known["name"] or function.get("name") or ""
            known["arguments"] += arguments if isinstance(arguments, str) else canonical(
                arguments or {}
            )  # fmt: skip
        legacy = message.get("function_call") or {}
        if (legacy.get("name") or "legacy" in calls) and not message.get("tool_calls"):
            known = calls.setdefault("legacy", {"id": "", "name": "", "arguments": ""})
            known["name"] += legacy.get("name") or ""
            known["arguments"] += legacy.get("arguments") or ""
    said.calls = [(c["id"], c["name"], canonical(c["arguments"])) for c in calls.values()]
    if said.calls and said.finish == "stop":
        said.finish = "tool_calls"
    said.usage = _chat_counts(usage) if usage else None
    return said


def _add_message(said: Said, message: dict[str, Any]) -> None:
    content = message.get("content")
    parts: Any = content if isinstance(content, list) else [{"type": "text", "text": content}]
    for part in parts:
        if part["type"] == "thinking":
            said.reasoning += "".join(piece.get("text") or "" for piece in part["thinking"])
        else:
            said.text += part.get("text") or ""
    details = message.get("reasoning_details") or ()
    pieces = [each.get("text") or each.get("summary") or "" for each in details]
    told = message.get("reasoning") or message.get("reasoning_content") or "".join(pieces)
    said.reasoning += told
    said.refusal += message.get("refusal") or ""
    for mark in message.get("annotations") or ():
        if mark["type"] == "url_citation":
            said.annotations.append(mark["url_citation"]["url"])


def _chat_counts(usage: dict[str, Any]) -> Counts:
    before, after = (usage.get(f"{name}_tokens_details") or {} for name in ("prompt", "completion"))
    prompt, completion = usage["prompt_tokens"], usage["completion_tokens"]
    # A total above both counts holds reasoning that the completion leaves out.
    unstated = max(usage.get("total_tokens", 0) - prompt - completion, 0)
    reasoning = after.get("reasoning_tokens") or usage.get("reasoning_tokens") or unstated
    elsewhere = ("prompt_cache_hit_tokens", "cached_tokens", "num_cached_tokens")
    cached = before.get("cached_tokens") or next((usage[n] for n in elsewhere if usage.get(n)), 0)
    written = before.get("cache_write_tokens") or 0
    return Counts(prompt, completion + unstated, cached, written, reasoning)


def read_messages(body: str, stream: bool) -> Said:
    if not stream:
        message = json.loads(body)
        return _said_of_blocks(message["content"], message, message["usage"])
    blocks: dict[int, dict[str, Any]] = {}
    whole: dict[str, Any] = {}
    usage: dict[str, Any] = {}
    failure = ""
    early: list[dict[str, Any]] = []
    for value in stream_events(body):
        kind = value.get("type")
        if kind == "message_start":
            whole, usage = dict(value["message"]), dict(value["message"]["usage"])
            early = whole["content"]
        elif kind == "content_block_start":
            blocks[value["index"]] = {**value["content_block"], "json": ""}
        elif kind == "content_block_delta":
            _add_block_delta(blocks[value["index"]], value["delta"])
        elif kind == "message_delta":
            whole |= {k: v for k, v in value["delta"].items() if v is not None}
            usage |= {k: v for k, v in value["usage"].items() if v is not None}
        elif kind == "error":
            failure = str(value["error"]["message"])
    for block in blocks.values():
        if block["json"]:
            block["input"] = block["json"]
    said = _said_of_blocks([*early, *blocks.values()], whole, usage)
    said.failure = failure
    return said


def _add_block_delta(block: dict[str, Any], delta: dict[str, Any]) -> None:
    block["json"] += delta.get("partial_json", "")
    for name in ("text", "thinking"):
        if name in delta:
            block[name] += delta[name]
    if "citation" in delta:
        block["citations"] = [*(block.get("citations") or ()), delta["citation"]]


def _said_of_blocks(
    blocks: list[dict[str, Any]], whole: dict[str, Any], usage: dict[str, Any]
) -> Said:
    said = Said(finish=FINISHES.get(whole["stop_reason"], whole["stop_reason"]))
    for block in blocks:
        if block["type"] == "text":
            said.text += block["text"]
            cited = [mark["url"] for mark in block.get("citations") or () if "url" in mark]
            said.annotations += cited
        elif block["type"] == "thinking":
            said.reasoning += block["thinking"]
        elif block["type"] == "tool_use":
            said.calls.append((block["id"], block["name"], canonical(block["input"])))
    if said.calls and said.finish == "stop":
        said.finish = "tool_calls"
    if said.finish == "content_filter":
        said.refusal = (whole.get("stop_details") or {}).get("explanation") or ""
    # Compacting is billed and stands in the iterations alone.
    spent = [i for i in usage.get("iterations") or () if i["type"] == "compaction"]
    spent.append(usage)
    cached, written, asked, produced = (
        sum(each.get(name) or 0 for each in spent)
        for name in (
            "cache_read_input_tokens",
            "cache_creation_input_tokens",
            "input_tokens",
            "output_tokens",
        )
    )
    thought = (usage.get("output_tokens_details") or {}).get("thinking_tokens") or 0
    said.usage = Counts(asked + cached + written, produced, cached, written, thought)
    return said


TERMINAL = ("response.completed", "response.incomplete", "response.failed")


def read_responses(body: str, stream: bool) -> Said:
    if not stream:
        return _said_of_response(json.loads(body))
    failure = ""
    last: dict[str, Any] | None = None
    items: list[dict[str, Any]] = []
    for value in stream_events(body):
        if value["type"] in TERMINAL:
            last = value["response"]
        elif value["type"] == "response.output_item.done":
            items.append(value["item"])
        elif value["type"] == "error":
            failure = str(value.get("message") or value["error"]["message"])
    if last is None:
        said = _said_of_response({"output": items, "status": "failed"})
    else:
        said = _said_of_response({**last, "output": last["output"] or items})
    said.failure = said.failure or failure
    return said


def _said_of_response(response: dict[str, Any]) -> Said:
    said = Said()
    for item in response["output"]:
        if item["type"] == "reasoning":
            pieces = [*(item.get("summary") or ()), *(item.get("content") or ())]
            said.reasoning += "".join(piece["text"] for piece in pieces)
        elif item["type"] == "function_call":
            said.calls.append((item["call_id"], item["name"], canonical(item["arguments"])))
        elif item["type"] == "custom_tool_call":
            said.calls.append((item["call_id"], item["name"], canonical(item["input"])))
        for part in item["content"] if item["type"] == "message" else ():
            said.text += part.get("text") or ""
            said.refusal += part.get("refusal") or ""
            marks = part.get("annotations") or ()
            said.annotations += [m["url"] for m in marks if m["type"] == "url_citation"]
    reason = (response.get("incomplete_details") or {}).get("reason")
    if response["status"] == "incomplete":
        said.finish = FINISHES.get(str(reason), reason)
    elif response["status"] == "failed":
        said.finish = "error"
        said.failure = str((response.get("error") or {}).get("message"))
    else:
        said.finish = "tool_calls" if said.calls else "stop"
    if usage := response.get("usage"):
        before, after = (usage.get(f"{n}_tokens_details") or {} for n in ("input", "output"))
        said.usage = Counts(
            usage["input_tokens"],
            usage["output_tokens"],
            before.get("cached_tokens") or 0,
            before.get("cache_write_tokens") or 0,
            after.get("reasoning_tokens") or 0,
        )
    return said


READERS = {"openai": read_chat, "anthropic": read_messages, "responses": read_responses}
