"""Messages: content blocks, events with names, and a provider that is strict about both."""

from collections.abc import Mapping

from routing.simulator.answer import SimulatedAnswer
from routing.simulator.encoding import JsonObject, write_event
from routing.simulator.formats.base import (
    Complaint,
    SimulatedStream,
    WritingSpeaker,
    read_event_name,
)
from routing.simulator.formats.messages.reading import list_prefixes, read_as_chat
from routing.simulator.formats.messages.request_rules import find_complaint
from routing.simulator.formats.messages.writing import (
    MessageWriter,
    build_error,
    build_failure,
    build_message,
)
from routing.simulator.prompt import CacheUse, PromptCache


class SimulatedMessages:
    name = "messages"

    def read_request(self, body: JsonObject) -> JsonObject:
        return read_as_chat(body)

    def complaint(self, headers: Mapping[str, str], body: JsonObject) -> Complaint | None:
        return find_complaint(headers, body)

    def use_cache(self, cache: PromptCache, persona: str, body: JsonObject) -> CacheUse:
        return cache.use(persona, list_prefixes(body))

    def document(self, body: JsonObject, answer: SimulatedAnswer) -> JsonObject:
        return build_message(body, answer)

    def stream(self, body: JsonObject, answer: SimulatedAnswer) -> SimulatedStream:
        writer = MessageWriter(body, answer)
        return SimulatedStream(
            opening=writer.opening(),
            content=[said for piece in answer.pieces if (said := writer.piece(piece))],
            closing=writer.closing(),
        )

    def build_hollow(
        self, body: JsonObject, answer: SimulatedAnswer
    ) -> tuple[JsonObject, list[bytes]]:
        writer = MessageWriter(body, answer)
        stop = self.event({"type": "message_stop"})
        return {**build_message(body, answer), "content": None}, [writer.opening(), stop]

    def speaker(self, body: JsonObject, answer: SimulatedAnswer) -> WritingSpeaker:
        return WritingSpeaker(MessageWriter(body, answer), answer)

    def event(self, value: object) -> bytes:
        return write_event(read_event_name(value), value)

    def error(self, complaint: Complaint) -> JsonObject:
        return build_error(complaint)

    def build_broken(self, body: JsonObject, answer: SimulatedAnswer) -> JsonObject:
        return build_failure("Simulated failure inside the stream.")
