"""Messages, prompts and terms to build requests of any wire from, and what a request then says."""

import json
from typing import Any

from routing.entities.exchange import Prompt, Terms, Wire


def user(content: Any, **fields: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **fields}


def assistant(content: Any = None, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **fields}


def call(call_id: str, arguments: str = "{}", name: str = "f") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(call_id: str, content: Any = "done", **fields: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content, **fields}


def text(value: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": value, **fields}


def prompt(body: dict[str, Any], **changes: Any) -> Prompt:
    return Prompt(body, None, False, None, None, None, False)._replace(**changes)


def terms(supported: frozenset[str] | set[str], **changes: Any) -> Terms:
    plain = Terms("up-1", frozenset(supported), None, "secret", None, 4096)
    return plain._replace(**changes)


def sent_body(wire: Wire, prompt: Prompt, terms: Terms) -> dict[str, Any]:
    """The parsed body of the call."""
    value: dict[str, Any] = json.loads(wire.request(prompt, terms).body)
    return value
