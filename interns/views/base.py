"""The base of every viewset of interns, chats and vaults, and the time limit of a request."""

import time
from collections.abc import Callable
from functools import wraps
from typing import Any, ClassVar

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from gevent import Timeout

from gateway.database.db import under_gevent
from gateway.http.errors import GatewayError, MethodNotAllowed
from gateway.http.responses import error_response, log
from gateway.http.viewset import LeanViewSet
from interns.errors import InternInternalError, InternMethodNotAllowed, OperationTimedOut


def with_deadline(act: Callable[..., Any]) -> Callable[..., Any]:
    """The action, ended with `OperationTimedOut` when its time is up; what it began goes on.

    `self.until` is that moment of `time.monotonic`.
    """

    @wraps(act)
    def timed(self: Any, *args: Any, **kwargs: Any) -> Any:
        limit_s = settings.INTERN_OPERATION_SECONDS
        self.until = time.monotonic() + limit_s
        if not under_gevent():
            return act(self, *args, **kwargs)
        with Timeout(limit_s) as limit:
            try:
                return act(self, *args, **kwargs)
            except Timeout as passed:
                if passed is not limit:
                    raise
                raise OperationTimedOut from None

    return timed


class InternViewSet(LeanViewSet):
    """Errors have the body of `InternError`. Creation reads `Idempotency-Key` itself."""

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
