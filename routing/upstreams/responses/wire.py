"""Endpoints that speak the responses API."""

from typing import Final

from gateway.http.jsonio import dumps
from routing.entities.exchange import Answer, Prompt, StreamReader, Terms, Wire, WireRequest
from routing.upstreams.bearer import BearerWire
from routing.upstreams.responses.answer import KIND, read_answer
from routing.upstreams.responses.passthrough import build_passthrough
from routing.upstreams.responses.request import build_request
from routing.upstreams.responses.stream import ResponsesReader

PATH: Final = "/responses"


class Responses(BearerWire):
    """See `Wire`. Nothing is stored upstream: every call brings its whole conversation."""

    kind = KIND
    takes_budgets = False
    output_tokens_min = 16
    usual_parameters: tuple[str, ...] = (
        *("temperature", "top_p", "max_tokens", "response_format", "structured_outputs"),
        *("tools", "tool_choice", "parallel_tool_calls", "reasoning", "reasoning_effort"),
    )

    def request(self, prompt: Prompt, terms: Terms) -> WireRequest:
        if prompt.original is not None:
            body = build_passthrough(prompt.original, prompt, terms)
        else:
            body = build_request(prompt, terms)
        headers = self.headers(terms.credential, stream=prompt.stream)
        return WireRequest(PATH, headers, dumps(body))

    def answer(self, body: bytes, content_type: str) -> Answer:
        return read_answer(body, content_type)

    def reader(self) -> StreamReader:
        return ResponsesReader()


RESPONSES: Final[Wire] = Responses()
