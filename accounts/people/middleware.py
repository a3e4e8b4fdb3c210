"""Doors before pages: one counts tries to sign in, one ends sessions that nobody uses, one asks for
a second factor."""

import re
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from threading import BoundedSemaphore
from typing import Any, Final
from urllib.parse import urlencode
from weakref import WeakValueDictionary

from allauth.account.internal.flows.login import record_authentication
from allauth.mfa import signals as factors
from django.contrib.auth.signals import user_logged_in
from django.dispatch import receiver
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBadRequest,
    HttpResponseBase,
    HttpResponseRedirect,
)
from django.urls import reverse

from accounts.people.adapter import lacks_second_factor, list_factors
from accounts.people.known_browsers import has_signed_in, list_known_names
from accounts.people.records import record_limit
from accounts.rates import count_sign_in
from accounts.services.attempts import record_attempt
from gateway.http.address import find_client
from gateway.http.body import read_form
from gateway.http.errors import RateLimited
from gateway.http.middleware import is_page
from gateway.live_settings import settings

# The ways in and out, and what everybody may read.
_FOR_ALL: Final = ("/static/", "/docs")
_OPEN: Final = ("/console/sign-", *_FOR_ALL)
# Where a factor is set up.
_SETUP: Final = "/console/you"

# Where somebody proves who they are, and which of these keep something of whoever only looks.
_WAYS_IN: Final = ("/console/sign-in", "/console/link/", "/console/you/password")
_BEGINNING: Final = re.compile(r"/console/sign-in/(at/[^/]+|passkey)")
_ENDS_AT: Final = "ends_at"
# What live parts of a page ask with by themselves (`console.js`).
_TICK_HEADER: Final = "X-Tick"
_AT_ONCE: Final = 2
# A form takes its room at least this long. So a burst of wrong ones takes a tenth of a process's
# time (10 ms each) from requests. A password that is looked at takes longer anyway.
_FORM_S: Final = 0.2
_WAIT_S: Final = 10.0
_TOO_MANY: Final = "Too many tries to sign in. Wait a minute, then try again.\n"
_FROM_ELSEWHERE: Final = "Another site sent this. Open the sign-in page yourself.\n"


