"""A strict reader of messages streams: what clients put together, and no event out of place."""

from typing import Any

import orjson

_FIELDS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("thinking", "signature"),
    "citations_delta": ("text", "citation"),
    "input_json_delta": ("tool_use", "partial_json"),
}
_TARGETS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


def events_of(data: bytes) -> list[dict[str, Any]]:
    """The payloads; each stands under its own name in one event of two lines."""
    assert data.endswith(b"\n\n")
    events = []
    for block in data[:-2].split(b"\n\n"):
        name, payload = block.split(b"\n")
        assert name.startswith(b"event: ")
        assert payload.startswith(b"data: ")
        event = orjson.loads(payload[len(b"data: ") :])
        assert event["type"] == name[len(b"event: ") :].decode()
        events.append(event)
    return events


class Read:
    """`message` as a client has it at the end, `arguments` the raw text of its tool calls."""

    def __init__(self, data: bytes) -> None:
        self.message: dict[str, Any] = {}
        self.arguments: list[str] = []
        self.error: dict[str, Any] | None = None
        self.ended: dict[str, Any] | None = None
        self.pings = 0
        self._open = False
        self._delta: dict[str, Any] | None = None
        for event in events_of(data):
            assert self.ended is None
            assert self.error is None
            getattr(self, f"_{event['type']}")(event)

    @property
    def content(self) -> list[dict[str, Any]]:
        content: list[dict[str, Any]] = self.message["content"]
        return content

    def _message_start(self, event: dict[str, Any]) -> None:
        assert not self.message
        self.message = event["message"]
        assert self.message["content"] == []

    def _ping(self, event: dict[str, Any]) -> None:
        assert self.message
        self.pings += 1

    def _content_block_start(self, event: dict[str, Any]) -> None:
        assert self.message
        assert self.pings
        assert not self._open
        assert self._delta is None
        assert event["index"] == len(self.content)
        self._open = True
        self.content.append(event["content_block"])
        self.arguments.append("")

    def _content_block_delta(self, event: dict[str, Any]) -> None:
        assert self._open
        assert event["index"] == len(self.content) - 1
        block, delta = self.content[-1], event["delta"]
        kind = delta["type"]
        owner, field = _FIELDS[kind]
        assert block["type"] == owner
        value = delta[field]
        assert value
        if kind == "citations_delta":
            block["citations"] = [*(block["citations"] or []), value]
        elif kind == "input_json_delta":
            self.arguments[-1] += value
        else:
            block[_TARGETS[kind]] += value

    def _content_block_stop(self, event: dict[str, Any]) -> None:
        assert self._open
        assert event["index"] == len(self.content) - 1
        self._open = False
        if self.content[-1]["type"] == "tool_use":
            self.content[-1]["input"] = _parse_arguments(self.arguments[-1])

    def _message_delta(self, event: dict[str, Any]) -> None:
        assert not self._open
        assert self._delta is None
        self._delta = event
        self.message |= event["delta"]
        self.message["usage"] = {**self.message["usage"], **event["usage"]}

    def _message_stop(self, event: dict[str, Any]) -> None:
        assert self._delta is not None
        self.ended = event

    def _error(self, event: dict[str, Any]) -> None:
        self.error = event["error"]


def _parse_arguments(arguments: str) -> Any:
    try:
        return orjson.loads(arguments)
    except ValueError:
        return {}
