"""Decisions: typed questions about a state, answered with probabilities and never streamed."""

from collections.abc import Mapping
from typing import Any

from routing.simulator.cache import NO_CACHE, CacheUse, PromptCache
from routing.simulator.encoding import named_event
from routing.simulator.formats import chat
from routing.simulator.formats.base import Complaint, Stream
from routing.simulator.formats.chat import ChatSpeaker
from routing.simulator.formats.decisions import request_rules, writing
from routing.simulator.wire import Answer


class Decisions:
    name = "decisions"

    def asked(self, body: dict[str, Any]) -> dict[str, Any]:
        return {
            "model": body.get("model"),
            "messages": [{"role": "user", "content": writing.told(body)}],
        }

    def complaint(self, headers: Mapping[str, str], body: dict[str, Any]) -> Complaint | None:
        return request_rules.complaint(body)

    def cached(self, cache: PromptCache, persona: str, body: dict[str, Any]) -> CacheUse:
        return NO_CACHE

    def document(self, body: dict[str, Any], answer: Answer) -> dict[str, Any]:
        return writing.document(body, answer)

    def stream(self, body: dict[str, Any], answer: Answer) -> Stream:
        """There are no streams; who asks for one gets the document as its only event."""
        return Stream(opening=self.event(self.document(body, answer)))

    def hollow(self, body: dict[str, Any], answer: Answer) -> tuple[dict[str, Any], list[bytes]]:
        document = {**self.document(body, answer), "answers": {}}
        return document, [self.event(document)]

    def speaker(self, body: dict[str, Any], answer: Answer) -> ChatSpeaker:
        return ChatSpeaker(body, answer)

    def event(self, value: Any) -> bytes:
        return named_event("", value)

    def error(self, complaint: Complaint) -> dict[str, Any]:
        """A question is blamed by its path, as validators of request bodies do it."""
        if complaint.status != 422:
            return chat.error(complaint)
        place = (complaint.param or "").split(".") if complaint.param else []
        return {"detail": [{"loc": ["body", *place], "msg": complaint.message, "type": "value"}]}

    def broken(self, body: dict[str, Any], answer: Answer) -> dict[str, Any]:
        return chat.FAILURE
