"""What Django itself refuses, told in the API's JSON body."""

import sys

from django.http import HttpRequest, HttpResponse
from django.utils.html import escape

from gateway.database.db import DATABASE_GONE
from gateway.http.errors import (
    DatabaseGone,
    GatewayError,
    InvalidRequest,
    PermissionDenied,
    UnknownPath,
)
from gateway.http.middleware import is_page
from gateway.http.responses import error_response, log

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{text}</title></head>
<body><h1>{text}</h1><p>The gateway's database does not answer. Try again in a moment.</p></body>
</html>
"""


def handle_bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return error_response(InvalidRequest())


def handle_forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    return error_response(PermissionDenied())


def handle_404(request: HttpRequest, exception: Exception) -> HttpResponse:
    return error_response(UnknownPath())


def handle_server_error(request: HttpRequest) -> HttpResponse:
    """Django calls it while it handles what was raised."""
    error = sys.exception()
    if not isinstance(error, DATABASE_GONE):
        return error_response(GatewayError())
    log.warning("%s %s: database: %s", request.method, request.path_info, error)
    refusal = DatabaseGone()
    if not is_page(request):
        return error_response(refusal)
    text = _PAGE.format(text=escape(refusal.text))
    response = HttpResponse(text, status=refusal.status, headers=refusal.headers)
    response._has_been_logged = True  # type: ignore[attr-defined]  # The mark Django looks for: it would log a traceback.
    return response
