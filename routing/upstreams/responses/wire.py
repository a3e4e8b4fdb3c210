"""Endpoints that speak the responses API."""

from typing import Final

from gateway.http.jsonio import dumps
from routing.entities.exchange import Answer, Prompt, StreamReader, Terms, Wire, WireRequest
from routing.upstreams.responses.answers import KIND, read_answer
from routing.upstreams.responses.body import translated_body
from routing.upstreams.responses.passing import passed_body
from routing.upstreams.responses.reading import ResponsesReader

PATH: Final = "/responses"


class Responses:
    """See `Wire`. Nothing is stored upstream: every call brings its whole conversation."""

    kind = KIND
    takes_budgets = False

    def request(self, prompt: Prompt, terms: Terms) -> WireRequest:
        if prompt.original is not None:
            body = passed_body(prompt.original, prompt, terms)
        else:
            body = translated_body(prompt, terms)
        headers = [
            ("Content-Type", "application/json"),
            ("Accept", "text/event-stream" if prompt.stream else "application/json"),
        ]
        if terms.credential:
            headers.append(("Authorization", f"Bearer {terms.credential}"))
        return WireRequest(PATH, tuple(headers), dumps(body))

    def answer(self, body: bytes, content_type: str) -> Answer:
        return read_answer(body, content_type)

    def reader(self) -> StreamReader:
        return ResponsesReader()


RESPONSES: Final[Wire] = Responses()