class SignInRate:
    """Turns away who tries to sign in too often from one address, before the database is asked.

    Few forms are looked at at once: they wait for one another's rows, and many would meanwhile
    hold all connections that requests need. Those of browsers in which somebody has signed in do
    not wait for those of strangers. Of strangers' forms one of each address waits for the room, and
    its others wait for that one. So a crowd from some addresses keeps nobody else out.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response
        self._room, self._known_room = (BoundedSemaphore(_AT_ONCE) for _ in range(2))
        # Each as long as somebody has it or waits for it.
        self._turns = WeakValueDictionary[str, BoundedSemaphore]()

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        path, is_form = request.path_info, request.method not in ("GET", "HEAD")
        begins = not is_form and _BEGINNING.fullmatch(path) is not None
        if not path.startswith(_WAYS_IN) or not (is_form or begins):
            return self.get_response(request)
        # A page elsewhere may let a browser send it, unasked, and would take the tries of everybody
        # at the browser's address. Links may lead to where a sign-in begins.
        may_lead_here = not is_form and request.headers.get("Sec-Fetch-Mode") == "navigate"
        if request.headers.get("Sec-Fetch-Site") == "cross-site" and not may_lead_here:
            return HttpResponse(_FROM_ELSEWHERE, status=403, headers=_PLAIN)
        try:
            count_sign_in(request, begins=begins)
        except RateLimited as refusal:
            record_attempt("turned away", object_type="sign_in", reason="too many forms")
            return _turn_away(refusal.headers["Retry-After"])
        if not is_form:
            return self.get_response(request)
        # A slow sender keeps nobody waiting.
        if not read_form(request):
            return HttpResponseBadRequest()
        until = time.monotonic() + _WAIT_S
        with ExitStack() as places:
            for place in self._list_places(request):
                if not place.acquire(timeout=max(0.0, until - time.monotonic())):
                    return _turn_away("1")
                places.callback(place.release)
            left = time.monotonic() + _FORM_S
            places.callback(lambda: time.sleep(max(0.0, left - time.monotonic())))
            return self.get_response(request)

    def _list_places(self, request: HttpRequest) -> list[BoundedSemaphore]:
        """What a form takes, in this order, before it is looked at."""
        if _comes_from_known_browser(request):
            return [self._known_room]
        turn = self._turns.setdefault(find_client(request), BoundedSemaphore(1))
        return [turn, self._room]


def _comes_from_known_browser(request: HttpRequest) -> bool:
    """Whether whom the form names has signed in there; or anybody, where it names nobody, as the
    second step of a sign-in."""
    name = request.POST.get("login")
    return bool(list_known_names(request)) if name is None else has_signed_in(request, name)


def turn_away(request: HttpRequest) -> HttpResponse:
    """What who repeats the password too often gets (`handler429`)."""
    record_limit(request, "too many proofs")
    return _turn_away("60")


def _turn_away(retry_after: str) -> HttpResponse:
    return HttpResponse(_TOO_MANY, status=429, headers={"Retry-After": retry_after, **_PLAIN})


_PLAIN: Final = {
    "Content-Type": "text/plain",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


@receiver(user_logged_in)
def bound_session(sender: object, request: HttpRequest | None, **_: object) -> None:
    """A session ends so long after the sign-in, however much it is used."""
    if request is not None:
        request.session[_ENDS_AT] = time.time() + settings.SESSION_COOKIE_AGE
        request.session.set_expiry(timedelta(seconds=settings.SESSION_COOKIE_AGE))


class PageSessionEnd:
    """Ends sessions that nobody uses: each page that somebody opens puts the end off, up to that of
    `bound_session`."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        answer = self.get_response(request)
        # Also where the answer is that of a sign-in.
        if is_page(request) and not request.path_info.startswith(_FOR_ALL):
            _put_off_end(request)
        return answer


def _put_off_end(request: HttpRequest) -> None:
    """By what was used of the idle time, once that is a tenth of it: each time costs a write."""
    session = request.session
    # A session from before this rule has an end already.
    if (ends_at := session.get(_ENDS_AT)) is None:
        return
    idle_s = settings.SESSION_IDLE_MINUTES * 60 or settings.SESSION_COOKIE_AGE
    end = min(ends_at, time.time() + idle_s)
    later_s = end - session.get_expiry_date().timestamp()
    # Who sends the header at a sign-in has no longer session of it.
    if later_s > 0 and _TICK_HEADER in request.headers:
        return
    if abs(later_s) > idle_s / 10:
        session.set_expiry(datetime.fromtimestamp(end, UTC))


@receiver(factors.authenticator_added)
def count_new_factor(
    sender: Any, request: HttpRequest, user: Any, authenticator: Any, **_: Any
) -> None:
    """Setting a factor up proves to have it: this session has used it."""
    if authenticator.type != authenticator.Type.RECOVERY_CODES:
        facts = {"id": authenticator.pk, "type": authenticator.type}
        record_authentication(request, user, "mfa", **facts)


class PageSecondFactor:
    """Makes people use a second factor before any other page, where they need one and have used
    none in this session. A person who has none sets the first one up.

    That there is a factor says nothing of a session that began before it: somebody else's, who
    knows the password.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        path = request.path_info
        if not is_page(request) or path.startswith(_OPEN):
            return self.get_response(request)
        user: Any = request.user
        if not (user.is_authenticated and lacks_second_factor(request, user)):
            return self.get_response(request)
        kinds = {each.type for each in list_factors(user)}
        if not kinds:
            if path.startswith(_SETUP):
                return self.get_response(request)
            return HttpResponseRedirect(reverse("mfa_index"))
        by_code, by_passkey = reverse("mfa_reauthenticate"), reverse("mfa_reauthenticate_webauthn")
        if path in (by_code, by_passkey):
            return self.get_response(request)
        query = urlencode({"next": request.get_full_path()})
        return HttpResponseRedirect(f"{by_code if 'totp' in kinds else by_passkey}?{query}")
