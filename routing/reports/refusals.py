"""The report of a request that was refused before any upstream was asked."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

from django.http import HttpRequest

from accounts.authentication import find_token_tags
from accounts.caller import Caller
from gateway.http.address import find_client
from gateway.http.errors import GatewayError
from gateway.http.jsonio import JsonObject
from gateway.http.request_id import get_identity
from gateway.http.tags import NO_TAGS, TagsInvalid, read_tags
from routing.reports.flood import gate
from routing.reports.report import NO_PHASES, Phases, RequestReport
from routing.serving.request.errors import describe_error
from routing.serving.request.process import now

_CREDENTIALS: Final = ("HTTP_AUTHORIZATION", "HTTP_X_API_KEY")
# The prefix of the gateway's own keys and three of their 56 random digits.
KEY_PREFIX_CHARS: Final = 12


def build_refusal_report(
    request: HttpRequest,
    error: GatewayError,
    *,
    format: str,
    status: int,
    started: float,
    caller: Caller | None,
    body: JsonObject,
    phases: Phases = NO_PHASES,
    write_plan: Callable[[], str] | None = None,
    guard_checks: Sequence[JsonObject] = (),
) -> RequestReport:
    """`body` is the request as far as it was read; `write_plan` gives the plan as JSON text. It is
    not called for a source that is refused more often than is put on record."""
    address = find_client(request)
    is_counted = not gate.admits(str(caller.key_id) if caller else address)
    tags = NO_TAGS
    if not is_counted:
        tags = own = find_token_tags(request)
        try:
            header = request.META.get("HTTP_X_TAGS")
            tags = read_tags(header, body.get("metadata"), body.get("trace"), own)
        except TagsInvalid:
            # What is refused may be no request at all.
            pass
    return RequestReport(
        ended_at=datetime.now(UTC),
        started=started,
        ended=now(),
        identity=get_identity(),
        caller=caller,
        format=format,
        requested_model=read_requested_model(body),
        streamed=body.get("stream") is True,
        status=status,
        error=describe_error(error),
        address=address,
        key_prefix="" if caller else _read_key_prefix(request),
        phases=phases,
        plan="" if is_counted or write_plan is None else write_plan(),
        is_counted=is_counted,
        tags=tags,
        guard_checks=guard_checks,
    )


def read_requested_model(body: JsonObject) -> str:
    """As it was asked for; the first of a list where only that was given."""
    models = body.get("models")
    first = models[0] if isinstance(models, list) and models else ""
    model = body.get("model") or first
    return model.replace("\x00", "")[:300] if isinstance(model, str) else ""


def _read_key_prefix(request: HttpRequest) -> str:
    for name in _CREDENTIALS:
        if credential := str(request.META.get(name, "")).strip():
            key = credential.rpartition(" ")[2]
            # It may be somebody's key, or another service's: less than half of it is kept.
            kept = key[: min(KEY_PREFIX_CHARS, (len(key) - 1) // 2)]
            return kept.encode("ascii", "replace").decode()
    return ""
