"""Log probabilities of output text in the chat format's shape."""

from typing import Any


def chat_tokens(logprobs: Any) -> list[dict[str, Any]]:
    """The tokens of a `logprobs` array; what is no token is left out."""
    if not isinstance(logprobs, list):
        return []
    return [
        {**_token(said), "top_logprobs": _alternatives(said.get("top_logprobs"))}
        for said in logprobs
        if _is_token(said)
    ]


def _alternatives(said: Any) -> list[dict[str, Any]]:
    return [_token(token) for token in said if _is_token(token)] if isinstance(said, list) else []


def _is_token(said: Any) -> bool:
    return (
        isinstance(said, dict)
        and isinstance(said.get("token"), str)
        and type(said.get("logprob")) in (int, float)
    )


def _token(said: dict[str, Any]) -> dict[str, Any]:
    octets = said.get("bytes")
    is_known = isinstance(octets, list) and all(type(octet) is int for octet in octets)
    return {
        "token": said["token"],
        "logprob": said["logprob"],
        "bytes": octets if is_known else None,
    }
