"""Chat completions as a caller format."""

from typing import Any, Final

from gateway.http.errors import GatewayError
from gateway.http.responses import error_body
from routing.entities.ids import tool_call_id
from routing.formats.caller import CallerFormat, StreamWriter, Whole
from routing.formats.chat.answer import Served, chat_answer, chat_choice
from routing.formats.chat.chunks import ChatChunks
from routing.formats.chat.legacy_answers import LegacyChunks, legacy_finish, legacy_message
from routing.formats.chat.request import ChatRequest, parse_chat


class ChatFormat:
    """See `CallerFormat`; what the others are translated into and from."""

    name = "chat"
    wire = "openai"
    id_prefix = "gen-"
    api_type = "completions"
    finishing_errors: frozenset[str] = frozenset()

    def parse(
        self,
        body: dict[str, Any],
        *,
        session_header: str | None,
        models_max: int,
        beside: dict[str, Any] | None = None,
    ) -> ChatRequest:
        assert not beside
        return parse_chat(body, session_header=session_header, models_max=models_max)

    def new_call_id(self) -> str:
        return tool_call_id()

    def whole(self, whole: Whole) -> dict[str, Any]:
        ending = whole.ending
        message, finish_reason = whole.message, ending.finish_reason
        if whole.request.offers_functions:
            message, finish_reason = legacy_message(message), legacy_finish(finish_reason)
        choice = chat_choice(
            message,
            finish_reason=finish_reason,
            native_finish=ending.native_finish,
            logprobs=whole.logprobs,
            error=ending.failure,
        )
        body = chat_answer(
            whole.served,
            choice=choice,
            usage=ending.usage,
            system_fingerprint=whole.system_fingerprint,
            service_tier=ending.service_tier,
        )
        if ending.router_metadata is not None:
            body["router_metadata"] = ending.router_metadata
        if ending.beside is not None:
            body["choices"] = [ending.beside.choice | choice]
            body = ending.beside.answer | body
        return body

    def writer(self, served: Served, request: ChatRequest) -> StreamWriter:
        reasoning = request.reasoning
        writer = LegacyChunks if request.offers_functions else ChatChunks
        return writer(served, hides_tools=reasoning is not None and reasoning.exclude)

    def error_body(
        self, error: GatewayError, *, generation_id: str | None, beside: dict[str, Any]
    ) -> dict[str, Any]:
        return error_body(error, **beside)


CHAT: Final[CallerFormat] = ChatFormat()
