"""What an endpoint of the responses API is sent for a chat body, and for one of the same format."""

from typing import Any

from routing.entities.exchange import Prompt, Terms, WireRequest
from routing.upstreams.responses.wire import RESPONSES
from tests.gateway.outbound import asking
from tests.gateway.outbound.asking import user

USER = user("hi")
# What an endpoint of this kind usually lists.
USUAL = frozenset(
    {"temperature", "top_p", "max_tokens", "tools", "tool_choice", "parallel_tool_calls", "user"}
    | {"response_format", "reasoning", "verbosity", "logprobs", "top_logprobs", "service_tier"}
    | {"prompt_cache_key", "cache_control"}
)
SEALED = "reasoning.encrypted_content"


def terms(supported: frozenset[str] | set[str] = USUAL, **changes: Any) -> Terms:
    return asking.terms(supported, **changes)


def prompt(body: dict[str, Any] | None = None, **changes: Any) -> Prompt:
    return asking.prompt({"model": "acme/small", "messages": [USER], **(body or {})}, **changes)


def call(made: Prompt, at: Terms | None = None) -> WireRequest:
    return RESPONSES.request(made, at or terms())


def sent_body(body: dict[str, Any] | None = None, at: Terms | None = None, **changes: Any) -> Any:
    """The parsed body of the call that a chat-shaped body makes."""
    return asking.sent_body(RESPONSES, prompt(body, **changes), at or terms())


def items_of(*messages: dict[str, Any]) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = sent_body({"messages": list(messages)})["input"]
    return items


def passed_body(original: dict[str, Any], at: Terms | None = None, **changes: Any) -> Any:
    """The parsed body of the call that a caller of the same format makes, without what is the same
    in all of them."""
    whole = {"model": "acme/small", "input": "hi", **original}
    made = asking.sent_body(RESPONSES, prompt(original=whole, **changes), at or terms())
    same = {"model": "up-1", "store": False, "stream": False, "input": whole["input"]}
    assert {name: made.pop(name) for name in same} == same
    return made
