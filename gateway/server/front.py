"""The WSGI handler: Django's own, with a straight way in for the API.

Middleware, URL resolution and the signals round a request cost a tenth of an inference request. For
an API path without parameters they do nothing: the middleware is for pages, and a `LeanViewSet`
answers every failure itself.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes, urlsplit

from django import db
from django.core import signals
from django.core.cache import close_caches
from django.core.handlers.base import reset_urlconf
from django.core.handlers.wsgi import WSGIHandler, WSGIRequest
from django.http import HttpRequest, HttpResponseBase
from django.urls import URLPattern, URLResolver, get_resolver
from django.urls.resolvers import RoutePattern

from gateway.http import cors
from gateway.http.address import drop_forwarding_headers
from gateway.http.errors import NotFound
from gateway.http.request_id import HEADER, begin_request, end_request
from gateway.http.responses import error_response
from gateway.http.vendor_names import map_header_names, replace_vendor_headers
from gateway.live_settings import settings

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse

_MODEL_NAMES = "/api/v1/models/"
_HIDDEN_SLASH = re.compile("%2f", re.IGNORECASE)
_HEADER_KEY = HEADER.lower()
View = Callable[..., HttpResponseBase]
# A part of a host's name, in lower case, and who answers for all that have it. No name has a line
# break: until somebody is named, nobody is asked.
_hosts: list[tuple[str, View]] = [("\n", lambda request: HttpResponseBase())]


# Ports that are not for everybody, and what may be asked there: methods with patterns of paths.
_limited_ports: dict[str, list[tuple[str, re.Pattern[str]]]] = {}


def limit_port(port: int, calls: Iterable[tuple[str, str]]) -> None:
    """Have only these calls answered on a port of web, by handlers that are made afterwards:
    methods, each with a pattern for the path. No host name and no forwarding header counts there.
    """
    _limited_ports[str(port)] = [(method, re.compile(pattern)) for method, pattern in calls]


def answer_hosts_by(part: str, view: View) -> None:
    """Have `view` answer every path of hosts with `part` in their name, such as
    `.interns.localhost`. The last one counts, for handlers that are made afterwards."""
    _hosts[:] = [(part.lower(), view)]


def _path_with_hidden_slashes(uri: str) -> str:
    """The path with slashes that were percent-encoded left so. Proxies do not take them for
    separators, so they must not lead where a proxy lets nobody go."""
    path = uri.partition("?")[0] if uri.startswith("/") else urlsplit(uri).path
    # Official clients hide the one in a model's name, which is a part of nothing else.
    if not path.startswith(_MODEL_NAMES):
        path = _HIDDEN_SLASH.sub("%252F", path)
    return unquote_to_bytes(path).decode("latin-1")


class ApiRequest(WSGIRequest):
    """What an API view asks of a request, and no more: `gateway.http.body` reads the body, from
    `wsgi.input`, and nothing looks for forms in it."""

    def __init__(self, environ: dict[str, Any]) -> None:
        self.environ = self.META = environ
        self.path = self.path_info = environ["PATH_INFO"]
        self.method = environ["REQUEST_METHOD"].upper()
        self.content_type = environ.get("CONTENT_TYPE", "")
        self.content_params = {}
        self.resolver_match = None
        self._stream = environ["wsgi.input"]
        self._read_started = False


class FrontDoor(WSGIHandler):
    """An API path as it stands in the URL map goes to its view at once; all else as in Django."""

    def __init__(self) -> None:
        super().__init__()
        # Nothing is left for these to do after a request. `gateway.database.db` gives every
        # connection back when its work is done, no Django cache is in use, and queries are not
        # logged.
        signals.request_started.disconnect(db.reset_queries)
        signals.request_started.disconnect(db.close_old_connections)
        signals.request_finished.disconnect(db.close_old_connections)
        signals.request_finished.disconnect(close_caches)
        # There is one URL map, and pages set it before each request.
        signals.request_finished.disconnect(reset_urlconf)
        self._host_part, self._host_view = _hosts[0]
        self._limited_ports = dict(_limited_ports)
        self._own_header_names = map_header_names(settings.VENDOR_ALIASES)

    def __call__(
        self, environ: dict[str, Any], start_response: "StartResponse"
    ) -> HttpResponseBase:
        request_id = begin_request(environ).id
        if "%2" in (uri := environ.get("RAW_URI", "")):
            environ["PATH_INFO"] = _path_with_hidden_slashes(uri)
        if (origin := environ.get("HTTP_ORIGIN")) and cors.is_covered(environ["PATH_INFO"]):
            start_response = cors.add_headers(origin, start_response)
            if (preflight := cors.answer_preflight(environ)) is not None:
                start_response("204 No Content", [*preflight.items(), (HEADER, request_id)])
                _end_request_with(preflight)
                return preflight
        if not environ.keys().isdisjoint(self._own_header_names):
            replace_vendor_headers(environ, self._own_header_names)
        # Looked at in every request: a search in a short text takes 0.1 us.
        view: View | None
        if (calls := self._limited_ports.get(environ["SERVER_PORT"])) is not None:
            drop_forwarding_headers(environ)
            path = environ["PATH_INFO"]
            is_known = any(
                method == environ["REQUEST_METHOD"] and pattern.fullmatch(path)
                for method, pattern in calls
            )
            view = self._straight.get(path) if is_known else _refuse
        elif self._host_part in environ.get("HTTP_HOST", "").lower():
            view = self._host_view
        else:
            view = self._straight.get(environ["PATH_INFO"])
        if view is None:
            return super().__call__(environ, _with_request_id(request_id, start_response))
        request = ApiRequest(environ)
        response = view(request)
        # As Django's handler does: the request is closed with its response, and the signal that
        # tells of it says who handled it.
        response._resource_closers.append(request.close)  # type: ignore[attr-defined]  # The stubs leave it out.
        _end_request_with(response)
        response._handler_class = type(self)  # type: ignore[attr-defined]  # Django sets it too.
        status = f"{response.status_code} {response.reason_phrase}"
        response.headers._store[_HEADER_KEY] = (HEADER, request_id)
        # As `items()` has them, which are headers read one by one.
        start_response(status, list(response.headers._store.values()))
        return response

    def get_response(self, request: HttpRequest) -> HttpResponseBase:
        """As Django's. The request ends with the response itself: what a file is sent by is not
        one."""
        response = super().get_response(request)
        _end_request_with(response)
        return response

    @cached_property
    def _straight(self) -> dict[str, View]:
        return dict(_plain_paths("/", get_resolver().url_patterns))


def _refuse(request: HttpRequest) -> HttpResponseBase:
    return error_response(NotFound())


def _end_request_with(response: HttpResponseBase) -> None:
    """Forget the request's identity when its response is closed."""
    response._resource_closers.append(end_request)  # type: ignore[attr-defined]  # The stubs leave it out.


def _with_request_id(request_id: str, start_response: "StartResponse") -> "StartResponse":
    """`start_response` that adds the id to the headers."""

    def start(
        status: str, headers: list[tuple[str, str]], exc_info: Any = None
    ) -> Callable[[bytes], object]:
        return start_response(status, [*headers, (HEADER, request_id)], exc_info)

    return start


def _plain_paths(
    prefix: str, patterns: Iterable[URLPattern | URLResolver]
) -> Iterator[tuple[str, View]]:
    """Paths without parameters that lead to viewsets of the API."""
    for each in patterns:
        if not isinstance(each.pattern, RoutePattern) or each.pattern.converters:
            continue
        path = prefix + str(each.pattern)
        if isinstance(each, URLResolver):
            yield from _plain_paths(path, each.url_patterns)
        elif getattr(each.callback, "answers_everything", False):
            yield path, each.callback
