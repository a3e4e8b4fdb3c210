"""Responses: input and output items, numbered events, and a provider that stores nothing."""

from routing.simulator.answer import SimulatedAnswer
from routing.simulator.encoding import JsonObject
from routing.simulator.formats import chat
from routing.simulator.formats.base import WrittenFormat
from routing.simulator.formats.responses.reading import read_as_chat
from routing.simulator.formats.responses.request_rules import find_complaint
from routing.simulator.formats.responses.writing import (
    ResponseWriter,
    build_failed_response,
    build_response,
)
from routing.simulator.prompt import NO_CACHE, CacheUse, PromptCache


class SimulatedResponses(WrittenFormat):
    name = "responses"
    writer = ResponseWriter
    read_request = staticmethod(read_as_chat)
    complaint = staticmethod(find_complaint)
    document = staticmethod(build_response)
    error = staticmethod(chat.build_error)

    def use_cache(self, cache: PromptCache, persona: str, body: JsonObject) -> CacheUse:
        return NO_CACHE

    def build_hollow(
        self, body: JsonObject, answer: SimulatedAnswer
    ) -> tuple[JsonObject, list[bytes]]:
        document = {**build_response(body, answer), "output": None}
        last = {"type": "response.completed", "response": document, "sequence_number": 2}
        return document, [ResponseWriter(body, answer).opening(), self.event(last)]

    def build_broken(self, body: JsonObject, answer: SimulatedAnswer) -> JsonObject:
        return build_failed_response(body, answer, "Simulated failure inside the stream.")
