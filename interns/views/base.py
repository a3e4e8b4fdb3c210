"""The base of every viewset of interns, chats and vaults."""

from typing import ClassVar

from django.http import HttpRequest, HttpResponseBase

from gateway.http.errors import GatewayError, MethodNotAllowed
from gateway.http.responses import error_response, log
from gateway.http.viewset import LeanViewSet
from interns.errors import InternInternalError, InternMethodNotAllowed


class InternViewSet(LeanViewSet):
    """Failures are told as 6.1 says. Creation looks at `Idempotency-Key` by itself."""

    once_by_key: ClassVar[bool] = False

    def database_gone(self) -> GatewayError:
        return InternInternalError()

    def _failure(self, request: HttpRequest, error: BaseException) -> HttpResponseBase:
        log.error("%s %s failed", request.method, request.path_info, exc_info=error)
        return self.refusal(request, InternInternalError())

    def refusal(self, request: HttpRequest, error: GatewayError) -> HttpResponseBase:
        """Nothing stands beside `error`."""
        if isinstance(error, MethodNotAllowed):
            error = InternMethodNotAllowed(headers=error.headers)
        return error_response(error)
