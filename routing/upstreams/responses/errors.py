"""Failures that an upstream reports inside a 200, with the codes the rest of the house knows."""

from typing import Any, Final

# Codes that stand for an HTTP status; the others speak for themselves.
_STATUS_OF: Final[dict[str, int]] = {
    "invalid_prompt": 400,
    "invalid_request": 400,
    "invalid_request_error": 400,
    "rate_limit_exceeded": 429,
    "rate_limit_error": 429,
    "insufficient_quota": 429,
    "timeout": 524,
    "server_is_overloaded": 503,
    "slow_down": 503,
    "provider_overloaded": 503,
}
# Other names for codes that are known.
_ALSO_CALLED: Final = {"image_content_policy_violation": "content_policy_violation"}
# What a gateway's own code says more exactly in a field beside it.
_VAGUE: Final = (None, "server_error", "invalid_prompt")


def error_of(value: Any, error_type: Any = None) -> dict[str, Any]:
    """The error object of a failure. `value` is what was said where an error belongs, and
    `error_type` the more exact word that gateways put beside it."""
    error = value if isinstance(value, dict) else {}
    code = error.get("code")
    if code in _VAGUE and isinstance(error_type, str):
        code = error_type
    if code is None:
        code = error.get("type")
    message = error.get("message") or (value if isinstance(value, str) else None)
    if not isinstance(message, str):
        message = "the upstream failed the response"
    return {"code": _known(code), "message": message}


def _known(code: Any) -> int | str | None:
    if isinstance(code, str):
        return _STATUS_OF.get(code) or _ALSO_CALLED.get(code, code)
    return code if type(code) is int else None
