"""What an upstream can do wrong, which status the caller gets, and what may be tried next.

One table says which failures make the gateway try another endpoint, the other which status the
caller gets when no endpoint is left.
"""

import math
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from gateway.http.jsonio import JsonObject, dumps
from gateway.outbound.errors import (
    BodyTooLarge,
    ConnectTimeout,
    DeadlineExceeded,
    FirstByteTimeout,
    IdleTimeout,
    OutboundError,
)
from routing.upstreams.error_bodies import error_words, failed_generation_in

RAW_CHARS_MAX = 4096
# Kept until secrets are hidden; cutting first could leave the beginning of one at the cut.
_KEPT_CHARS_MAX = 2 * RAW_CHARS_MAX
HIDDEN = "[hidden]"
PROVIDER_RETURNED_ERROR = "Provider returned error"
RETRY_HINT_DEFAULT_S = 10.0
_TIMEOUTS = (ConnectTimeout, FirstByteTimeout, IdleTimeout, DeadlineExceeded)


@dataclass(slots=True)
class UpstreamFailure(Exception):
    """One failed attempt.

    `status` is the upstream's own (502 for connection errors, 524 for timeouts); `told_status`,
    `error_type` and `message` are what the caller gets. `elsewhere` says whether another endpoint
    of the same model may do better, `larger_only` that it would need a larger context, `credential`
    that the credential, or the account behind it, was refused. `failed_generation` is what the
    model wrote where that is what the upstream refuses.
    """

    status: int
    told_status: int
    error_type: str
    message: str
    raw: str | None = None
    provider_code: str | None = None
    retry_after_s: float | None = None
    elsewhere: bool = True
    larger_only: bool = False
    outage: bool = False
    parked: bool = False
    deadline: bool = False
    credential: bool = False
    failed_generation: str | None = None

    def told_of_own_credential(self) -> None:
        """Tell that it is the caller's own credential that was refused: a fault of the request's,
        which the shared one may do without."""
        self.told_status, self.error_type = _OWN_CREDENTIAL.get(self.status, _OWN_ACCOUNT)
        self.outage = False

    def hide(self, secret: str | None) -> None:
        """Take a secret out of what the upstream said: some quote the credential they refuse."""
        if not secret:
            self.raw = self.raw and self.raw[:RAW_CHARS_MAX]
            return
        self.message = self.message.replace(secret, HIDDEN)
        self.raw = self.raw and self.raw.replace(secret, HIDDEN)[:RAW_CHARS_MAX]
        self.provider_code = self.provider_code and self.provider_code.replace(secret, HIDDEN)
        written = self.failed_generation
        self.failed_generation = written and written.replace(secret, HIDDEN)

    def __str__(self) -> str:
        return f"{self.error_type} ({self.status}): {self.message}"


def malformed(why: str, *, raw: bytes = b"") -> UpstreamFailure:
    """A 2xx whose body is empty, unparsable or of the wrong kind."""
    return UpstreamFailure(
        status=502,
        told_status=502,
        error_type="provider_unavailable",
        message=PROVIDER_RETURNED_ERROR,
        raw=_text(raw) or why,
    )


def refused() -> UpstreamFailure:
    """A whole answer in which the model refuses, where the caller listed another model."""
    return UpstreamFailure(
        status=200,
        told_status=403,
        error_type="refusal",
        message="The model refused to answer",
        elsewhere=False,
    )


def from_door(error: OutboundError) -> UpstreamFailure:
    """A call that ended below HTTP."""
    if isinstance(error, _TIMEOUTS):
        return UpstreamFailure(
            status=524,
            told_status=524,
            error_type="timeout",
            message="Request timed out. Please try again later.",
            raw=str(error),
            outage=True,
            deadline=isinstance(error, DeadlineExceeded),
        )
    failure = malformed(str(error))
    # What is too much was said by an endpoint that is well.
    failure.outage = not isinstance(error, BodyTooLarge)
    return failure


@dataclass(frozen=True, slots=True)
class _Row:
    told_status: int
    error_type: str
    elsewhere: bool = True
    outage: bool = False
    own_message: bool = False


