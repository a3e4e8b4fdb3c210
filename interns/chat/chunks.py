"""The caller's side of a turn's stream, chunk by chunk."""

from typing import Final, Literal, NotRequired
from uuid import UUID

from typing_extensions import TypedDict

from gateway.http.jsonio import JsonObject, dumps
from interns.runtime.driver import InternUsage
from interns.runtime.questions import TOOL, AskedQuestion

DONE: Final = b"data: [DONE]\n\n"
KEEP_ALIVE: Final = b": keepalive\n\n"
# The model of chunks that no runtime had a say in.
OWN_MODEL: Final = "router/intern"


class InternChatFunction(TypedDict):
    name: Literal["router.provide_input"]
    arguments: str


class InternChatToolCall(TypedDict):
    index: int
    id: str
    type: Literal["function"]
    function: InternChatFunction


class InternChatDelta(TypedDict, total=False):
    role: Literal["assistant"]
    content: str
    reasoning: str
    tool_calls: list[InternChatToolCall]


class InternChatChoice(TypedDict):
    index: int
    delta: InternChatDelta
    finish_reason: Literal["stop", "tool_calls", "error"] | None


class InternChatChunk(TypedDict):
    """A piece of a streamed turn."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[InternChatChoice]
    session_id: NotRequired[str | None]
    usage: NotRequired[InternUsage | None]
    error: NotRequired[JsonObject]


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
        call: InternChatToolCall = {
            "index": 0,
            "id": asked.tool_call_id,
            "type": "function",
            "function": {"name": TOOL, "arguments": arguments},
        }
        tool_call = self._write_choice({"tool_calls": [call]})
        return tool_call + self._write_choice({}, finish="tool_calls") + self._write_end(None)

    def write_stop(self, usage: InternUsage | None) -> bytes:
        return self._write_choice({}, finish="stop") + self._write_end(usage)

    def write_error(self, error: JsonObject, usage: InternUsage | None) -> bytes:
        """The end of a run that went wrong; `error` is the object of every error body."""
        self.model = OWN_MODEL
        return self._write_choice({}, finish="error", error=error) + self._write_end(usage)

    def _write_end(self, usage: InternUsage | None) -> bytes:
        chunk = self._build_chunk()
        chunk["session_id"] = self._session_id
        chunk["usage"] = usage
        return b"data: %b\n\n" % dumps(chunk) + DONE

    def _write_choice(
        self,
        delta: InternChatDelta,
        *,
        finish: Literal["stop", "tool_calls", "error"] | None = None,
        error: JsonObject | None = None,
    ) -> bytes:
        chunk = self._build_chunk()
        chunk["choices"].append({"index": 0, "delta": delta, "finish_reason": finish})
        if error is not None:
            chunk["error"] = error
        return b"data: %b\n\n" % dumps(chunk)

    def _build_chunk(self) -> InternChatChunk:
        return {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": self._created,
            "model": self.model,
            "choices": [],
        }
