"""Errors as the messages format writes them."""

from typing import Any

from routing.simulator.formats.base import Complaint

TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    422: "invalid_request_error",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def error(complaint: Complaint) -> dict[str, Any]:
    """The type follows the status alone."""
    kind = TYPES.get(complaint.status, "api_error")
    said = {"type": kind, "message": complaint.message}
    return {"type": "error", "error": said, "request_id": "req_simulated"}


def failure(message: str) -> dict[str, Any]:
    """An error where the status can no longer say it."""
    return {"type": "error", "error": {"type": "api_error", "message": message}}
