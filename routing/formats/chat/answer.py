"""The non-streaming chat answer (inference reference 2)."""

from typing import Any, NamedTuple


class Served(NamedTuple):
    """What every answer and chunk of one generation says of itself."""

    generation_id: str
    created: int
    model: str
    provider: str


def chat_answer(
    served: Served,
    *,
    choice: dict[str, Any],
    usage: dict[str, Any],
    system_fingerprint: str | None,
    service_tier: str | None,
) -> dict[str, Any]:
    """The whole body; `choice` is made by `chat_choice`, `usage` by metering."""
    return {
        "id": served.generation_id,
        "object": "chat.completion",
        "created": served.created,
        "model": served.model,
        "provider": served.provider,
        "system_fingerprint": system_fingerprint,
        "service_tier": service_tier,
        "choices": [choice],
        "usage": usage,
    }


def chat_choice(
    message: dict[str, Any],
    *,
    finish_reason: str,
    native_finish: str | None,
    logprobs: Any,
    error: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The one choice; `error` stands where generation broke after partial output."""
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": finish_reason,
        "native_finish_reason": native_finish,
        "logprobs": logprobs,
    }
    if error is not None:
        choice["error"] = error
    return choice
