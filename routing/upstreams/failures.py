"""What an upstream can do wrong, which status the caller gets, and what may be tried next.

One table says which failures make the gateway try another endpoint, the other which status the
caller gets when no endpoint is left.
"""

import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Final

from gateway.http.errors import MalformedJson
from gateway.http.jsonio import JsonObject, dumps, loads
from gateway.outbound.errors import (
    BodyTooLarge,
    ConnectTimeout,
    DeadlineExceeded,
    FirstByteTimeout,
    IdleTimeout,
    OutboundError,
)
from routing.entities.exchange import CANCELLED

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

    `status` is the upstream's own (502 for connection errors, 524 for timeouts); `caller_status`,
    `error_type` and `message` are what the caller gets. `elsewhere` says whether another endpoint
    of the same model may do better, `larger_only` that it would need a larger context. `credential`
    says that the credential, or the account behind it, was refused, `first_byte` that the first
    byte came too late. `failed_generation` is what the model wrote where that is what the upstream
    refuses.
    """

    status: int
    caller_status: int
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
    first_byte: bool = False
    credential: bool = False
    failed_generation: str | None = None

    def blame_own_credential(self) -> None:
        """Tell that it is the caller's own credential that was refused: a fault of the request's,
        which the shared one may do without."""
        self.caller_status, self.error_type = _OWN_CREDENTIAL.get(self.status, _OWN_ACCOUNT)
        self.outage = False

    def hide(self, secret: str | None) -> None:
        """Take a secret out of what the upstream said: some quote the credential they refuse."""
        if not secret:
            self.raw = self.raw and self.raw[:RAW_CHARS_MAX]
            return
        self.message = self.message.replace(secret, HIDDEN)
        self.raw = self.raw and self.raw.replace(secret, HIDDEN)[:RAW_CHARS_MAX]
        self.provider_code = self.provider_code and self.provider_code.replace(secret, HIDDEN)
        generation = self.failed_generation
        self.failed_generation = generation and generation.replace(secret, HIDDEN)

    def drop_quotes(self) -> None:
        """Leave out what the upstream said in full: it may quote what the model wrote, which no
        filter of answers has seen."""
        self.raw = self.failed_generation = None

    def __str__(self) -> str:
        return f"{self.error_type} ({self.status}): {self.message}"


# An upstream that asks for a longer pause is not asked again by the same request.
_RETRY_HINT_MAX_S: Final = 2.0
_TIMEOUT_STATUS: Final = 524


def is_transient(failure: UpstreamFailure) -> bool:
    """Whether the same endpoint may answer the same request a moment later. That holds after what
    official clients retry too, but not after timeouts, which have cost the caller enough."""
    if failure.error_type == CANCELLED:
        # It was on its way, and nothing was wrong with it.
        return True
    if failure.credential or (failure.retry_after_s or 0.0) > _RETRY_HINT_MAX_S:
        return False
    return failure.status in (409, 429) or (failure.outage and failure.status != _TIMEOUT_STATUS)


def malformed_answer(why: str, *, raw: bytes = b"") -> UpstreamFailure:
    """A 2xx whose body is empty, unparsable or of the wrong kind."""
    return UpstreamFailure(
        status=502,
        caller_status=502,
        error_type="provider_unavailable",
        message=PROVIDER_RETURNED_ERROR,
        raw=_decode_raw(raw) or why,
    )


def unfit_answer(why: str) -> UpstreamFailure:
    """A whole answer of an endpoint that is well, but cannot do what the request says. Each of the
    model's endpoints would bill the same."""
    return UpstreamFailure(
        status=400,
        caller_status=400,
        error_type="invalid_request",
        message=why,
        elsewhere=False,
    )


def refused_answer() -> UpstreamFailure:
    """A whole answer in which the model refuses, where the caller listed another model."""
    return UpstreamFailure(
        status=200,
        caller_status=403,
        error_type="refusal",
        message="The model refused to answer",
        elsewhere=False,
    )


def cancelled_attempt() -> UpstreamFailure:
    """An attempt that was given up because another endpoint's content came first."""
    return UpstreamFailure(
        status=499,
        caller_status=499,
        error_type=CANCELLED,
        message="Another endpoint answered first",
    )


