"""The events of a stream, as `docs/reference/interns-agent.md` lists them."""

import json
from typing import Any, TypeAlias

KEEPALIVE = b": keepalive\n\n"
# After one of these a stream ends cleanly.
LAST = frozenset({"question", "end", "failed"})

JsonObject: TypeAlias = dict[str, Any]
Event: TypeAlias = JsonObject


def model(name: str) -> Event:
    return {"type": "model", "model": name}


def content(text: str) -> Event:
    return {"type": "content", "text": text}


def reasoning(text: str) -> Event:
    return {"type": "reasoning", "text": text}


def tool(name: str, state: str) -> Event:
    return {"type": "tool", "name": name, "state": state}


def question(id: str, asked: JsonObject) -> Event:
    return {"type": "question", "id": id, "question": asked}


def end(usage: dict[str, Any] | None) -> Event:
    return {"type": "end", "usage": usage}


def failure(
    reason: str,
    message: str,
    *,
    retryable: bool = False,
    code: int | None = None,
    usage: dict[str, Any] | None = None,
) -> Event:
    event = {"type": "failed", "reason": reason, "message": message, "retryable": retryable}
    return event | {"usage": usage} | ({} if code is None else {"code": code})


def frame_event(event: Event) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(event, ensure_ascii=False).encode("utf-8", "replace") + b"\n\n"
