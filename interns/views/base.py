"""The base of the viewsets of interns, chats and vaults: refusals, and the time limit."""

import time
from collections.abc import Callable
from functools import wraps
from typing import Any, ClassVar, Final

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from gevent import Timeout

from gateway.database.db import under_gevent
from gateway.http.errors import GatewayError, MethodNotAllowed
from gateway.http.responses import error_response, log
from gateway.http.viewset import LeanViewSet
from gateway.openapi.components import FLAG, TEXT, WHOLE, Component, add_description, array, obj
from gateway.openapi.errors import MEANINGS
from interns.errors import InternInternalError, InternMethodNotAllowed, OperationTimedOut

INTERN_ID: Final = OpenApiParameter(
    "intern_id", str, OpenApiParameter.PATH, description="The intern's id."
)
_ERROR_METADATA: Final = Component(
    "InternErrorMetadata",
    obj(
        {
            "reason": add_description(
                TEXT, "Such as `intern_busy`, `invalid_state` or `not_found`."
            ),
            "retryable": FLAG,
            "issues": array(obj({"path": TEXT, "message": TEXT})),
        },
        optional=("issues",),
    ),
)
INTERN_ERROR: Final = Component(
    "InternError",
    obj(
        {
            "error": obj(
                {
                    "code": add_description(WHOLE, "The HTTP status."),
                    "message": TEXT,
                    "metadata": _ERROR_METADATA,
                },
                optional=("metadata",),
            )
        }
    ),
)
_MEANINGS: Final = {
    **MEANINGS,
    404: "No such intern, or none that the key may see.",
    408: "It took longer than ten seconds, and goes on.",
    415: "The body is not JSON.",
}


def intern_errors(*statuses: int) -> dict[int, OpenApiResponse]:
    """These statuses with the error body of interns. Wrong credentials may be too many."""
    return {
        status: OpenApiResponse(INTERN_ERROR, description=_MEANINGS[status])
        for status in sorted({*statuses, 429})
    }


def with_deadline(act: Callable[..., Any]) -> Callable[..., Any]:
    """The action, ended with `OperationTimedOut` when its time is up; what it began goes on.

    `self.until` is that moment of `time.monotonic`.
    """

    @wraps(act)
    def act_in_time(self: Any, *args: Any, **kwargs: Any) -> Any:
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

    return act_in_time


class InternViewSet(LeanViewSet):
    """Errors have the body of `InternError`. Creation reads `Idempotency-Key` itself."""

    once_by_key: ClassVar[bool] = False
    outage_error: ClassVar[Callable[[], GatewayError]] = InternInternalError

    def _failure(self, request: HttpRequest, error: BaseException) -> HttpResponseBase:
        log.error("%s %s failed", request.method, request.path_info, exc_info=error)
        return self.refusal(request, InternInternalError())

    def refusal(self, request: HttpRequest, error: GatewayError) -> HttpResponseBase:
        """Nothing stands beside `error`."""
        if isinstance(error, MethodNotAllowed):
            error = InternMethodNotAllowed(headers=error.headers)
        return error_response(error)
