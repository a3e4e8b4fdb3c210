"""What a caller can meet, by name, and the one JSON body of all of it."""

from collections.abc import Sequence
from typing import Any, ClassVar

from gateway.http.request_id import get_request_id
from gateway.http.validation import Issue, join_issues


class GatewayError(Exception):
    """Something the caller can act on. Anything else is a bug and becomes a 500.

    `metadata` becomes `error.metadata` beside `error_type`; `headers` go on the response. `reason`
    becomes `record_reason`, what records of failed requests are grouped by: which limit, budget
    or filter it was.
    """

    status: int = 500
    error_type: str = "server"
    message: ClassVar[str] = "Internal Server Error"
    default_reason: ClassVar[str] = ""

    def __init__(
        self,
        message: str | None = None,
        *,
        metadata: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        reason: str | None = None,
    ) -> None:
        self.text = message or self.message
        super().__init__(self.text)
        self.metadata = metadata or {}
        self.headers = headers or {}
        self._record_reason = reason or self.default_reason

    @property
    def record_reason(self) -> str:
        """A word, such as `key_limit`; the error type where nothing more is to say."""
        source = str(self.metadata.get("limit_source", ""))
        own_limit = source.removeprefix("router_") if source.startswith("router_") else ""
        return self._record_reason or own_limit or self.error_type

    def body(self) -> dict[str, Any]:
        """The `error` object: code, message and metadata with the error type, and within a
        request its id."""
        metadata = {"error_type": self.error_type, **self.metadata}
        if (request_id := get_request_id()) is not None:
            metadata["request_id"] = request_id
        return {"code": self.status, "message": self.text, "metadata": metadata}


class InvalidRequest(GatewayError):
    status, error_type, message = 400, "invalid_request", "Invalid request parameters"


class MalformedJson(InvalidRequest):
    default_reason = "malformed_json"
    message = "Invalid JSON in request body"


class JsonTooDeep(MalformedJson):
    message = "Invalid JSON in request body: nested deeper than 128 levels"


class SchemaInvalid(InvalidRequest):
    """One or more fields break the schema; the body lists up to five of them."""

    def __init__(self, issues: Sequence[Issue], *, error_type: str = "invalid_request") -> None:
        listed = [{"path": issue.path, "message": issue.message} for issue in issues[:5]]
        metadata = {"error_type": error_type, "issues": listed}
        super().__init__(join_issues(list(issues)), metadata=metadata)


class Unauthenticated(GatewayError):
    status, error_type, message = 401, "authentication", "Invalid API key"
    default_reason = "invalid_key"


class MissingCredential(Unauthenticated):
    default_reason = "missing_credential"
    message = "Missing Authentication header"


class PaymentRequired(GatewayError):
    status, error_type = 402, "payment_required"
    message = "Insufficient credits"


class PermissionDenied(GatewayError):
    status, error_type, message = 403, "permission_denied", "Forbidden"


class NotFound(GatewayError):
    status, error_type, message = 404, "not_found", "Resource not found"


class UnknownPath(NotFound):
    message = "Not Found"


class MethodNotAllowed(GatewayError):
    status, error_type, message = 405, "invalid_request", "Method Not Allowed"


class Conflict(GatewayError):
    status, error_type = 409, "invalid_request"
    message = "Resource conflict. Please try again later."


class Gone(GatewayError):
    status, error_type, message = 410, "invalid_request", "Gone"


class PayloadTooLarge(GatewayError):
    status, error_type, message = 413, "payload_too_large", "Request payload too large"


class UnsupportedEncoding(GatewayError):
    """A body compressed in a way that is not read here."""

    status, error_type = 415, "invalid_request"
    message = "Content-Encoding: expected gzip, deflate or identity"

    def __init__(self) -> None:
        super().__init__(headers={"Accept-Encoding": "gzip, deflate"})


class RateLimited(GatewayError):
    """A limit of the gateway's own is used up; `gateway.limits.limits.refusal` makes it."""

    status, error_type, message = 429, "rate_limit_exceeded", "Rate limit exceeded"


class Unavailable(GatewayError):
    """The gateway itself cannot serve: database gone, or full. Nothing was sent upstream."""

    status, error_type, message = 503, "provider_overloaded", "Service temporarily unavailable"

    def __init__(
        self, message: str | None = None, *, retry_after_s: int = 1, reason: str | None = None
    ) -> None:
        super().__init__(message, headers={"Retry-After": str(retry_after_s)}, reason=reason)


class DatabaseGone(Unavailable):
    """The database does not answer. Each viewset says which message its callers get then."""

    default_reason = "database"


def forget_origin(error: BaseException) -> None:
    """Keep what an exception says, not where it was raised, nor what it was raised from.

    Its traceback holds every frame it passed, and these hold the call and its prompt. Code that
    keeps the exception in sight would keep all of it until the next garbage collection.
    """
    origins = (error.__cause__, error.__context__)
    error.__traceback__ = error.__cause__ = error.__context__ = None
    for origin in origins:
        if origin is not None:
            forget_origin(origin)
