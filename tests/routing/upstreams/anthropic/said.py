"""Prompts and terms to build requests from, and what a request then says."""

import json
from typing import Any

from routing.exchange import Prompt, Terms, WireRequest
from routing.upstreams.anthropic.wire import ANTHROPIC

EVERYTHING = frozenset(
    {"temperature", "top_p", "top_k", "stop", "tools", "tool_choice", "parallel_tool_calls"}
    | {"reasoning", "response_format", "structured_outputs", "service_tier"}
)
PDF_URL = "data:application/pdf;base64,JVBERi0xLjQ="
PNG_URL = "data:image/png;base64,iVBORw0KGgo="
TOOL: dict[str, Any] = {"type": "function", "function": {"name": "f"}}


def user(content: Any, **fields: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **fields}


def assistant(content: Any = None, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **fields}


def call(call_id: str, arguments: str = "{}", name: str = "f") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(call_id: str, content: Any = "done", **fields: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content, **fields}


def prompt(body: dict[str, Any], **fields: Any) -> Prompt:
    values: dict[str, Any] = {
        "original": None,
        "stream": False,
        "max_output_tokens": None,
        "effort": None,
        "reasoning_tokens": None,
        "exclude_reasoning": False,
    }
    return Prompt(body=body, **(values | fields))


def terms(supported: frozenset[str] = EVERYTHING, **fields: Any) -> Terms:
    values: dict[str, Any] = {
        "user_hash": None,
        "credential": "sk-secret",
        "output_cap": None,
        "output_default": 4096,
    }
    return Terms(upstream_model="claude", supported=supported, **(values | fields))


def sent(prompt: Prompt, terms: Terms) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(request(prompt, terms).body)
    return value


def request(prompt: Prompt, terms: Terms) -> WireRequest:
    return ANTHROPIC.request(prompt, terms)


def sent_for(messages: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    """What goes upstream for a chat body with these messages and fields."""
    return sent(prompt({"messages": messages, **fields}), terms())


def turns_for(messages: list[dict[str, Any]]) -> list[tuple[str, list[Any]]]:
    """Roles and contents of the turns that go upstream."""
    return [(turn["role"], turn["content"]) for turn in sent_for(messages)["messages"]]


def betas(request: WireRequest) -> list[str]:
    named = dict(request.headers).get("anthropic-beta", "")
    return named.split(",") if named else []
