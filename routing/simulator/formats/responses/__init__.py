"""Responses: input and output items, numbered events, and a provider that stores nothing."""

from collections.abc import Mapping

from routing.simulator.answer import SimulatedAnswer
from routing.simulator.encoding import JsonObject, write_event
from routing.simulator.formats import chat
from routing.simulator.formats.base import (
    Complaint,
    SimulatedStream,
    WritingSpeaker,
    read_event_name,
)
from routing.simulator.formats.responses.reading import read_as_chat
from routing.simulator.formats.responses.request_rules import find_complaint
from routing.simulator.formats.responses.writing import (
    ResponseWriter,
    build_failed_response,
    build_response,
)
from routing.simulator.prompt import NO_CACHE, CacheUse, PromptCache


class SimulatedResponses:
    name = "responses"

    def read_request(self, body: JsonObject) -> JsonObject:
        return read_as_chat(body)

    def complaint(self, headers: Mapping[str, str], body: JsonObject) -> Complaint | None:
        return find_complaint(headers, body)

    def use_cache(self, cache: PromptCache, persona: str, body: JsonObject) -> CacheUse:
        return NO_CACHE

    def document(self, body: JsonObject, answer: SimulatedAnswer) -> JsonObject:
        return build_response(body, answer)

    def stream(self, body: JsonObject, answer: SimulatedAnswer) -> SimulatedStream:
        writer = ResponseWriter(body, answer)
        return SimulatedStream(
            opening=writer.opening(),
            content=[said for piece in answer.pieces if (said := writer.piece(piece))],
            closing=writer.closing(),
        )

    def build_hollow(
        self, body: JsonObject, answer: SimulatedAnswer
    ) -> tuple[JsonObject, list[bytes]]:
        document = {**build_response(body, answer), "output": None}
        last = {"type": "response.completed", "response": document, "sequence_number": 2}
        return document, [ResponseWriter(body, answer).opening(), self.event(last)]

    def speaker(self, body: JsonObject, answer: SimulatedAnswer) -> WritingSpeaker:
        return WritingSpeaker(ResponseWriter(body, answer), answer)

    def event(self, value: object) -> bytes:
        return write_event(read_event_name(value), value)

    def error(self, complaint: Complaint) -> JsonObject:
        return chat.build_error(complaint)

    def build_broken(self, body: JsonObject, answer: SimulatedAnswer) -> JsonObject:
        return build_failed_response(body, answer, "Simulated failure inside the stream.")
