"""Browsers in which somebody has signed in before: no stranger's guesses keep them out of these.

A browser has a sealed cookie with the names of who signed in there. Wrong passwords that it sends
for one of these are counted by themselves. So whoever guesses from ever new addresses neither slows
it down nor gets any guess more. A new password ends that.
"""

import json
import time
from datetime import timedelta
from typing import Any, Final

from django.http import HttpRequest, HttpResponseBase

from accounts.models import User
from gateway.live_settings import settings
from gateway.sealing import UnsealError, seal, unseal

_COOKIE: Final = "known-browser"
_PURPOSE: Final = "known-browser"
# What it names are people, so that it is bound to no row but to the form of what it says.
_ROW: Final = "until and mark"
_AGE_S: Final = int(timedelta(days=180).total_seconds())
_NAMES_MAX: Final = 5
_NAME_CHARS_MAX: Final = 150
_MARK_CHARS: Final = 16


def list_known_names(request: HttpRequest) -> dict[str, tuple[float, str]]:
    """The names of those who signed in there, in small letters; until when that counts, and a mark
    of the password.
    """
    sealed = request.COOKIES.get(_build_cookie_name(), "")
    try:
        kept = json.loads(unseal(sealed, purpose=_PURPOSE, row=_ROW))
    except UnsealError:
        return {}
    now = time.time()
    return {name: (until, mark) for name, (until, mark) in kept.items() if until > now}


def has_signed_in(request: HttpRequest, name: str) -> bool:
    """Whether the cookie names that person; it does after a change of the password too."""
    return name.lower() in list_known_names(request)


def find_sign_in(request: HttpRequest, name: str) -> str | None:
    """The name of that person's last sign-in there, which no other one has; None where there was
    none, or the password has changed since."""
    if not has_signed_in(request, name):
        return None
    until, mark = list_known_names(request)[name.lower()]
    user = User.objects.filter(username__iexact=name).first()
    return f"{name.lower()}:{until}" if user is not None and mark == _mark(user) else None


def remember_browser(request: HttpRequest, answer: HttpResponseBase, user: Any) -> None:
    """Name who has signed in, in the place of whoever did so the longest ago."""
    name = user.get_username().lower()[:_NAME_CHARS_MAX]
    known = list_known_names(request) | {name: (time.time() + _AGE_S, _mark(user))}
    latest = sorted(known.items(), key=lambda each: each[1])[-_NAMES_MAX:]
    answer.set_cookie(
        _build_cookie_name(),
        seal(json.dumps(dict(latest)), purpose=_PURPOSE, row=_ROW),
        max_age=_AGE_S,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def _build_cookie_name() -> str:
    return f"{settings.COOKIE_PREFIX}{_COOKIE}"


def _mark(user: Any) -> str:
    """It changes with the password, of which it says nothing."""
    return str(user.get_session_auth_hash())[:_MARK_CHARS]
