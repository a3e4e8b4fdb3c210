"""One spelling of each API path, and Django's page middleware, which the API goes past."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBadRequest,
    HttpResponseBase,
    HttpResponseNotAllowed,
    StreamingHttpResponse,
)
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.csrf import CsrfViewMiddleware
from django.middleware.gzip import GZipMiddleware
from django.middleware.security import SecurityMiddleware
from django.utils.cache import patch_vary_headers
from django.utils.deprecation import MiddlewareMixin
from whitenoise.middleware import WhiteNoiseMiddleware

from gateway.database.db import Lane, run_queries
from gateway.http.address import comes_from_proxy
from gateway.http.body import read_form
from gateway.http.errors import MethodNotAllowed
from gateway.http.responses import error_response

# What `SECURE_PROXY_SSL_HEADER` names.
_SCHEME: Final = "HTTP_X_FORWARDED_PROTO"
PAGES = ("/admin", "/auth", "/console", "/docs", "/static/")


def is_page(request: HttpRequest) -> bool:
    """Whether the path is for a person's browser. That is the console with its front page, the
    admin, the page where apps ask for a key, the documentation, and their files."""
    return request.path_info == "/" or request.path_info.startswith(PAGES)


class ForwardedScheme:
    """Lets nobody but a trusted proxy say that a request came in over HTTPS."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if _SCHEME in request.META and not comes_from_proxy(request):
            del request.META[_SCHEME]
        return self.get_response(request)


class ApiPaths:
    """Every API path answers the same with and without a trailing slash, and never redirects."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        path = request.path_info
        if path.endswith("/") and len(path) > 1 and not path.startswith(PAGES):
            request.path_info = path.rstrip("/") or "/"
        response = self.get_response(request)
        if isinstance(response, HttpResponseNotAllowed) and not is_page(request):
            # Django's own answer of views that are plain functions, such as the probes.
            return error_response(MethodNotAllowed(headers={"Allow": response["Allow"]}))
        return response


Next = Callable[[HttpRequest], HttpResponseBase]


class _PagesOnly(MiddlewareMixin):
    """Goes past the middleware it is mixed into for every path that is no page."""

    def __call__(self, request: HttpRequest) -> Any:
        return super().__call__(request) if is_page(request) else self.get_response(request)


# No page loads anything from elsewhere, and none has a script in its text. The admin has styles
# there. A page whose form leads elsewhere adds that origin to the end.
PAGE_POLICY: Final = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "object-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)


# The admin's theme has expressions of Alpine in its markup, which are compiled in the browser.
ADMIN_POLICY: Final = f"{PAGE_POLICY}; script-src 'self' 'unsafe-eval'"


class PageSecurity(_PagesOnly, SecurityMiddleware):
    """Security headers and the redirect to HTTPS."""

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        is_admin = request.path_info.startswith("/admin")
        policy = ADMIN_POLICY if is_admin else PAGE_POLICY
        response.headers.setdefault("Content-Security-Policy", policy)
        return super().process_response(request, response)


class PageCompression(_PagesOnly, GZipMiddleware):
    """Pages in a fifth of their bytes. Django pads them, so that their length tells no secret."""


class PageSessions(_PagesOnly, SessionMiddleware):
    """The operator's session."""


class PageCsrf(_PagesOnly, CsrfViewMiddleware):
    """Forms carry a token."""

    def process_view(self, request: HttpRequest, *args: Any) -> Any:
        # Django calls it for every path by itself.
        return super().process_view(request, *args) if is_page(request) else None


class PageAuthentication(_PagesOnly, AuthenticationMiddleware):
    """The operator behind the session."""


class PageMessages(_PagesOnly, MessageMiddleware):
    """What an action has to say on the next page."""


class PageFrameOptions(_PagesOnly, XFrameOptionsMiddleware):
    """No page of ours inside somebody's frame."""


class PageThread:
    """Runs a whole page where its queries cannot hold the event loop (`gateway.database.db`)."""

    def __init__(self, get_response: Next) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if is_page(request):
            # The caller's socket belongs to this thread's event loop, so the form is read here.
            if not read_form(request):
                return HttpResponseBadRequest()
            # Where a person's browser puts none. PostgreSQL keeps no text with one, so a page that
            # looked something up by it would fail.
            is_form = request.content_type == "application/x-www-form-urlencoded"
            if (
                "\0" in request.path_info
                or "%00" in request.META["QUERY_STRING"]
                or b"\0" in request.body
                or (is_form and b"%00" in request.body)
            ):
                return HttpResponseBadRequest("A NUL character", content_type="text/plain")
            return run_queries(Lane.OPERATOR, lambda: self.get_response(request))
        return self.get_response(request)


_COMPRESSIBLE: Final = ("text/", "application/javascript", "application/json", "image/svg")


class StaticFiles:
    """Serves /static/; the files are listed at the first request for one, not at start.

    Texts are compressed at their first request and stay in memory, a few hundred kB in all.
    """

    def __init__(self, get_response: Next) -> None:
        self.get_response = get_response
        self._files: WhiteNoiseMiddleware | None = None
        self._compressed: dict[str, tuple[str, bytes]] = {}

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not request.path_info.startswith("/static/"):
            return self.get_response(request)
        if self._files is None:
            # WhiteNoise warns of a directory that nobody has collected files into yet.
            Path(settings.STATIC_ROOT).mkdir(parents=True, exist_ok=True)
            self._files = WhiteNoiseMiddleware(self.get_response)
        response: HttpResponseBase = self._files(request)
        if not isinstance(response, StreamingHttpResponse) or response.status_code != 200:
            return response
        if not response.headers["Content-Type"].startswith(_COMPRESSIBLE):
            return response
        patch_vary_headers(response, ("Accept-Encoding",))
        if request.method == "GET" and "gzip" in request.headers.get("Accept-Encoding", ""):
            version = response.headers["Last-Modified"]
            known = self._compressed.get(request.path_info)
            if known is None or known[0] != version:
                compressed = gzip.compress(response.getvalue(), mtime=0)
                known = self._compressed[request.path_info] = version, compressed
            headers = {**response.headers, "Content-Encoding": "gzip"}
            headers["Content-Length"] = str(len(known[1]))
            response.close()
            return HttpResponse(known[1], headers=headers)
        return response
