"""What goes upstream of the messages API for a chat body, and for one of the same format."""

from typing import Any

from routing.entities.exchange import Prompt, Terms, WireRequest
from routing.upstreams.anthropic.wire import ANTHROPIC
from tests.gateway.outbound import asking
from tests.gateway.outbound.asking import prompt, user

EVERYTHING = frozenset(
    {"temperature", "top_p", "top_k", "stop", "tools", "tool_choice", "parallel_tool_calls"}
    | {"reasoning", "response_format", "structured_outputs", "service_tier"}
)
PNG_URL = "data:image/png;base64,iVBORw0KGgo="
TOOL: dict[str, Any] = {"type": "function", "function": {"name": "f"}}
HI = [user("hi")]
EPHEMERAL = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}


def terms(supported: frozenset[str] | set[str] = EVERYTHING, **changes: Any) -> Terms:
    return asking.terms(supported, **changes)


def request(prompt: Prompt, at: Terms | None = None) -> WireRequest:
    return ANTHROPIC.request(prompt, at or terms())


def sent_body(prompt: Prompt, at: Terms | None = None) -> dict[str, Any]:
    return asking.sent_body(ANTHROPIC, prompt, at or terms())


def sent_for(messages: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    """What goes upstream for a chat body with these messages and fields."""
    return sent_body(prompt({"messages": messages, **fields}))


def turns_for(*messages: dict[str, Any]) -> list[tuple[str, list[Any]]]:
    """Roles and contents of the turns that go upstream."""
    return [(turn["role"], turn["content"]) for turn in sent_for([*messages])["messages"]]


def betas(request: WireRequest) -> list[str]:
    named = dict(request.headers).get("anthropic-beta", "")
    return named.split(",") if named else []
