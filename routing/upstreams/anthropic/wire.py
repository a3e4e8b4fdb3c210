"""Endpoints that speak the messages API: what to send, and how to read what they say."""

from typing import Any, Final

from gateway.http.jsonio import dumps
from routing.entities.exchange import Answer, Prompt, Terms, WireRequest
from routing.upstreams.anthropic.answers import KIND, read_answer
from routing.upstreams.anthropic.betas import INTERLEAVED, betas_of
from routing.upstreams.anthropic.passed import passed_body
from routing.upstreams.anthropic.reading import MessagesReader
from routing.upstreams.anthropic.translated import translated_body

MESSAGES_PATH: Final = "/messages"
VERSION: Final = "2023-06-01"


class AnthropicMessages:
    """The adapter of wire kind `anthropic`."""

    kind = KIND
    takes_budgets = True

    def request(self, prompt: Prompt, terms: Terms) -> WireRequest:
        """A messages call: translated, or the caller's own body where it speaks this format."""
        if prompt.original is not None:
            body = passed_body(prompt, terms)
            betas = betas_of(body)
        else:
            body = translated_body(prompt, terms)
            betas = betas_of(body) + _wanted_betas(body)
        return WireRequest(MESSAGES_PATH, _headers(prompt, terms, betas), dumps(body))

    def answer(self, body: bytes, content_type: str) -> Answer:
        """Read a whole answer. Raises `UpstreamFailure` where there is none in it."""
        return read_answer(body, content_type)

    def reader(self) -> MessagesReader:
        """For one stream."""
        return MessagesReader()


def _wanted_betas(body: dict[str, Any]) -> list[str]:
    """Callers of other formats know no headers of this one, and their models think between calls
    as a matter of course."""
    thinks = body.get("thinking", {}).get("type") == "enabled"
    return [INTERLEAVED] if thinks and "tools" in body else []


def _headers(prompt: Prompt, terms: Terms, betas: list[str]) -> tuple[tuple[str, str], ...]:
    headers = [
        ("Content-Type", "application/json"),
        ("Accept", "text/event-stream" if prompt.stream else "application/json"),
        ("anthropic-version", VERSION),
    ]
    if betas:
        headers.append(("anthropic-beta", ",".join(betas)))
    if terms.credential:
        headers.append(("x-api-key", terms.credential))
    return tuple(headers)


ANTHROPIC: Final = AnthropicMessages()
