"""Messages: content blocks, events with names, and a provider that is strict about both."""

from collections.abc import Mapping
from typing import Any

from routing.simulator.cache import CacheUse, PromptCache
from routing.simulator.encoding import named_event
from routing.simulator.formats.base import Complaint, Stream, WritingSpeaker, event_of
from routing.simulator.formats.messages import caching, reading, request_rules
from routing.simulator.formats.messages.errors import error, failure
from routing.simulator.formats.messages.streaming import MessageWriter
from routing.simulator.formats.messages.writing import message
from routing.simulator.wire import Answer


class Messages:
    name = "messages"

    def asked(self, body: dict[str, Any]) -> dict[str, Any]:
        return reading.as_chat(body)

    def complaint(self, headers: Mapping[str, str], body: dict[str, Any]) -> Complaint | None:
        return request_rules.complaint(headers, body)

    def cached(self, cache: PromptCache, persona: str, body: dict[str, Any]) -> CacheUse:
        return cache.use(persona, caching.prefixes(body))

    def document(self, body: dict[str, Any], answer: Answer) -> dict[str, Any]:
        return message(body, answer)

    def stream(self, body: dict[str, Any], answer: Answer) -> Stream:
        writer = MessageWriter(body, answer)
        return Stream(
            opening=writer.opening(),
            content=[said for piece in answer.pieces if (said := writer.piece(piece))],
            closing=writer.closing(),
        )

    def hollow(self, body: dict[str, Any], answer: Answer) -> tuple[dict[str, Any], list[bytes]]:
        writer = MessageWriter(body, answer)
        stop = self.event({"type": "message_stop"})
        return {**message(body, answer), "content": None}, [writer.opening(), stop]

    def speaker(self, body: dict[str, Any], answer: Answer) -> WritingSpeaker:
        return WritingSpeaker(MessageWriter(body, answer), answer)

    def event(self, value: Any) -> bytes:
        return named_event(event_of(value), value)

    def error(self, complaint: Complaint) -> dict[str, Any]:
        return error(complaint)

    def broken(self, body: dict[str, Any], answer: Answer) -> dict[str, Any]:
        return failure("Simulated failure inside the stream.")
