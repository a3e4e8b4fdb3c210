"""What formats and upstream adapters exchange, so that neither needs to know the other.

Deltas, messages and logprobs are in the shape of the chat format, the common tongue of both sides.
"""

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Event:
    """One parsed upstream event. `native_finish` is the provider's own word.

    `usage` is the raw usage object, `error` a raw error object inside a 200 stream; without
    `has_choice` the event spoke of other things only.
    """

    delta: dict[str, Any] = field(default_factory=dict)
    native_finish: str | None = None
    logprobs: Any = None
    usage: Any = None
    error: Any = None
    upstream_id: str | None = None
    system_fingerprint: str | None = None
    service_tier: str | None = None
    has_choice: bool = True


@dataclass(slots=True)
class Answer:
    """One whole upstream answer; `message` is chat-shaped. `error` as in `Event`."""

    message: dict[str, Any]
    native_finish: str | None
    logprobs: Any
    usage: Any
    error: Any
    upstream_id: str | None
    system_fingerprint: str | None
    service_tier: str | None


@dataclass(frozen=True, slots=True)
class WireRequest:
    """What goes upstream: path below the provider's base URL, headers and body."""

    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
