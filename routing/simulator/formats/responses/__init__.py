"""Responses: input and output items, numbered events, and a provider that stores nothing."""

from collections.abc import Mapping
from typing import Any

from routing.simulator.cache import NO_CACHE, CacheUse, PromptCache
from routing.simulator.encoding import named_event
from routing.simulator.formats import chat
from routing.simulator.formats.base import Complaint, Stream, WritingSpeaker, event_of
from routing.simulator.formats.responses import reading, request_rules
from routing.simulator.formats.responses.streaming import ResponseWriter
from routing.simulator.formats.responses.writing import failed, response
from routing.simulator.wire import Answer


class Responses:
    name = "responses"

    def asked(self, body: dict[str, Any]) -> dict[str, Any]:
        return reading.as_chat(body)

    def complaint(self, headers: Mapping[str, str], body: dict[str, Any]) -> Complaint | None:
        return request_rules.complaint(headers, body)

    def cached(self, cache: PromptCache, persona: str, body: dict[str, Any]) -> CacheUse:
        return NO_CACHE

    def document(self, body: dict[str, Any], answer: Answer) -> dict[str, Any]:
        return response(body, answer)

    def stream(self, body: dict[str, Any], answer: Answer) -> Stream:
        writer = ResponseWriter(body, answer)
        return Stream(
            opening=writer.opening(),
            content=[said for piece in answer.pieces if (said := writer.piece(piece))],
            closing=writer.closing(),
        )

    def hollow(self, body: dict[str, Any], answer: Answer) -> tuple[dict[str, Any], list[bytes]]:
        document = {**response(body, answer), "output": None}
        last = {"type": "response.completed", "response": document, "sequence_number": 2}
        return document, [ResponseWriter(body, answer).opening(), self.event(last)]

    def speaker(self, body: dict[str, Any], answer: Answer) -> WritingSpeaker:
        return WritingSpeaker(ResponseWriter(body, answer), answer)

    def event(self, value: Any) -> bytes:
        return named_event(event_of(value), value)

    def error(self, complaint: Complaint) -> dict[str, Any]:
        return chat.error(complaint)

    def broken(self, body: dict[str, Any], answer: Answer) -> dict[str, Any]:
        return failed(body, answer, "Simulated failure inside the stream.")
