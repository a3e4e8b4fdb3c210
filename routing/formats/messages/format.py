"""Messages as a caller format."""

from typing import Final

from gateway.http.errors import GatewayError
from gateway.http.jsonio import JsonObject
from routing.entities.ids import tool_use_id
from routing.formats.caller import AnswerIdentity, CallerFormat, CompleteAnswer, StreamWriter
from routing.formats.chat.request import ChatRequest
from routing.formats.messages.read import parse_messages
from routing.formats.messages.stream import MessagesStream
from routing.formats.messages.write import WIRE, build_answer, build_error_body


class MessagesFormat:
    """See `CallerFormat`."""

    name = "messages"
    wire = WIRE
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
        return parse_messages(
            body, session_header=session_header, models_max=models_max, beside=beside
        )

    def new_call_id(self) -> str:
        return tool_use_id()

    def write_answer(self, answer: CompleteAnswer) -> JsonObject:
        return build_answer(answer)

    def writer(self, served: AnswerIdentity, request: ChatRequest) -> StreamWriter:
        return MessagesStream(served, request)

    def error_body(
        self, error: GatewayError, *, generation_id: str | None, beside: JsonObject
    ) -> JsonObject:
        metadata = beside.get("router_metadata")
        return build_error_body(error, generation_id=generation_id, router_metadata=metadata)


MESSAGES: Final[CallerFormat] = MessagesFormat()
