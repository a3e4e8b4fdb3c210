"""What governed requests are measured against, under the same gunicorn worker, door and pool.

`whole` does the upstream call and nothing else; `relay` copies the upstream's bytes to the caller.
"""

import os
import time
from collections.abc import Iterator

from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import path

from gateway.outbound.http_client import HttpClient, Limits, Origin, Reply

DOOR = HttpClient(pool_size_per_origin=200)
LIMITS = Limits(connect_s=10, first_byte_s=120, idle_s=60)
WHOLE, STREAM = (Origin.parse(os.environ[f"CEILING_{kind}"]) for kind in ("WHOLE", "STREAM"))
HEADERS = (("Content-Type", "application/json"), ("Authorization", "Bearer upstream-credential"))
MESSAGES_HEADERS = (("anthropic-version", "2023-06-01"), ("x-api-key", "upstream-credential"))


def _send(origin: Origin, body: bytes, resource: str) -> Reply:
    return DOOR.send(
        origin,
        method="POST",
        path=f"/{resource}",
        headers=HEADERS + MESSAGES_HEADERS if resource == "messages" else HEADERS,
        body=body,
        limits=LIMITS,
        deadline=time.monotonic() + 600,
    )


def answer_whole(request: HttpRequest) -> HttpResponse:
    with _send(WHOLE, request.body, "chat/completions") as reply:
        body = reply.read_all()
    headers = {"Content-Length": str(len(body))}
    return HttpResponse(body, status=reply.status, content_type="application/json", headers=headers)


def _pieces(reply: Reply) -> Iterator[bytes]:
    with reply:
        while piece := reply.read_some():
            yield piece


def relay(request: HttpRequest, resource: str) -> StreamingHttpResponse:
    pieces = _pieces(_send(STREAM, request.body, resource))
    return StreamingHttpResponse(pieces, content_type="text/event-stream")


urlpatterns = [
    path("whole", answer_whole),
    path("relay/<path:resource>", relay),
]
application = get_wsgi_application()