_UNAVAILABLE = _Row(502, "provider_unavailable", outage=True)
# Our credential is refused to every caller, so the endpoint is reported unhealthy.
_CREDENTIAL = _Row(502, "provider_unavailable", outage=True)
_OWN_ACCOUNT = (402, "payment_required")
_OWN_CREDENTIAL = {401: (401, "authentication"), 403: (403, "permission_denied")}
_TIMEOUT = _Row(524, "timeout", outage=True)
_ROWS: dict[int, _Row] = {
    400: _Row(400, "invalid_request", elsewhere=False, own_message=True),
    401: _CREDENTIAL,
    402: _CREDENTIAL,
    403: _CREDENTIAL,
    404: _Row(404, "not_found", own_message=True),
    408: _TIMEOUT,
    413: _Row(413, "payload_too_large", own_message=True),
    422: _Row(422, "unprocessable", elsewhere=False, own_message=True),
    429: _Row(429, "rate_limit_exceeded"),
    503: _Row(503, "provider_overloaded", outage=True),
    504: _TIMEOUT,
    524: _TIMEOUT,
    529: _Row(529, "provider_overloaded", outage=True),
}
# Codes that name the fault more precisely than the status: error type and the status told.
_CODES: dict[str, tuple[str, int]] = {
    "context_length_exceeded": ("context_length_exceeded", 400),
    "max_tokens_exceeded": ("max_tokens_exceeded", 400),
    "token_limit_exceeded": ("token_limit_exceeded", 400),
    "string_above_max_length": ("string_too_long", 400),
    "string_too_long": ("string_too_long", 400),
    "invalid_image": ("invalid_image", 400),
    "invalid_image_format": ("unsupported_image_format", 400),
    "image_too_large": ("image_too_large", 400),
    "image_too_small": ("image_too_small", 400),
    "content_policy_violation": ("content_policy_violation", 403),
    "content_filter": ("content_policy_violation", 403),
    "moderation_blocked": ("content_policy_violation", 403),
    "refusal": ("refusal", 403),
}
_CONTEXT_WORDS = (
    "maximum context length",
    "context length",
    "context window",
    "context limit",
    "prompt is too long",
    "too many tokens",
)
# Said with a 400 by providers of the messages API: it is our account that ran dry.
_NO_CREDIT_WORDS = "credit balance is too low"
_POLICY_WORDS = ("policy", "policies", "moderation")
_PARAMETER_WORDS = (
    "unsupported parameter",
    "unknown parameter",
    "unrecognized request argument",
    "does not support parameter",
    "unsupported_parameter",
    "unsupported value",
)


def from_status(status: int, headers: dict[str, str], body: bytes) -> UpstreamFailure:
    """An upstream's answer with an error status."""
    row = _ROWS.get(status) or (_UNAVAILABLE if status >= 500 else _Row(502, "unmapped"))
    said, code, generation = error_words(body)
    if status == 400 and _NO_CREDIT_WORDS in said.lower():
        row = _CREDENTIAL
    failure = UpstreamFailure(
        status=status,
        told_status=row.told_status,
        error_type=row.error_type,
        message=said if row.own_message and said else PROVIDER_RETURNED_ERROR,
        raw=_text(body),
        provider_code=code,
        retry_after_s=retry_after_s(headers.get("retry-after"), now_s=time.time()),
        elsewhere=row.elsewhere,
        larger_only=status == 413,
        outage=row.outage,
        parked=status == 429,
        credential=row is _CREDENTIAL,
        failed_generation=generation,
    )
    if status in (400, 403, 413, 422):
        _sharpen(failure, said, code or "")
    return failure


def from_error_object(error: Any) -> UpstreamFailure:
    """An error object inside a 200 answer or stream, which may name an HTTP status."""
    fields = error if isinstance(error, dict) else {}
    code, status = fields.get("code"), _status_in(fields)
    message = fields.get("message") if fields else str(error)
    said = message if isinstance(message, str) else ""
    row = _ROWS.get(status) or _UNAVAILABLE
    failure = UpstreamFailure(
        status=status,
        told_status=row.told_status,
        error_type=row.error_type,
        message=said if row.own_message and said else PROVIDER_RETURNED_ERROR,
        raw=_text(dumps(error)) if fields else said[:_KEPT_CHARS_MAX] or None,
        provider_code=str(code) if code is not None else None,
        elsewhere=row.elsewhere,
        larger_only=status == 413,
        outage=row.outage,
        parked=status == 429,
        credential=row is _CREDENTIAL,
        failed_generation=failed_generation_in(fields),
    )
    _sharpen(failure, said, str(code or ""))
    return failure


def _status_in(error: JsonObject) -> int:
    """The status that an error object names by its code, or, as Groq does, beside a word for it."""
    for name in ("code", "status_code"):
        digits = str(error.get(name))
        if len(digits) == 3 and digits.isascii() and digits.isdigit() and "400" <= digits < "600":
            return int(digits)
    return 502


def _sharpen(failure: UpstreamFailure, message: str, code: str) -> None:
    """Let the upstream's own code and words name the fault."""
    said = message.lower()
    if code not in _CODES and failure.status in (400, 413, 422):
        if failure.status != 422 and any(words in said for words in _CONTEXT_WORDS):
            code = "context_length_exceeded"
        elif any(words in said or words in code for words in _PARAMETER_WORDS):
            failure.elsewhere = True
    elif failure.status == 403 and code not in _CODES:
        spoken = f"{said} {code}"
        code = "content_policy_violation" if any(map(spoken.__contains__, _POLICY_WORDS)) else code
    if code in _CODES:
        # It is the request that was refused, by an endpoint that is well.
        failure.outage = failure.credential = False
        failure.error_type, failure.told_status = _CODES[code]
        failure.message = message or failure.message
        failure.elsewhere = failure.larger_only = code == "context_length_exceeded"


def _text(body: bytes) -> str | None:
    return body[: _KEPT_CHARS_MAX * 4].decode("utf-8", "replace")[:_KEPT_CHARS_MAX] or None


def retry_after_s(value: str | None, *, now_s: float) -> float | None:
    """A Retry-After header in seconds, at most a day: a number, or a date measured against `now_s`
    (Unix seconds)."""
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        seconds = _seconds_until(value, now_s)
    return seconds if 0 <= seconds <= 86_400 else None


def _seconds_until(date: str, now_s: float) -> float:
    """Not a number where it is no date."""
    try:
        return max(0.0, parsedate_to_datetime(date).timestamp() - now_s)
    except (ValueError, OverflowError):
        return math.nan
