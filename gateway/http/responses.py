"""JSON responses, good and bad."""

import logging
from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse

from gateway.http.errors import GatewayError
from gateway.http.jsonio import dumps

log = logging.getLogger("gateway")
_SERVER_ERROR = GatewayError()


def json_response(
    value: Any, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> HttpResponse:
    """`value` as compact JSON."""
    content = dumps(value)
    response = HttpResponse(
        content, status=status, content_type="application/json", headers=headers
    )
    response["Content-Length"] = str(len(content))
    return response


def error_body(error: GatewayError, **beside: Any) -> dict[str, Any]:
    """The envelope; `beside` holds `user_id` and `router_metadata` where there are any."""
    return {"error": error.body(), **beside}


def error_response(error: GatewayError, **beside: Any) -> HttpResponse:
    response = json_response(
        error_body(error, **beside), status=error.status, headers=error.headers
    )
    # Django would log each 5xx as an error of ours; most are an upstream's, and told on the record.
    response._has_been_logged = True  # type: ignore[attr-defined]  # The mark Django looks for.
    return response


def server_error(request: HttpRequest, error: BaseException, **beside: Any) -> HttpResponse:
    """A bug: logged with its traceback, told to the caller by a fixed text."""
    log.error("%s %s failed", request.method, request.path_info, exc_info=error)
    return error_response(_SERVER_ERROR, **beside)
