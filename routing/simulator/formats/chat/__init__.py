"""Chat completions, the format the others are read into."""

from collections.abc import Mapping
from typing import Any

from routing.simulator.cache import NO_CACHE, CacheUse, PromptCache
from routing.simulator.formats.base import Complaint, Stream
from routing.simulator.formats.chat import writing
from routing.simulator.wire import Answer

UNREADABLE = "The body must be a JSON object with a list of messages."
FAILURE = {"error": {"message": "Simulated failure inside the stream.", "code": 502}}


class ChatSpeaker:
    def __init__(self, body: dict[str, Any], answer: Answer) -> None:
        self._answer = answer
        self._include_usage = includes_usage(body)
        self._writer = writing.ChunkWriter(answer, include_usage=self._include_usage)
        self.done = writing.DONE

    def opening(self) -> bytes:
        return self._writer.delta(writing.ROLE)

    def text(self, text: str) -> bytes:
        return self._writer.text(text)

    def finish(self, finish_reason: str | None) -> list[bytes]:
        self._answer.finish_reason = finish_reason
        return writing.closing(self._answer, self._writer, include_usage=self._include_usage)

    def failure(self, message: str) -> bytes:
        return writing.event({"error": {"message": message, "code": 502}})


class Chat:
    name = "chat"

    def asked(self, body: dict[str, Any]) -> dict[str, Any]:
        return body

    def complaint(self, headers: Mapping[str, str], body: dict[str, Any]) -> Complaint | None:
        return None if isinstance(body.get("messages"), list) else Complaint(400, UNREADABLE)

    def cached(self, cache: PromptCache, persona: str, body: dict[str, Any]) -> CacheUse:
        return NO_CACHE

    def document(self, body: dict[str, Any], answer: Answer) -> dict[str, Any]:
        return writing.completion(answer)

    def stream(self, body: dict[str, Any], answer: Answer) -> Stream:
        return writing.stream(answer, include_usage=includes_usage(body))

    def hollow(self, body: dict[str, Any], answer: Answer) -> tuple[dict[str, Any], list[bytes]]:
        document = {**writing.completion(answer), "choices": []}
        chunk = writing.event({**document, "object": "chat.completion.chunk"})
        return document, [chunk, writing.DONE]

    def speaker(self, body: dict[str, Any], answer: Answer) -> ChatSpeaker:
        return ChatSpeaker(body, answer)

    def event(self, value: Any) -> bytes:
        return writing.event(value)

    def error(self, complaint: Complaint) -> dict[str, Any]:
        return error(complaint)

    def broken(self, body: dict[str, Any], answer: Answer) -> dict[str, Any]:
        return FAILURE


def error(complaint: Complaint) -> dict[str, Any]:
    """An error as the chat-completions format writes it."""
    _, message, kind, code, param = complaint
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def includes_usage(body: dict[str, Any]) -> bool:
    settings = body.get("stream_options")
    return isinstance(settings, dict) and settings.get("include_usage") is True
