"""The caller's side of a turn's stream, chunk by chunk (management reference 6.9)."""

from typing import Any, Final
from uuid import UUID

from gateway.http.jsonio import dumps
from interns.runtime.questions import TOOL, Asked

DONE: Final = b"data: [DONE]\n\n"
KEEP_ALIVE: Final = b": keepalive\n\n"
# The model of chunks that no runtime had a say in.
OWN_MODEL: Final = "router/intern"


class Chunks:
    """Writes the chunks of one stream; `model` is the runtime's own name for its model, once it
    has said one. `created` is in Unix seconds."""

    def __init__(self, *, run_id: UUID, session_id: str, created: int) -> None:
        self.model = OWN_MODEL
        self._id = f"chatcmpl-{run_id.hex}"
        self._session_id = session_id
        self._created = created

    def opening(self) -> bytes:
        return self._choice({"role": "assistant", "content": ""})

    def content(self, text: str) -> bytes:
        return self._choice({"content": text})

    def reasoning(self, text: str) -> bytes:
        return self._choice({"reasoning": text})

    def question(self, asked: Asked) -> bytes:
        """The whole pause: the tool call, its finish, and the end of the stream."""
        arguments = dumps(asked.question).decode()
        call = {
            "index": 0,
            "id": asked.tool_call_id,
            "type": "function",
            "function": {"name": TOOL, "arguments": arguments},
        }
        told = self._choice({"tool_calls": [call]})
        return told + self._choice({}, finish="tool_calls") + self._end(None)

    def stop(self, usage: dict[str, Any] | None) -> bytes:
        return self._choice({}, finish="stop") + self._end(usage)

    def error(self, error: dict[str, Any], usage: dict[str, Any] | None) -> bytes:
        """The end of a run that went wrong; `error` is the object of every error body."""
        self.model = OWN_MODEL
        return self._choice({}, finish="error", error=error) + self._end(usage)

    def _end(self, usage: dict[str, Any] | None) -> bytes:
        last = self._event([], session_id=self._session_id, usage=usage)
        return last + DONE

    def _choice(self, delta: dict[str, Any], *, finish: str | None = None, **beside: Any) -> bytes:
        return self._event([{"index": 0, "delta": delta, "finish_reason": finish}], **beside)

    def _event(self, choices: list[dict[str, Any]], **beside: Any) -> bytes:
        chunk = {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": self._created,
            "model": self.model,
            "choices": choices,
            **beside,
        }
        return b"data: %b\n\n" % dumps(chunk)
