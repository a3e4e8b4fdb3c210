"""POST /interns/{id}/fetch: an intern asks the gateway to fetch something for it."""

import base64
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from drf_spectacular.utils import OpenApiResponse, extend_schema
from pydantic import ConfigDict, Field

from gateway.http.resources import ResourceObject
from gateway.http.responses import json_response
from gateway.limits.limits import MINUTE_S, Exceeded, Limit, build_refusal, rate_limiter
from gateway.openapi.components import component
from interns.access import authorize_caller, get_visible_intern, read_json_object
from interns.errors import InternError, InternForbidden
from interns.models import Status
from interns.outbound.fetch_request import FetchBody, read_fetch_request
from interns.outbound.fetching import fetch
from interns.views.base import INTERN_ERROR, INTERN_ID, InternViewSet, intern_errors

# Of one intern in one process.
AT_ONCE_MAX: Final = 4
_under_way: Counter[UUID] = Counter()


class NotRunning(InternError):
    status, reason, retryable = 409, "intern_not_ready", True
    message = "This intern is not running."


class TooManyFetches(InternError):
    status, reason, retryable = 429, "rate_limited", True
    message = "Too many fetches. Please wait a moment."


class FetchedObject(ResourceObject):
    """What a site answered."""

    model_config = ConfigDict(title="InternFetched")

    status: int = Field(description="What the site answered.")
    url: str = Field(description="Where the answer came from in the end.")
    headers: dict[str, str]
    body: str | None = Field(description="Null where it is not text.")
    body_base64: str | None = Field(description="Null where `body` is not.")
    truncated: bool
    redirects: list[str]
    secrets: list[str] = Field(description="Names of the secrets that were sent.")


class FetchViewSet(InternViewSet):
    """The intern's own key only: whoever holds another sees no more of its secrets than before, and
    sends nothing in its name."""

    @extend_schema(
        operation_id="fetchForIntern",
        summary="Fetch something for an intern",
        description="Sends a request to the public Internet for a running intern. Secrets go only "
        "to the exact hosts that they are bound to, over https, and their values are taken out of "
        "the answer. Takes the intern's own key.",
        tags=["Interns"],
        parameters=[INTERN_ID],
        request={"application/json": component(FetchBody)},
        responses={
            200: OpenApiResponse(
                component(FetchedObject), description="The site's answer, whatever it was."
            ),
            **intern_errors(400, 401, 403, 404, 409, 413, 415, 429, 500, 502),
            504: OpenApiResponse(INTERN_ERROR, description="The site took too long."),
        },
    )
    def create(self, request: HttpRequest, intern_id: str) -> HttpResponseBase:
        caller = authorize_caller(request)
        fetch_request = read_fetch_request(read_json_object(request))
        intern = get_visible_intern(caller, intern_id)
        if caller.intern_id != intern.pk:
            raise InternForbidden
        if intern.status != Status.RUNNING:
            raise NotRunning
        with _take_slot(intern.pk):
            result = fetch(intern, fetch_request)
        raw = None if result.text is not None else base64.b64encode(result.body).decode()
        answer = FetchedObject.from_row(result, body=result.text, body_base64=raw)
        return json_response(answer, headers={"Cache-Control": "no-store"})


@contextmanager
def _take_slot(intern_id: UUID) -> Iterator[None]:
    """Raises `TooManyFetches`."""
    if _under_way[intern_id] >= AT_ONCE_MAX:
        raise TooManyFetches(headers={"Retry-After": "1"})
    if settings.INTERN_FETCH_RPM:
        limit = Limit(f"fetch:{intern_id}", settings.INTERN_FETCH_RPM, MINUTE_S)
        taken = rate_limiter().take(limit)
        if isinstance(taken, Exceeded):
            raise TooManyFetches(headers=build_refusal(taken, source="router_fetch").headers)
    _under_way[intern_id] += 1
    try:
        yield
    finally:
        _under_way[intern_id] -= 1
        if not _under_way[intern_id]:
            del _under_way[intern_id]
