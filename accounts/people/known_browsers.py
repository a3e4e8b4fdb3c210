"""Browsers in which somebody has signed in before: no stranger's guesses keep them out of these.

A browser has a sealed cookie with the names of who signed in there. Wrong passwords that it sends
for one of these are counted by themselves, so that whoever guesses from ever new addresses neither
slows it down nor gets any guess more.
"""

import json
import time
from datetime import timedelta
from typing import Final

from django.http import HttpRequest, HttpResponseBase

from gateway.live_settings import settings
from gateway.sealing import UnsealError, seal, unseal

_COOKIE: Final = "known-browser"
_PURPOSE: Final = "known-browser"
# What it names are people, so that it is bound to no row.
_ROW: Final = "any"
_AGE_S: Final = int(timedelta(days=180).total_seconds())
_NAMES_MAX: Final = 5
_NAME_CHARS_MAX: Final = 150
_PATH: Final = "/console/"


def list_known_names(request: HttpRequest) -> dict[str, float]:
    """Who signed in there, in small letters, and until when that counts."""
    try:
        kept = json.loads(unseal(request.COOKIES.get(_COOKIE, ""), purpose=_PURPOSE, row=_ROW))
    except UnsealError:
        return {}
    now = time.time()
    return {name: until for name, until in kept.items() if until > now}


def is_known(request: HttpRequest, name: str) -> bool:
    return name.lower() in list_known_names(request)


def remember_browser(request: HttpRequest, answer: HttpResponseBase, name: str) -> None:
    """Name who has signed in, in the place of whoever did so the longest ago."""
    known = list_known_names(request) | {name.lower()[:_NAME_CHARS_MAX]: time.time() + _AGE_S}
    latest = sorted(known.items(), key=lambda each: each[1])[-_NAMES_MAX:]
    answer.set_cookie(
        _COOKIE,
        seal(json.dumps(dict(latest)), purpose=_PURPOSE, row=_ROW),
        max_age=_AGE_S,
        path=_PATH,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )
