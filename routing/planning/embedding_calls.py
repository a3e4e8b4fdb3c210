"""The vector of a text, for a plugin. It takes a request for embeddings like any other, with its
own place in the books. The account is that of the request that it is made for. That request goes on
whatever becomes of it."""

import logging
import time
from typing import Any

from django.http import HttpRequest
from gevent import GreenletExit

from gateway.http.errors import GatewayError
from gateway.http.jsonio import JsonObject, loads
from routing.formats.embeddings import EMBEDDINGS
from routing.planning.admission_errors import build_refusal
from routing.planning.pipeline import admit
from routing.planning.submodel_calls import list_data_rules
from routing.plugins.interface import Embedded
from routing.serving.admission.rate_limits import end_places
from routing.serving.answer.nonstreaming import serve_answer
from routing.serving.request.context import RequestContext, RequestProgress

log = logging.getLogger("routing.planning")


def embed_text(
    request: HttpRequest, asking: RequestContext, model: str, text: str, timeout_s: float
) -> Embedded:
    """Raises the `GatewayError` of a worker that is stopping, and no other."""
    left_s = min(timeout_s, asking.deadline - time.monotonic())
    body: JsonObject = {"model": model, "input": text}
    body["provider"] = {**list_data_rules(asking), "deadline_ms": max(1, int(left_s * 1000))}
    for name, value in (
        ("user", asking.chat.user),
        ("metadata", asking.chat.metadata),
        ("trace", asking.chat.trace),
    ):
        if value:
            body[name] = value
    progress: RequestProgress | None = None
    try:
        progress = admit(request, asking.caller, body, format=EMBEDDINGS)
        if progress.context.refusal is not None:
            raise build_refusal(progress)
        # The caller sent one request, which its rate limits count.
        answer: Any = loads(serve_answer(progress))
    except GatewayError as error:
        if isinstance(error.__cause__, GreenletExit):
            raise
        return Embedded(None, _find_record(progress), error_type=error.error_type)
    except Exception as error:
        # Whatever it breaks on, the request itself goes on without it.
        log.exception("An embedding failed", exc_info=error)
        return Embedded(None, _find_record(progress), error_type=GatewayError.error_type)
    finally:
        if progress is not None:
            end_places(progress)
    cost_nano = round(answer["usage"]["cost"] * 1_000_000_000)
    return Embedded(answer["data"][0]["embedding"], answer["id"], cost_nano)


def _find_record(progress: RequestProgress | None) -> str | None:
    """The id of the generation; there is a record of what an upstream was asked."""
    return progress.context.generation_id if progress and progress.attempts else None
