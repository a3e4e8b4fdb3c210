"""Errors of a chat, sent instead of an answer or as the last chunk of one."""

from typing import Final, NamedTuple

from gateway.http.jsonio import JsonObject
from gateway.http.validation import Issue, join_issues
from interns.errors import InternError
from interns.runtime.driver import ChatRefused

BUSY_RETRY_S: Final = 5
RATE_RETRY_S: Final = 60
NOT_RUNNING: Final = "This intern is not running."
NOT_WAITING: Final = "That question is no longer waiting for an answer."
UNKNOWN_QUESTION: Final = "No pending question has this tool_call_id."
TOO_MANY_TURNS: Final = "Too many intern turns. Please wait a moment."


class _Refusal(NamedTuple):
    """HTTP status, whether to retry, and message of a reason."""

    status: int
    retryable: bool
    message: str


_REASONS: Final = {
    "bad_request": _Refusal(400, False, "Invalid chat request"),
    "interaction_unknown": _Refusal(404, False, UNKNOWN_QUESTION),
    "intern_not_ready": _Refusal(409, True, NOT_RUNNING),
    "busy": _Refusal(409, True, "This intern is busy with another turn."),
    "interaction_not_pending": _Refusal(409, False, NOT_WAITING),
    "attachment_failed": _Refusal(409, False, "The run's output could not be attached to."),
    "run_ended": _Refusal(410, False, "The run has ended."),
    "client_closed_request": _Refusal(499, False, "The caller closed the connection."),
    "intern_unreachable": _Refusal(502, True, "The intern could not be reached, retry the request"),
    "stream_severed": _Refusal(502, True, "The connection to the intern was lost."),
    "intern_rejected": _Refusal(502, False, "The intern did not accept the request."),
    "turn_failed": _Refusal(502, False, "The intern's turn failed."),
    "timeout": _Refusal(504, True, "The intern took too long to answer."),
}


class ChatError(InternError):
    """A chat error by its `reason`. `busy` and `rate_limited` say when to try again."""

    def __init__(
        self,
        reason: str,
        message: str = "",
        *,
        status: int | None = None,
        retryable: bool | None = None,
        metadata: JsonObject | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        refusal = _REASONS[reason]
        self.status = status or refusal.status
        super().__init__(
            message or refusal.message,
            reason=reason,
            retryable=refusal.retryable if retryable is None else retryable,
            metadata=metadata,
            headers=headers or ({"Retry-After": str(BUSY_RETRY_S)} if reason == "busy" else {}),
        )


class TurnsLimited(InternError):
    """A limit of turns a minute; the headers say which."""

    status, reason, retryable, message = 429, "rate_limited", True, TOO_MANY_TURNS


class PreparationTimedOut(InternError):
    """The request did not come in time."""

    status, reason, retryable = 408, "timeout", True
    message = "Operation timed out. Please try again later."


def build_bad_request(issues: list[Issue]) -> ChatError:
    """A body that breaks the schema."""
    listed = [{"path": issue.path, "message": issue.message} for issue in issues]
    text = f"Invalid chat request ({join_issues(issues)})."
    return ChatError("bad_request", text, metadata={"issues": listed})


def build_overloaded() -> ChatError:
    """The gateway itself has no place for it, or no database."""
    return ChatError("busy", "Service temporarily unavailable", status=503)


def convert_refusal(refused: ChatRefused) -> ChatError:
    """What a runtime said or did, to its caller. Only who is in charge of the turn may speak of
    how it went: other reasons have our own words."""
    reason = refused.reason
    if reason == "turn_failed":
        return ChatError(reason, str(refused), retryable=refused.retryable)
    return ChatError(reason, status=refused.status)
