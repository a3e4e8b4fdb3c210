"""Small messages bodies."""

from typing import Any

from routing.formats.messages.format import MESSAGES
from tests.routing.formats.chat_bodies import USER, Bodies

__all__ = ["USER"]

TOOL: dict[str, Any] = {"name": "f", "input_schema": {"type": "object"}}
USE: dict[str, Any] = {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": [1, "é"]}}
RESULT: dict[str, Any] = {"type": "tool_result", "tool_use_id": "t1", "content": "r"}
TEXT: dict[str, Any] = {"type": "text", "text": "x"}
PNG: dict[str, Any] = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
IMAGE: dict[str, Any] = {"type": "image", "source": PNG}
EPHEMERAL: dict[str, Any] = {"type": "ephemeral"}

BODIES = Bodies(MESSAGES, max_tokens=4096, messages=[USER])
body_of, parse_fields, expect_refusal, paths = (
    BODIES.body,
    BODIES.parse_fields,
    BODIES.expect_refusal,
    BODIES.paths,
)


def message_by(role: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


def document(source: str, **fields: Any) -> dict[str, Any]:
    """A document of a kind of source."""
    return {"type": "document", "source": {"type": source, **fields}}


def chat_of(*messages: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    """The chat messages that messages become."""
    translated: list[dict[str, Any]] = parse_fields(messages=list(messages), **fields).body[
        "messages"
    ]
    return translated
