"""JSON and text as bytes."""

import json
from typing import Any


def dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def encoded(text: str) -> bytes:
    # A lone surrogate echoed from the prompt has no UTF-8 form.
    return text.encode("utf-8", "replace")


def named_event(name: str, value: Any) -> bytes:
    """One server-sent event; without a name it has no `event` line."""
    label = f"event: {name}\n" if name else ""
    return encoded(f"{label}data: {dumps(value)}\n\n")
