"""An inference request with an `Idempotency-Key`: one upstream call, one charge, one answer.

A whole answer is kept and told again, unless it is too large or nothing may be kept of it. A stream
is not told again: who repeats it learns its generation. What failed without a charge is forgotten,
and repeated it begins anew.
"""

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase

from accounts.caller import Caller
from accounts.services.repeatable import Claim, RequestIdentity, StoredAnswer
from accounts.views.once import begin, finish, forget, key_of, told_again
from gateway.database.db import DATABASE_GONE, Lane, run_queries
from gateway.http.body import read_object
from gateway.http.responses import EventStream
from routing.entities.ids import generation_id
from routing.metering.models import Generation
from routing.serving.request.context import RequestProgress

if TYPE_CHECKING:
    from routing.views.inference import InferenceViewSet


def answered_once(
    view: "InferenceViewSet", request: HttpRequest, caller: Caller
) -> HttpResponseBase:
    """Raises `GatewayError`, as the request itself does."""
    key = key_of(request)
    digest = sha256()
    bytes_max = settings.ROUTER_MAX_BODY_BYTES
    body = read_object(request, bytes_max=bytes_max, hear=digest.update)
    path = request.path_info.rstrip("/")
    prefix = view.caller_format.id_prefix
    begun = begin(RequestIdentity(caller, path, key, digest.hexdigest(), generation_id(prefix)))
    if isinstance(begun, StoredAnswer):
        return told_again(begun)
    try:
        answer = view.carried_out(request, caller, body, generation_id=begun.generation_id)
    except BaseException:
        _failed(begun, view.progress)
        raise
    assert view.progress is not None
    _answered(begun, view.progress, answer)
    return answer


def _failed(claim: Claim, progress: RequestProgress | None) -> None:
    """An answer that was had is charged, though its caller never saw it."""
    if progress is not None and progress.served_by is not None:
        finish(claim, status=200, body=None)
    else:
        forget(claim)


def _answered(claim: Claim, progress: RequestProgress, answer: Any) -> None:
    if isinstance(answer, EventStream):
        answer.call_at_end(lambda: _streamed(claim, progress))
        return
    keeps = not progress.context.choice.retains_nothing
    finish(claim, status=answer.status_code, body=answer.content if keeps else None)


def _streamed(claim: Claim, progress: RequestProgress) -> None:
    """At a stream's end: whether there is anything that must not happen twice."""
    if _came_to_nothing(progress):
        forget(claim)
    else:
        finish(claim, status=200, body=None)


def _came_to_nothing(progress: RequestProgress) -> bool:
    """Whether it never reached an upstream, or failed there. In doubt it did not."""
    try:
        statuses = run_queries(Lane.READ, lambda: _recorded(progress.context.generation_id))
    except DATABASE_GONE:
        return False
    return statuses != [200] if statuses else not progress.settled


def _recorded(generation: str) -> list[int]:
    return list(Generation.objects.filter(pk=generation).values_list("status", flat=True))
