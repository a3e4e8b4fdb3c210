"""Error objects of the messages API: words where other wires say a status."""

from typing import Any, Final

_STATUSES: Final = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}


def coded(error: Any) -> Any:
    """The error object with the HTTP status that its `type` stands for as its `code`."""
    if not isinstance(error, dict):
        return error or {}
    kind = error.get("type")
    status = _STATUSES.get(kind) if isinstance(kind, str) else None
    return {**error, "code": status} if status and error.get("code") is None else error
