"""Prompts and terms for the tests of this wire, and what they make of them."""

from typing import Any

import orjson

from routing.exchange import Prompt, Terms, WireRequest
from routing.upstreams.responses.wire import RESPONSES

USER: dict[str, Any] = {"role": "user", "content": "hi"}
# What an endpoint of this kind usually lists.
USUAL = frozenset(
    {
        *("temperature", "top_p", "max_tokens", "tools", "tool_choice", "parallel_tool_calls"),
        *("response_format", "reasoning", "verbosity", "logprobs", "top_logprobs"),
        *("service_tier", "user", "prompt_cache_key", "cache_control"),
    }
)


def terms(**changes: Any) -> Terms:
    fields = Terms(
        upstream_model="up-1",
        supported=USUAL,
        user_hash=None,
        credential="secret",
        output_cap=None,
        output_default=4096,
    )
    return fields._replace(**changes)


def prompt(body: dict[str, Any] | None = None, **changes: Any) -> Prompt:
    fields = Prompt(
        body={"model": "acme/small", "messages": [USER], **(body or {})},
        original=None,
        stream=False,
        max_output_tokens=None,
        effort=None,
        reasoning_tokens=None,
        exclude_reasoning=False,
    )
    return fields._replace(**changes)


def call(made: Prompt, at: Terms | None = None) -> WireRequest:
    return RESPONSES.request(made, at or terms())


def sent(body: dict[str, Any] | None = None, at: Terms | None = None, **changes: Any) -> Any:
    """The parsed body of the call that a chat-shaped body makes."""
    return orjson.loads(call(prompt(body, **changes), at).body)


def items_of(*messages: dict[str, Any]) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = sent({"messages": list(messages)})["input"]
    return items


def passed(original: dict[str, Any], at: Terms | None = None, **changes: Any) -> Any:
    """The parsed body of the call that a caller of the same format makes."""
    made = prompt(original={"model": "acme/small", "input": "hi", **original}, **changes)
    return orjson.loads(call(made, at).body)
