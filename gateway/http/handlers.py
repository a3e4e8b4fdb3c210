"""What Django itself refuses, told in the API's JSON body."""

from django.http import HttpRequest, HttpResponse

from gateway.http.errors import GatewayError, InvalidRequest, PermissionDenied, UnknownPath
from gateway.http.responses import error_response


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return error_response(InvalidRequest())


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    return error_response(PermissionDenied())


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return error_response(UnknownPath())


def server_failed(request: HttpRequest) -> HttpResponse:
    return error_response(GatewayError())
