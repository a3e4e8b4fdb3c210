"""Errors of the endpoints of interns."""

from collections.abc import Sequence

from gateway.http.errors import GatewayError
from gateway.http.jsonio import JsonObject
from gateway.http.validation import Issue


class InternError(GatewayError):
    """An answer with `reason` and `retryable`, and nothing else, in its metadata.

    `reason` None is one without metadata.
    """

    reason: str | None = None
    retryable = False

    def __init__(
        self,
        message: str | None = None,
        *,
        metadata: JsonObject | None = None,
        headers: dict[str, str] | None = None,
        reason: str | None = None,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(message, metadata=metadata, headers=headers)
        self.reason = self.reason if reason is None else reason
        self.retryable = self.retryable if retryable is None else retryable

    def body(self) -> JsonObject:
        body: JsonObject = {"code": self.status, "message": self.text}
        if self.reason is not None:
            reason = {"reason": self.reason, "retryable": self.retryable}
            body["metadata"] = reason | self.metadata
        return body


class InternUnauthenticated(InternError):
    status, message = 401, "Invalid or missing API key"


class InternForbidden(InternError):
    status, message = 403, "Forbidden"


class InternNotFound(InternError):
    status, message, reason = 404, "Intern not found", "not_found"


class NoActingUser(InternError):
    status, reason = 403, "no_acting_user"
    message = "This key acts as the organization and has no member to own a new intern"


class InvalidBody(InternError):
    """`issues` say where."""

    status, message, reason = 400, "Invalid request body", "invalid_body"

    def __init__(self, message: str | None = None, issues: Sequence[Issue] = ()) -> None:
        listed = [{"path": issue.path, "message": issue.message} for issue in issues[:5]]
        super().__init__(message, metadata={"issues": listed} if listed else None)


class ModelRefused(InvalidBody):
    """The intern's key is for other models."""

    def __init__(self, model: str) -> None:
        text = f"the intern's API key may not ask for {model}"
        super().__init__(text, [Issue("model", text)])


class InvalidListQuery(InternError):
    status, message, reason = 400, "Invalid list query", "invalid_body"


class BodyTooLarge(InternError):
    status, reason = 413, "payload_too_large"
    message = "Request body exceeds 1048576 bytes"


class UnsupportedMediaType(InternError):
    status, reason = 415, "unsupported_media_type"
    message = "Request body must be sent as application/json"


class InternMethodNotAllowed(InternError):
    status, message, reason = 405, "Method Not Allowed", "method_not_allowed"


class OperationTimedOut(InternError):
    status, reason, retryable = 408, "timeout", True
    message = "Operation timed out after 10s. Please try again later."


class InternConflict(InternError):
    status = 409
    message = "Resource conflict. Please try again later."


class InternBusy(InternConflict):
    reason, retryable = "intern_busy", True
    message = "Another operation holds this intern, retry later"


class InvalidState(InternConflict):
    reason = "invalid_state"
    message = "The intern is not in a state that allows this operation"


class SlackInstallRequired(InternConflict):
    reason = "slack_install_required"
    message = "Slack must be installed before this intern can be provisioned"


class ArchiveMissing(InternConflict):
    reason = "workspace_archive_failed"
    message = "The workspace archive is missing, acknowledge the loss to delete this intern"


class NameTaken(InternConflict):
    reason = "name_taken"
    message = "An intern of this name exists in the workspace"


class InternLimitReached(InternConflict):
    reason = "intern_limit_reached"
    message = "The member has as many interns as are allowed"


class VaultNotAttachable(InternConflict):
    reason = "vault_not_attachable"
    message = "This vault cannot be attached"


class CreateKeyReused(InternConflict):
    reason = "idempotency_key_reused"
    message = "This Idempotency-Key was already used with a different request"


class InternInternalError(InternError):
    status, reason, retryable = 500, "internal_error", True
    message = "The request could not be completed"


class UpstreamUnavailable(InternError):
    status, reason, retryable = 502, "upstream_unavailable", True
    message = "The intern service could not be reached, retry the request"


class SetupNotReady(UpstreamUnavailable):
    message = "The intern was created but setup is not ready yet, retry the request"
