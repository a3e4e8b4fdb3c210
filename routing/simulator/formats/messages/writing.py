"""Writing an answer as one message."""

import json
from typing import Any

from routing.simulator.seal import sealed
from routing.simulator.wire import Answer, ToolCall

STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}


def message(body: dict[str, Any], answer: Answer) -> dict[str, Any]:
    whole = {
        "id": message_id(answer),
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": content(body, answer),
        **ending(answer),
        "container": None,
    }
    return whole if answer.usage is None else whole | {"usage": usage(answer.usage)}


def message_id(answer: Answer) -> str:
    return f"msg_{answer.id.rpartition('-')[2]}"


def ending(answer: Answer) -> dict[str, Any]:
    """Why it ended; a word that this format has no own one for stays as it is."""
    reason = answer.finish_reason
    if reason == "stop" and answer.stop_sequence is not None:
        reason = "stop_sequence"
    elif answer.text("refusal"):
        reason = "refusal"
    reason = STOP_REASONS.get(reason or "", reason)
    refusal = {"type": "refusal", "category": None, "explanation": None}
    return {
        "stop_reason": reason,
        "stop_sequence": answer.stop_sequence,
        "stop_details": refusal if reason == "refusal" else None,
    }


def content(body: dict[str, Any], answer: Answer) -> list[dict[str, Any]]:
    """The blocks: what was thought, what was said, which tools are called."""
    blocks: list[dict[str, Any]] = []
    thought, said = answer.text("reasoning"), answer.text("refusal") + answer.text("content")
    if thought:
        blocks.append(thinking(body, thought))
    if answer.redacted is not None:
        blocks.append({"type": "redacted_thinking", "data": sealed(answer.redacted)})
    if said:
        blocks.append({"type": "text", "text": said, "citations": None})
    for index, call in enumerate(answer.calls):
        blocks.append({**tool_use(call), "input": arguments(answer.text("tool", index))})
    return blocks


def thinking(body: dict[str, Any], thought: str) -> dict[str, Any]:
    shown = "" if omits_thinking(body) else thought
    return {"type": "thinking", "thinking": shown, "signature": sealed(thought)}


def omits_thinking(body: dict[str, Any]) -> bool:
    return (body.get("thinking") or {}).get("display") == "omitted"


def tool_use(call: ToolCall) -> dict[str, Any]:
    """A call as it starts, before its input is known."""
    used = "toolu_" + call.id.removeprefix("call_")
    return {"type": "tool_use", "id": used, "name": call.name, "input": {}}


def arguments(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return {}


def usage(said: Any) -> Any:
    """The chat format's usage by this format's counting, which leaves cached tokens out of the
    input. What is no such usage stays as it is; so do counts that are no numbers."""
    if not isinstance(said, dict) or "prompt_tokens" not in said:
        return said
    details = said.get("prompt_tokens_details") or {}
    read, written = details.get("cached_tokens", 0), details.get("cache_write_tokens", 0)
    prompt = said["prompt_tokens"]
    counted = isinstance(prompt, int)
    return {
        "input_tokens": prompt - read - written if counted else prompt,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": written,
            "ephemeral_1h_input_tokens": 0,
        },
        "output_tokens": said.get("completion_tokens"),
        "service_tier": "standard",
    }
