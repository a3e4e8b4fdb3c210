"""An inference request with an `Idempotency-Key`: one upstream call, one charge, one answer.

A whole answer is stored and repeated, unless it is too large or nothing may be retained of it. A
repeated stream is answered with its generation only. What failed without a charge is forgotten, so
a repetition begins again.
"""

from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase

from accounts.caller import Caller
from accounts.services.repeatable import Claim, RequestIdentity, StoredAnswer
from accounts.views.once import begin, finish, forget, key_of, repeat_answer
from gateway.database.db import DATABASE_GONE, Lane, run_queries
from gateway.http.body import read_object
from gateway.http.request_id import get_identity
from gateway.http.responses import EventStream
from routing.entities.ids import generation_id
from routing.metering.models import Generation
from routing.reports.refusals import read_requested_model
from routing.reports.report import RequestReport, publisher
from routing.serving.request.context import RequestProgress
from routing.serving.request.process import now

if TYPE_CHECKING:
    from routing.views.inference import InferenceViewSet


def answer_once(view: "InferenceViewSet", request: HttpRequest, caller: Caller) -> HttpResponseBase:
    """Raises `GatewayError`, as the request itself does."""
    key = key_of(request)
    digest = sha256()
    bytes_max = settings.ROUTER_MAX_BODY_BYTES
    body = read_object(request, bytes_max=bytes_max, hear=digest.update)
    path = request.path_info.rstrip("/")
    prefix = view.caller_format.id_prefix
    begun = begin(RequestIdentity(caller, path, key, digest.hexdigest(), generation_id(prefix)))
    if isinstance(begun, StoredAnswer):
        publisher.publish(
            RequestReport(
                ended_at=datetime.now(UTC),
                started=view.started,
                ended=now(),
                identity=get_identity(),
                caller=caller,
                format=view.caller_format.name,
                requested_model=read_requested_model(body),
                streamed=False,
                status=begun.status,
                generation_id=begun.generation_id,
                is_repeat=True,
            )
        )
        return repeat_answer(begun)
    try:
        answer = view.execute(request, caller, body, generation_id=begun.generation_id)
    except BaseException:
        # An answer that was had is charged, though its caller never saw it.
        if view.progress is not None and view.progress.served_by is not None:
            finish(begun, status=200, body=None)
        else:
            forget(begun)
        raise
    progress = view.progress
    assert progress is not None
    if isinstance(answer, EventStream):
        answer.call_at_end(lambda: _end_stream(begun, progress))
    else:
        whole: Any = answer
        content = None if progress.context.choice.retains_nothing else whole.content
        finish(begun, status=whole.status_code, body=content)
    return answer


def _end_stream(claim: Claim, progress: RequestProgress) -> None:
    """Forget a stream that never reached an upstream, or failed there: it may happen again."""
    statuses = Generation.objects.filter(pk=progress.context.generation_id)
    try:
        recorded = run_queries(Lane.READ, lambda: list(statuses.values_list("status", flat=True)))
        has_failed = recorded != [200] if recorded else not progress.settled
    except DATABASE_GONE:
        has_failed = False
    if has_failed:
        forget(claim)
    else:
        finish(claim, status=200, body=None)
