"""Messages: content blocks, events with names, and a provider that is strict about both."""

from routing.simulator.answer import SimulatedAnswer
from routing.simulator.encoding import JsonObject
from routing.simulator.formats.base import WrittenFormat
from routing.simulator.formats.messages.reading import list_prefixes, read_as_chat
from routing.simulator.formats.messages.request_rules import find_complaint
from routing.simulator.formats.messages.writing import (
    MessageWriter,
    build_error,
    build_failure,
    build_message,
)
from routing.simulator.prompt import CacheUse, PromptCache


class SimulatedMessages(WrittenFormat):
    name = "messages"
    writer = MessageWriter
    read_request = staticmethod(read_as_chat)
    complaint = staticmethod(find_complaint)
    document = staticmethod(build_message)
    error = staticmethod(build_error)

    def use_cache(self, cache: PromptCache, persona: str, body: JsonObject) -> CacheUse:
        return cache.use(persona, list_prefixes(body))

    def build_hollow(
        self, body: JsonObject, answer: SimulatedAnswer
    ) -> tuple[JsonObject, list[bytes]]:
        stop = self.event({"type": "message_stop"})
        opening = MessageWriter(body, answer).opening()
        return {**build_message(body, answer), "content": None}, [opening, stop]

    def build_broken(self, body: JsonObject, answer: SimulatedAnswer) -> JsonObject:
        return build_failure("Simulated failure inside the stream.")
