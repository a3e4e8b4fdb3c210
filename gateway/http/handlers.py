"""What Django itself refuses, in the API's JSON body."""

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
from gateway.http.request_id import get_request_id
from gateway.http.responses import error_response, log

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{text}</title></head>
<body><h1>{text}</h1><p>{why}</p></body>
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
    error, refusal = sys.exception(), GatewayError()
    why = f"The gateway's log says more of it, under {get_request_id()}."
    if isinstance(error, DATABASE_GONE):
        log.warning("%s %s: database: %s", request.method, request.path_info, error)
        refusal = DatabaseGone()
        why = "The gateway's database does not answer. Try again in a moment."
    else:
        # What is made of it is marked as logged, so that Django says nothing of it.
        log.error("%s %s failed", request.method, request.path_info, exc_info=error)
    if not is_page(request):
        return error_response(refusal)
    text = _PAGE.format(text=escape(refusal.text), why=escape(why))
    response = HttpResponse(text, status=refusal.status, headers=refusal.headers)
    response._has_been_logged = True  # type: ignore[attr-defined]  # The mark Django looks for.
    return response