def from_outbound_error(error: OutboundError) -> UpstreamFailure:
    """A call that ended below HTTP."""
    if isinstance(error, _TIMEOUTS):
        return UpstreamFailure(
            status=524,
            caller_status=524,
            error_type="timeout",
            message="Request timed out. Please try again later.",
            raw=str(error),
            outage=True,
            deadline=isinstance(error, DeadlineExceeded),
            first_byte=isinstance(error, FirstByteTimeout),
        )
    failure = malformed_answer(str(error))
    # What is too much was said by an endpoint that is well.
    failure.outage = not isinstance(error, BodyTooLarge)
    return failure


@dataclass(frozen=True, slots=True)
class _StatusRule:
    caller_status: int
    error_type: str
    elsewhere: bool = True
    outage: bool = False
    own_message: bool = False


_UNAVAILABLE = _StatusRule(502, "provider_unavailable", outage=True)
# Our credential is refused to every caller, so the endpoint is reported unhealthy.
_CREDENTIAL = _StatusRule(502, "provider_unavailable", outage=True)
_OWN_ACCOUNT = (402, "payment_required")
_OWN_CREDENTIAL = {401: (401, "authentication"), 403: (403, "permission_denied")}
_TIMEOUT = _StatusRule(524, "timeout", outage=True)
_STATUS_RULES: dict[int, _StatusRule] = {
    400: _StatusRule(400, "invalid_request", elsewhere=False, own_message=True),
    401: _CREDENTIAL,
    402: _CREDENTIAL,
    403: _CREDENTIAL,
    404: _StatusRule(404, "not_found", own_message=True),
    408: _TIMEOUT,
    413: _StatusRule(413, "payload_too_large", own_message=True),
    422: _StatusRule(422, "unprocessable", elsewhere=False, own_message=True),
    429: _StatusRule(429, "rate_limit_exceeded"),
    503: _StatusRule(503, "provider_overloaded", outage=True),
    504: _TIMEOUT,
    524: _TIMEOUT,
    529: _StatusRule(529, "provider_overloaded", outage=True),
}
# Codes that name the fault more precisely than the status: error type, and status for the caller.
_CODE_RULES: dict[str, tuple[str, int]] = {
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
# Said with a 400 by providers of the messages API: it is our account that ran dry. Further on in a
# message it may be the caller whom they quote.
_NO_CREDIT_WORDS = "your credit balance is too low"
_POLICY_WORDS = ("policy", "policies", "moderation", "guideline", "safety_check", "violat")
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
    row = _STATUS_RULES.get(status) or (
        _UNAVAILABLE if status >= 500 else _StatusRule(502, "unmapped")
    )
    message, code, generation = read_error_body(body)
    if status == 400 and message.lower().startswith(_NO_CREDIT_WORDS) and _has_message(body):
        row = _CREDENTIAL
    failure = UpstreamFailure(
        status=status,
        caller_status=row.caller_status,
        error_type=row.error_type,
        message=message if row.own_message and message else PROVIDER_RETURNED_ERROR,
        raw=_decode_raw(body),
        provider_code=code,
        retry_after_s=parse_retry_after(headers.get("retry-after"), now_s=time.time()),
        elsewhere=row.elsewhere,
        larger_only=status == 413,
        outage=row.outage,
        parked=status == 429,
        credential=row is _CREDENTIAL,
        failed_generation=generation,
    )
    if status in (400, 403, 413, 422):
        _sharpen(failure, message, code or "")
    return failure


def from_error_object(error: object) -> UpstreamFailure:
    """An error object inside a 200 answer or stream, which may name an HTTP status."""
    fields = error if isinstance(error, dict) else {}
    code, status = fields.get("code"), _find_status(fields)
    message = fields.get("message") if fields else str(error)
    text = message if isinstance(message, str) else ""
    row = _STATUS_RULES.get(status) or _UNAVAILABLE
    failure = UpstreamFailure(
        status=status,
        caller_status=row.caller_status,
        error_type=row.error_type,
        message=text if row.own_message and text else PROVIDER_RETURNED_ERROR,
        raw=_decode_raw(dumps(error)) if fields else text[:_KEPT_CHARS_MAX] or None,
        provider_code=str(code) if code is not None else None,
        elsewhere=row.elsewhere,
        larger_only=status == 413,
        outage=row.outage,
        parked=status == 429,
        credential=row is _CREDENTIAL,
        failed_generation=read_failed_generation(fields),
    )
    _sharpen(failure, text, str(code or ""))
    return failure


def _find_status(error: JsonObject) -> int:
    """The status that an error object names by its code, or, as Groq does, beside a word for it."""
    for name in ("code", "status_code"):
        digits = str(error.get(name))
        if len(digits) == 3 and digits.isascii() and digits.isdigit() and "400" <= digits < "600":
            return int(digits)
    return 502


def _sharpen(failure: UpstreamFailure, message: str, code: str) -> None:
    """Let the upstream's own code and words name the fault."""
    lowered = message.lower()
    if code not in _CODE_RULES and failure.status in (400, 413, 422):
        if failure.status != 422 and any(phrase in lowered for phrase in _CONTEXT_WORDS):
            code = "context_length_exceeded"
        elif any(phrase in lowered or phrase in code for phrase in _PARAMETER_WORDS):
            failure.elsewhere = True
    elif failure.status == 403 and code not in _CODE_RULES:
        searched = f"{lowered} {code}"
        code = (
            "content_policy_violation" if any(map(searched.__contains__, _POLICY_WORDS)) else code
        )
    if code in _CODE_RULES:
        # It is the request that was refused, by an endpoint that is well.
        failure.outage = failure.credential = False
        failure.error_type, failure.caller_status = _CODE_RULES[code]
        failure.message = message or failure.message
        failure.elsewhere = failure.larger_only = code == "context_length_exceeded"


def _decode_raw(body: bytes) -> str | None:
    return body[: _KEPT_CHARS_MAX * 4].decode("utf-8", "replace")[:_KEPT_CHARS_MAX] or None


def parse_retry_after(value: str | None, *, now_s: float) -> float | None:
    """A Retry-After header in seconds, at most a day: a number, or a date measured against `now_s`
    (Unix seconds)."""
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = max(0.0, parsedate_to_datetime(value).timestamp() - now_s)
        except (ValueError, OverflowError):
            return None
    return seconds if 0 <= seconds <= 86_400 else None


# --- What error bodies say ------------------------------------------------------------------------

# As many as our own messages list.
_ISSUES_MAX: Final = 5
_BODY: Final = "body"


def read_error_body(body: bytes) -> tuple[str, str | None, str | None]:
    """Message, code and refused words of the model; an empty message where there is none."""
    try:
        value = loads(body) if body else None
    except MalformedJson:
        return "", None, None
    error = value.get("error", value) if isinstance(value, dict) else None
    if isinstance(error, str):
        return error, None, None
    if not isinstance(error, dict):
        return _read_detail(value), None, None
    message, code = error.get("message"), error.get("code") or error.get("type")
    return (
        message if isinstance(message, str) else _read_detail(error) or _read_detail(value),
        str(code) if isinstance(code, int | str) else None,
        read_failed_generation(error),
    )


def _has_message(body: bytes) -> bool:
    """Whether it has a message of the upstream's own: `detail` may begin with a caller's names."""
    value = loads(body)
    error = value.get("error", value)
    return isinstance(error, dict) and isinstance(error.get("message"), str)


def read_failed_generation(error: JsonObject) -> str | None:
    """What the model wrote where that is what the upstream refuses (Groq). Clients send it back
    to the model."""
    generation = error.get("failed_generation")
    return generation if isinstance(generation, str) else None


def _read_detail(value: object) -> str:
    """Validators of web frameworks write `detail`: a text, or a list of what is wrong where."""
    detail = value.get("detail") if isinstance(value, dict) else None
    if isinstance(detail, str):
        return detail
    issues = detail if isinstance(detail, list) else []
    texts = [text for issue in issues[:_ISSUES_MAX] if (text := _read_issue(issue))]
    return "; ".join(texts)


def _read_issue(issue: object) -> str:
    """`<dotted path>: <text>`, without the `body` that every path begins with."""
    if not isinstance(issue, dict):
        return issue if isinstance(issue, str) else ""
    text, location = issue.get("msg"), issue.get("loc")
    if not isinstance(text, str):
        return ""
    steps = [
        str(step)
        for index, step in enumerate(location if isinstance(location, list) else ())
        if isinstance(step, int | str) and (index or step != _BODY)
    ]
    path = ".".join(steps)
    return f"{path}: {text}" if path else text
