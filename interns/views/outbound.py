"""POST /interns/{id}/fetch: an intern asks the gateway to fetch something for it."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase

from gateway.http.responses import json_response
from gateway.limits.limits import MINUTE_S, Exceeded, Limit, build_refusal, rate_limiter
from interns.access import authorize_caller, get_visible_intern, read_json_object
from interns.errors import InternError, InternForbidden
from interns.models import Status
from interns.outbound.fetch_request import read_fetch_request
from interns.outbound.fetching import fetch
from interns.views import outbound_description as described
from interns.views.base import InternViewSet

# Of one intern in one process.
AT_ONCE_MAX: Final = 4
_under_way: Counter[UUID] = Counter()


class NotRunning(InternError):
    status, reason, retryable = 409, "intern_not_ready", True
    message = "This intern is not running."


class TooManyFetches(InternError):
    status, reason, retryable = 429, "rate_limited", True
    message = "Too many fetches. Please wait a moment."


class FetchViewSet(InternViewSet):
    """The intern's own key only: whoever holds another sees no more of its secrets than before, and
    sends nothing in its name."""

    @described.fetching
    def create(self, request: HttpRequest, intern_id: str) -> HttpResponseBase:
        caller = authorize_caller(request)
        fetch_request = read_fetch_request(read_json_object(request))
        found = get_visible_intern(caller, intern_id)
        if caller.intern_id != found.pk:
            raise InternForbidden
        if found.status != Status.RUNNING:
            raise NotRunning
        with _take_slot(found.pk):
            answer = fetch(found, fetch_request)
        return json_response(answer.serialize(), headers={"Cache-Control": "no-store"})


@contextmanager
def _take_slot(intern_id: UUID) -> Iterator[None]:
    """Raises `TooManyFetches`."""
    if _under_way[intern_id] >= AT_ONCE_MAX:
        raise TooManyFetches(headers={"Retry-After": "1"})
    _count_fetch(intern_id)
    _under_way[intern_id] += 1
    try:
        yield
    finally:
        _under_way[intern_id] -= 1
        if not _under_way[intern_id]:
            del _under_way[intern_id]


def _count_fetch(intern_id: UUID) -> None:
    if settings.INTERN_FETCH_RPM:
        limit = Limit(f"fetch:{intern_id}", settings.INTERN_FETCH_RPM, MINUTE_S)
        taken = rate_limiter().take(limit)
        if isinstance(taken, Exceeded):
            raise TooManyFetches(headers=build_refusal(taken, source="router_fetch").headers)
