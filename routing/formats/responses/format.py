"""POST /responses as a caller format."""

from gateway.http import responses as http_responses
from gateway.http.errors import GatewayError
from gateway.http.jsonio import JsonObject
from routing.entities.ids import tool_call_id
from routing.formats.caller import AnswerIdentity, CallerFormat, CompleteAnswer, StreamWriter
from routing.formats.chat.request import ChatRequest
from routing.formats.responses.read import parse_responses
from routing.formats.responses.stream import ResponsesStream
from routing.formats.responses.write import LIMITS


class ResponsesFormat:
    """Parses, answers and streams in the responses format."""

    name = "responses"
    wire = "responses"
    id_prefix = "gen-"
    api_type = "completions"
    finishing_errors = LIMITS

    def parse(
        self,
        body: JsonObject,
        *,
        session_header: str | None,
        models_max: int,
        beside: JsonObject | None = None,
    ) -> ChatRequest:
        return parse_responses(
            body, session_header=session_header, models_max=models_max, beside=beside
        )

    def new_call_id(self) -> str:
        return tool_call_id()

    def write_answer(self, answer: CompleteAnswer) -> JsonObject:
        stream = ResponsesStream(answer.served, answer.request)
        return stream.write_answer(answer)

    def writer(self, served: AnswerIdentity, request: ChatRequest) -> StreamWriter:
        return ResponsesStream(served, request)

    def error_body(
        self, error: GatewayError, *, generation_id: str | None, beside: JsonObject
    ) -> JsonObject:
        """The ordinary body; the generation's id travels in its header."""
        return http_responses.error_body(error, **beside)


RESPONSES: CallerFormat = ResponsesFormat()
