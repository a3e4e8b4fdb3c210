"""Chat completions as a caller format."""

from typing import Final

from gateway.http.errors import GatewayError
from gateway.http.jsonio import JsonObject
from gateway.http.responses import error_body
from routing.entities.ids import tool_call_id
from routing.formats.caller import AnswerIdentity, CallerFormat, CompleteAnswer, StreamWriter
from routing.formats.chat.request import ChatRequest, parse_chat
from routing.formats.chat.stream import (
    ChatStream,
    LegacyChatStream,
    build_legacy_message,
    convert_legacy_finish,
)


class ChatFormat:
    """See `CallerFormat`; what the others are translated into and from."""

    name = "chat"
    wire = "openai"
    id_prefix = "gen-"
    api_type = "completions"
    finishing_errors: frozenset[str] = frozenset()

    def parse(
        self,
        body: JsonObject,
        *,
        session_header: str | None,
        models_max: int,
        beside: JsonObject | None = None,
    ) -> ChatRequest:
        assert not beside
        return parse_chat(body, session_header=session_header, models_max=models_max)

    def new_call_id(self) -> str:
        return tool_call_id()

    def write_answer(self, answer: CompleteAnswer) -> JsonObject:
        ending = answer.ending
        message, finish_reason = answer.message, ending.finish_reason
        if answer.request.offers_functions:
            message = build_legacy_message(message)
            finish_reason = convert_legacy_finish(finish_reason)
        choice = {
            "index": 0,
            "message": message,
            "finish_reason": finish_reason,
            "native_finish_reason": ending.native_finish,
            "logprobs": answer.logprobs,
        }
        if ending.failure is not None:
            # Generation broke after partial output.
            choice["error"] = ending.failure
        served = answer.served
        body = {
            "id": served.generation_id,
            "object": "chat.completion",
            "created": served.created,
            "model": served.model,
            "provider": served.provider,
            "system_fingerprint": answer.system_fingerprint,
            "service_tier": ending.service_tier,
            "choices": [choice],
            "usage": ending.usage,
        }
        if ending.router_metadata is not None:
            body["router_metadata"] = ending.router_metadata
        if ending.beside is not None:
            body["choices"] = [ending.beside.choice | choice]
            body = ending.beside.answer | body
        return body

    def writer(self, served: AnswerIdentity, request: ChatRequest) -> StreamWriter:
        reasoning = request.reasoning
        writer = LegacyChatStream if request.offers_functions else ChatStream
        return writer(served, hides_tools=reasoning is not None and reasoning.exclude)

    def error_body(
        self, error: GatewayError, *, generation_id: str | None, beside: JsonObject
    ) -> JsonObject:
        return error_body(error, **beside)


CHAT: Final[CallerFormat] = ChatFormat()
