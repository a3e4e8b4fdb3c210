"""Where metrics are scraped: `METRICS_BIND`, which one web process listens on, and `/metrics` of
the web port behind `METRICS_TOKEN`."""

import fcntl
import hmac
import logging
import socket
from collections.abc import Callable, Iterable
from typing import IO, Any, Final

import gevent
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from gevent.pywsgi import WSGIServer

from gateway.home import write_private
from gateway.http.errors import Unauthenticated, UnknownPath
from gateway.http.request_id import HEADER, choose_request_id
from gateway.http.responses import error_response
from gateway.metrics.files import folder
from gateway.metrics.scrape import renderer

log = logging.getLogger("gateway.metrics")
PATH: Final = "/metrics"
# How long metrics are not served after the process that served them is gone.
_TAKE_OVER_S: Final = 2.0
_URL_FILE: Final = "url"


class Listener:
    """Listens on `METRICS_BIND` if no other web process of this gateway does; else takes over when
    that one is gone. Those of one gateway agree by a lock on a file."""

    def __init__(self) -> None:
        self._lock: IO[str] | None = None
        self._server: WSGIServer | None = None
        self._waiting: gevent.Greenlet | None = None
        self._has_complained = False

    def start(self) -> None:
        """Call after a fork."""
        if settings.METRICS_BIND and not self._take_over():
            self._waiting = gevent.spawn(self._wait)

    def stop(self) -> None:
        """Leave the address to the next."""
        if self._waiting is not None:
            self._waiting.kill(block=False)
        if self._server is not None:
            (folder() / _URL_FILE).unlink(missing_ok=True)
            self._server.close()
        if self._lock is not None:
            self._lock.close()

    def _wait(self) -> None:
        while not self._take_over():
            gevent.sleep(_TAKE_OVER_S)

    def _take_over(self) -> bool:
        """Whether this process listens now."""
        if self._lock is None:
            file = (folder() / "listener.lock").open("a")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
                return False
            self._lock = file
        host, port = settings.METRICS_BIND or ("", 0)
        try:
            listening = _listen(host, port)
        except OSError as error:
            if not self._has_complained:
                log.warning(
                    "METRICS_BIND: cannot listen on %s:%s, will try again: %s",
                    *(host, port, error.strerror),
                )
            self._has_complained = True
            return False
        self._server = WSGIServer(listening, _answer, log=None, error_log=log)
        self._server.start()
        host, port = listening.getsockname()[:2]
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - Recognised, not bound.
        root = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        write_private(folder() / _URL_FILE, root + PATH)
        return True


def _listen(host: str, port: int) -> socket.socket:
    family, kind, proto, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listening = socket.socket(family, kind, proto)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(address)
        listening.listen(64)
    except OSError:
        listening.close()
        raise
    return listening


def _answer(environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
    """The WSGI application of the listener."""
    own = (HEADER, choose_request_id(environ.get("HTTP_X_REQUEST_ID", "")))
    if environ["PATH_INFO"] != PATH or environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
        start_response("404 Not Found", [own, ("Content-Type", "text/plain; charset=utf-8")])
        return [b"Metrics are at /metrics\n"]
    text, content_type = renderer.render(environ.get("HTTP_ACCEPT", ""))
    head = [own, ("Content-Type", content_type), ("Content-Length", str(len(text)))]
    start_response("200 OK", head)
    return [text] if environ["REQUEST_METHOD"] == "GET" else []


listener: Final = Listener()


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """GET /metrics on the web port: there with `METRICS_TOKEN` only, for who sends it as a bearer
    token."""
    token: str = settings.METRICS_TOKEN
    if not token:
        return error_response(UnknownPath())
    scheme, _, credential = request.headers.get("Authorization", "").partition(" ")
    is_right = hmac.compare_digest(credential.strip().encode(), token.encode())
    if scheme.lower() != "bearer" or not is_right:
        return error_response(Unauthenticated("/metrics wants METRICS_TOKEN as a bearer token"))
    text, content_type = renderer.render(request.headers.get("Accept", ""))
    return HttpResponse(text, content_type=content_type)
