"""`Idempotency-Key` on the way in and out: a POST that carries it is carried out once."""

from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from io import BytesIO
from typing import Any, Final

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase

from accounts.authentication import authenticate_optional
from accounts.services import repeatable
from accounts.services.repeatable import Claim, RequestIdentity, StoredAnswer
from gateway.database.db import DATABASE_GONE, Lane, run_queries
from gateway.http.body import read_body
from gateway.http.errors import InvalidRequest, MalformedJson
from gateway.http.jsonio import loads
from gateway.http.responses import log, raw_json_response
from gateway.http.viewset import LeanViewSet

HEADER: Final = "HTTP_IDEMPOTENCY_KEY"
_KEY_CHARS_MAX: Final = 255
Act = Callable[..., HttpResponseBase]


def key_of(request: HttpRequest) -> str:
    """The header. Raises `InvalidRequest` for one that is empty or too long."""
    key = str(request.META[HEADER])
    if not 1 <= len(key) <= _KEY_CHARS_MAX:
        raise InvalidRequest(f"Idempotency-Key: expected 1 to {_KEY_CHARS_MAX} characters")
    return key


def begin(wanted: RequestIdentity) -> Claim | StoredAnswer:
    """`repeatable.claim` in its lane."""
    return run_queries(Lane.OPERATOR, lambda: repeatable.claim_request(wanted))


def repeat_answer(kept: StoredAnswer) -> HttpResponseBase:
    """The first answer, marked as a repetition."""
    headers = {"Idempotent-Replayed": "true"}
    if kept.generation_id:
        headers["X-Generation-Id"] = kept.generation_id
    return raw_json_response(kept.body, status=kept.status, headers=headers)


def finish(claim: Claim, *, status: int, body: bytes | None, made: str = "") -> None:
    """Remember that it was carried out. The caller gets an answer that is there, whatever the
    database does: the row stays, and nobody repeats the request."""
    _quietly(lambda: repeatable.finish_request(claim, status=status, body=body, made=made))


def forget(claim: Claim) -> None:
    """Let the next one begin anew."""
    _quietly(lambda: repeatable.forget_request(claim))


def _quietly(work: Callable[[], None]) -> None:
    try:
        run_queries(Lane.OPERATOR, work)
    except DATABASE_GONE as error:
        log.warning("What became of an Idempotency-Key could not be written: %s", error)


def carry_out_once(view: LeanViewSet, act: Act, request: HttpRequest, **path: str) -> Any:
    """An action of a management viewset, once per key, path and caller. Without a caller there is
    nobody to keep its answer for."""
    caller = authenticate_optional(request)
    if caller is None:
        return act(request, **path)
    view.beside = {"user_id": caller.creator_id}
    key = key_of(request)
    raw = bytes(read_body(request, bytes_max=settings.MANAGEMENT_MAX_BODY_BYTES))
    # It is read once more, inflated as it is.
    request.META.pop("HTTP_CONTENT_ENCODING", None)
    request.META |= {"wsgi.input": BytesIO(raw), "CONTENT_LENGTH": str(len(raw))}
    wanted = RequestIdentity(caller, request.path_info.rstrip("/"), key, sha256(raw).hexdigest())
    begun = begin(wanted)
    if isinstance(begun, StoredAnswer):
        return repeat_answer(begun)
    try:
        response: Any = act(request, **path)
    except BaseException:
        forget(begun)
        raise
    if response.streaming or not 200 <= response.status_code < 300:
        forget(begun)
    else:
        body = None if act.__name__ in view.secret_answers else response.content
        # The hash or id of what the answer says was made.
        made = ""
        with suppress(MalformedJson, LookupError, TypeError, AttributeError):
            data = loads(response.content)["data"]
            made = str(data.get("hash") or data.get("id") or "")
        finish(begun, status=response.status_code, body=body, made=made)
    return response
