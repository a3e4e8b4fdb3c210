"""What goes wrong, in the words of messages (inference reference 4.8 and 9.2)."""

from typing import Any, Final

from gateway.http.errors import GatewayError

_TYPES: Final = {
    "authentication": "authentication_error",
    "payment_required": "billing_error",
    "permission_denied": "permission_error",
    "not_found": "not_found_error",
    "image_not_found": "not_found_error",
    "rate_limit_exceeded": "rate_limit_error",
    "server": "api_error",
    "unmapped": "api_error",
    "provider_unavailable": "api_error",
    "provider_overloaded": "overloaded_error",
    "timeout": "timeout_error",
}
_MODERATION: Final = "content_policy_violation"


def told_status(error: GatewayError) -> int:
    """The HTTP status on messages, which know no 422."""
    return 400 if error.status == 422 else error.status


def error_body(
    error: GatewayError, *, generation_id: str | None, router_metadata: Any = None
) -> dict[str, Any]:
    """The whole body; `generation_id` is None before routing."""
    body: dict[str, Any] = {
        "type": "error",
        "error": error_object(error.body()),
        "request_id": generation_id,
    }
    if router_metadata is not None:
        body["router_metadata"] = router_metadata
    return body


def error_object(error: dict[str, Any]) -> dict[str, Any]:
    """The `error` of bodies and of events, from code, message and metadata with `error_type`."""
    metadata = error.get("metadata") or {}
    error_type = metadata.get("error_type", "unmapped")
    code = error.get("code")
    if error_type == "unprocessable":
        error_type, metadata = "invalid_request", {**metadata, "error_type": "invalid_request"}
    return {
        "type": _word(error_type, metadata),
        "message": error.get("message"),
        "error_type": error_type,
        "code": 400 if code == 422 else code,
        "metadata": metadata,
    }


def _word(error_type: str, metadata: dict[str, Any]) -> str:
    # What the gateway itself blocked names no provider.
    if error_type == _MODERATION and "provider_name" not in metadata:
        return "permission_error"
    return _TYPES.get(error_type, "invalid_request_error")
