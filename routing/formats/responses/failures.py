"""How this format tells of failures (inference reference 5.4 and 5.5)."""

from typing import Any, Final

# Limits that an upstream met while it answered: what exists by then is an answer cut short.
LIMITS: Final = frozenset(
    {"context_length_exceeded", "max_tokens_exceeded", "token_limit_exceeded", "string_too_long"}
)
_CODES: Final = {
    "rate_limit_exceeded": "rate_limit_exceeded",
    "context_length_exceeded": "invalid_prompt",
    "invalid_request": "invalid_prompt",
    "refusal": "invalid_prompt",
    "content_policy_violation": "image_content_policy_violation",
}


def ends_incomplete(error_type: str | None, *, has_output: bool) -> bool:
    """Whether this failure is delivered as a finished response (`incomplete`, for want of output
    tokens) rather than as an error: a limit, met when some output existed."""
    return has_output and error_type in LIMITS


def error_type_of(failure: dict[str, Any]) -> str:
    """`failure` has code, message and metadata."""
    named: str = (failure.get("metadata") or {}).get("error_type", "server")
    return named


def response_error(failure: dict[str, Any]) -> dict[str, str]:
    """`error` of a failed response."""
    code = _CODES.get(error_type_of(failure), "server_error")
    return {"code": code, "message": failure["message"]}
