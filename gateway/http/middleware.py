"""The outermost door: one spelling of every path, and JSON for whatever fails outside a view."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase, HttpResponseNotAllowed

from gateway.http.errors import MethodNotAllowed
from gateway.http.responses import error_response

PAGES = ("/admin", "/docs", "/static/")


def is_page(request: HttpRequest) -> bool:
    """Whether the path is for a person's browser: the admin, the documentation, their files."""
    return request.path_info.startswith(PAGES)


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
