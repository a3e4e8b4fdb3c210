"""The steps of a call, as serving takes them: parse, and ask upstream."""

import json
from typing import Any

from routing.entities.exchange import Prompt, Terms
from routing.formats.caller import CallerFormat
from routing.formats.chat.format import CHAT
from routing.formats.chat.forward import build_forwarded_body
from routing.formats.chat.request import ChatRequest
from routing.formats.messages.format import MESSAGES
from routing.formats.responses.format import RESPONSES
from routing.upstreams.wires import get_wire

FORMATS: dict[str, CallerFormat] = {format.wire: format for format in (CHAT, MESSAGES, RESPONSES)}
KINDS = list(FORMATS)
SUPPORTED = frozenset(
    {
        *("temperature", "top_p", "max_tokens", "max_completion_tokens", "stop", "tools"),
        *("tool_choice", "parallel_tool_calls", "response_format", "structured_outputs"),
        *("reasoning", "reasoning_effort", "include_reasoning"),
    }
)


def parse_body(kind: str, body: dict[str, Any]) -> ChatRequest:
    """A body in the format that a wire kind speaks, as its caller's request."""
    given = json.loads(json.dumps(body))
    return FORMATS[kind].parse(given, session_header=None, models_max=3)


def upstream_body(kind: str, request: ChatRequest) -> dict[str, Any]:
    """What an upstream of the kind is sent by somebody who speaks another format."""
    body = request.body
    if kind == CHAT.wire:
        body = build_forwarded_body(
            request,
            upstream_model="up-1",
            supported=SUPPORTED,
            user_hash=None,
            stream_usage=True,
            max_tokens_cap=None,
        )
    asked = request.reasoning
    efforts = (asked.effort, asked.max_tokens) if asked else (None, None)
    prompt = Prompt(body, None, request.stream, request.max_output_tokens, *efforts, False)
    terms = Terms("up-1", SUPPORTED, None, "secret", None, 4096)
    made: dict[str, Any] = json.loads(get_wire(kind).request(prompt, terms).body)
    return made
