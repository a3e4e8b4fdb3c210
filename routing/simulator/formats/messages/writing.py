"""Writes an answer as one message, as its events, or as an error."""

import json
from typing import Any

from routing.simulator.answer import SimulatedAnswer, SimulatedPiece, SimulatedToolCall
from routing.simulator.encoding import JsonObject, seal, write_event
from routing.simulator.formats.base import Complaint

ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    422: "invalid_request_error",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def build_error(complaint: Complaint) -> JsonObject:
    """The type follows the status alone."""
    kind = ERROR_TYPES.get(complaint.status, "api_error")
    said = {"type": kind, "message": complaint.message}
    return {"type": "error", "error": said, "request_id": "req_simulated"}


def build_failure(message: str) -> JsonObject:
    """An error where the status can no longer say it."""
    return {"type": "error", "error": {"type": "api_error", "message": message}}


STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}


def build_message(body: JsonObject, answer: SimulatedAnswer) -> JsonObject:
    whole = {
        "id": message_id(answer),
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": build_content(body, answer),
        **build_ending(answer),
        "container": None,
    }
    return whole if answer.usage is None else whole | {"usage": convert_usage(answer.usage)}


def message_id(answer: SimulatedAnswer) -> str:
    return f"msg_{answer.id.rpartition('-')[2]}"


def build_ending(answer: SimulatedAnswer) -> JsonObject:
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


def build_content(body: JsonObject, answer: SimulatedAnswer) -> list[JsonObject]:
    """The blocks: what was thought, what was said, which tools are called."""
    blocks: list[JsonObject] = []
    thought, said = answer.text("reasoning"), answer.text("refusal") + answer.text("content")
    if thought:
        shown = "" if is_thinking_omitted(body) else thought
        blocks.append({"type": "thinking", "thinking": shown, "signature": seal(thought)})
    if answer.redacted is not None:
        blocks.append({"type": "redacted_thinking", "data": seal(answer.redacted)})
    if said:
        blocks.append({"type": "text", "text": said, "citations": None})
    for index, call in enumerate(answer.calls):
        blocks.append(
            {**build_tool_use(call), "input": parse_arguments(answer.text("tool", index))}
        )
    return blocks


def is_thinking_omitted(body: JsonObject) -> bool:
    return (body.get("thinking") or {}).get("display") == "omitted"


def build_tool_use(call: SimulatedToolCall) -> JsonObject:
    """A call as it starts, before its input is known."""
    used = "toolu_" + call.id.removeprefix("call_")
    return {"type": "tool_use", "id": used, "name": call.name, "input": {}}


def parse_arguments(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return {}


def convert_usage(said: object) -> Any:
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


BLOCK_KINDS = {"reasoning": "thinking", "content": "text", "refusal": "text", "tool": "tool_use"}
EMPTY_TEXT = {"type": "text", "text": ""}
EMPTY_THINKING = {"type": "thinking", "thinking": "", "signature": ""}


def write_named_event(value: JsonObject) -> bytes:
    return write_event(value["type"], value)


class MessageWriter:
    """One block is open at a time, and blocks are numbered from 0."""

    def __init__(self, body: JsonObject, answer: SimulatedAnswer) -> None:
        self._answer = answer
        self._omits = is_thinking_omitted(body)
        self._body = body
        self._index = -1
        self._open: tuple[str, int] | None = None
        self._redacted_text = answer.redacted is None

    def opening(self) -> bytes:
        """The message without content, its prompt counted, and a ping."""
        start = {**build_message(self._body, self._answer), "content": []}
        start |= {"stop_reason": None, "stop_sequence": None, "stop_details": None}
        if isinstance(start.get("usage"), dict):
            start["usage"] = start["usage"] | {"output_tokens": 1}
        opened = write_named_event({"type": "message_start", "message": start})
        return opened + write_named_event({"type": "ping"})

    def text(self, text: str) -> bytes:
        return self.piece(SimulatedPiece("content", text))

    def piece(self, piece: SimulatedPiece) -> bytes:
        kind = BLOCK_KINDS[piece.kind]
        started = b"" if self._open == (kind, piece.call) else self._start(kind, piece.call)
        if kind == "thinking":
            if self._omits:
                return started
            return started + self._delta({"type": "thinking_delta", "thinking": piece.text})
        if kind == "text":
            return started + self._delta({"type": "text_delta", "text": piece.text})
        return started + self._delta({"type": "input_json_delta", "partial_json": piece.text})

    def closing(self) -> list[bytes]:
        """The end of the open block, the reason and the usage, and the end of the message."""
        last: JsonObject = {"type": "message_delta", "delta": build_ending(self._answer)}
        if self._answer.usage is not None:
            last["usage"] = convert_usage(self._answer.usage)
        stop = self._stop() + self._write_redacted()
        events = [stop, write_named_event(last), write_named_event({"type": "message_stop"})]
        return events if stop else events[1:]

    def failure(self, message: str) -> bytes:
        return write_named_event(build_failure(message))

    def _start(self, kind: str, call: int) -> bytes:
        before = self._stop() + (b"" if kind == "thinking" else self._write_redacted())
        self._open = (kind, call)
        if kind == "tool_use":
            # A call starts with an empty fragment, as the real ones do.
            block = build_tool_use(self._answer.calls[call])
            empty = {"type": "input_json_delta", "partial_json": ""}
            return before + self._block(block) + self._delta(empty)
        return before + self._block(EMPTY_THINKING if kind == "thinking" else EMPTY_TEXT)

    def _block(self, block: JsonObject) -> bytes:
        self._index += 1
        return write_named_event(
            {"type": "content_block_start", "index": self._index, "content_block": block}
        )

    def _delta(self, delta: JsonObject) -> bytes:
        return write_named_event(
            {"type": "content_block_delta", "index": self._index, "delta": delta}
        )

    def _stop(self) -> bytes:
        if self._open is None:
            return b""
        signature = b""
        if self._open[0] == "thinking":
            proof = seal(self._answer.text("reasoning"))
            signature = self._delta({"type": "signature_delta", "signature": proof})
        self._open = None
        return signature + write_named_event({"type": "content_block_stop", "index": self._index})

    def _write_redacted(self) -> bytes:
        if self._redacted_text or self._answer.redacted is None:
            return b""
        self._redacted_text = True
        data = seal(self._answer.redacted)
        block = self._block({"type": "redacted_thinking", "data": data})
        return block + write_named_event({"type": "content_block_stop", "index": self._index})
