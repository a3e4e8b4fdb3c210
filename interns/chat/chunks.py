"""The caller's side of a turn's stream, chunk by chunk."""

from typing import Any, Final
from uuid import UUID

from gateway.http.jsonio import JsonObject, dumps
from interns.runtime.questions import TOOL, AskedQuestion

DONE: Final = b"data: [DONE]\n\n"
KEEP_ALIVE: Final = b": keepalive\n\n"
# The model of chunks that no runtime had a say in.
OWN_MODEL: Final = "router/intern"


class ChunkWriter:
    """Writes the chunks of one stream; `model` is the runtime's own name for its model, once it
    has said one. `created` is in Unix seconds."""

    def __init__(self, *, run_id: UUID, session_id: str, created: int) -> None:
        self.model = OWN_MODEL
        self._id = f"chatcmpl-{run_id.hex}"
        self._session_id = session_id
        self._created = created

    def write_opening(self) -> bytes:
        return self._write_choice({"role": "assistant", "content": ""})

    def write_content(self, text: str) -> bytes:
        return self._write_choice({"content": text})

    def write_reasoning(self, text: str) -> bytes:
        return self._write_choice({"reasoning": text})

    def write_question(self, asked: AskedQuestion) -> bytes:
        """The whole pause: the tool call, its finish, and the end of the stream."""
        arguments = dumps(asked.question).decode()
        call = {
            "index": 0,
            "id": asked.tool_call_id,
            "type": "function",
            "function": {"name": TOOL, "arguments": arguments},
        }
        tool_call = self._write_choice({"tool_calls": [call]})
        return tool_call + self._write_choice({}, finish="tool_calls") + self._write_end(None)

    def write_stop(self, usage: JsonObject | None) -> bytes:
        return self._write_choice({}, finish="stop") + self._write_end(usage)

    def write_error(self, error: JsonObject, usage: JsonObject | None) -> bytes:
        """The end of a run that went wrong; `error` is the object of every error body."""
        self.model = OWN_MODEL
        return self._write_choice({}, finish="error", error=error) + self._write_end(usage)

    def _write_end(self, usage: JsonObject | None) -> bytes:
        last = self._write_chunk([], session_id=self._session_id, usage=usage)
        return last + DONE

    def _write_choice(
        self, delta: JsonObject, *, finish: str | None = None, **beside: Any
    ) -> bytes:
        return self._write_chunk([{"index": 0, "delta": delta, "finish_reason": finish}], **beside)

    def _write_chunk(self, choices: list[JsonObject], **beside: Any) -> bytes:
        chunk = {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": self._created,
            "model": self.model,
            "choices": choices,
            **beside,
        }
        return b"data: %b\n\n" % dumps(chunk)
