"""JSON responses, good and bad."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from django.http import BadHeaderError, HttpResponse, HttpResponseBase
from django.http.cookie import SimpleCookie
from django.http.response import ResponseHeaders

from gateway.http.errors import GatewayError
from gateway.http.jsonio import dumps

log = logging.getLogger("gateway")


def json_response(
    value: object, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> HttpResponse:
    """`value` as compact JSON."""
    return raw_json_response(dumps(value), status=status, headers=headers)


def raw_json_response(
    content: bytes, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> HttpResponse:
    """JSON that is written already. Raises `BadHeaderError` for a header with a line break."""
    return _RawJsonResponse(content, status, headers or {})


class _RawJsonResponse(HttpResponse):
    """What Django's own constructor makes of it, without looking at every header three times: they
    are the gateway's own, and in ASCII. `test_responses.py` compares the two."""

    def __init__(self, content: bytes, status: int, headers: Mapping[str, str]) -> None:
        self.headers = ResponseHeaders({})
        store = self.headers._store
        store["content-type"] = ("Content-Type", "application/json")
        for name, value in headers.items():
            if "\n" in value or "\r" in value:
                raise BadHeaderError(f"a line break in the header {name}")
            store[name.lower()] = (name, value)
        store["content-length"] = ("Content-Length", str(len(content)))
        self.status_code = status
        self.cookies = SimpleCookie()
        self.closed = False
        self._container = [content]
        self._resource_closers: list[Any] = []
        self._charset = self._reason_phrase = self._handler_class = None


def error_body(error: GatewayError, **beside: object) -> dict[str, Any]:
    """The envelope; `beside` holds `user_id` and `router_metadata` where there are any."""
    return {"error": error.body(), **beside}


def error_response(error: GatewayError, **beside: object) -> HttpResponse:
    return build_error_response(error, error_body(error, **beside), status=error.status)


def build_error_response(error: GatewayError, body: dict[str, Any], *, status: int) -> HttpResponse:
    """The answer to what failed, in the words of `body`."""
    response = json_response(body, status=status, headers=error.headers)
    # Django would log each 5xx as an error of ours; most are an upstream's, and told on the record.
    response._has_been_logged = True  # type: ignore[attr-defined]  # The mark Django looks for.
    return response


class EventStream(HttpResponseBase):
    """Server-sent events as they come; `on_close` is called in order, whatever the one before did.

    Django's own streaming response looks at every chunk once more.
    """

    streaming = True
    # Middleware and the test client look for it.
    is_async = False

    def __init__(
        self,
        events: Iterable[bytes],
        on_close: Sequence[Callable[[], None]],
        *,
        headers: Mapping[str, str],
    ) -> None:
        super().__init__(
            content_type="text/event-stream; charset=utf-8",
            headers={**headers, "Cache-Control": "no-cache", "X-Accel-Buffering": "no"},
        )
        self._events = events
        self._on_close = on_close

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._events)

    def call_at_end(self, end: Callable[[], None]) -> None:
        """Have `end` called after the others."""
        self._on_close = (*self._on_close, end)

    def close(self) -> None:
        due, self._on_close = self._on_close, ()
        with ExitStack() as ends:
            ends.callback(super().close)
            for end in reversed(due):
                ends.callback(end)
