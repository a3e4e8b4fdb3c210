"""Guesses at every way in beside good requests: passwords, codes of apps, tokens of programs.

All come from one address, where the good requests come from too, at a pace that goes on however
many are turned away. At their pace a whole run sends some ten thousand.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from tests.load.flooding import Paced, read_paced, start_paced
from tests.load.targets import LoadFailed, Target, post_target

# At each of the ways in.
GUESSES_PER_S: Final = 67
_CSRF: Final = "c" * 32
# Enough that each process has made one.
_FIRST_PAGES: Final = 20
# What each way in says of a guess that was looked at; the rest is 429.
_LOOKED_AT: Final = {"password": "200", "code": "403", "token": "401"}


@dataclass(frozen=True)
class Guessed:
    """Latency of good requests alone and beside guesses; how many guesses there were, and how many
    of them were looked at."""

    quiet_p50_ms: float
    p50_ms: float
    quiet_p95_ms: float
    p95_ms: float
    guesses: int
    looked_at: int


def measure_guesses(
    pace: Callable[[float], Paced], root_url: str, seconds: float, turns: Iterable[None]
) -> list[Guessed]:
    """Good requests, which `pace` sends, alone and beside guesses, in turn. Raises `LoadFailed`."""
    found, aims = [], build_guesses(root_url)
    # The first page of a process loads what pages need; guesses do not pay for that.
    for _ in range(_FIRST_PAGES):
        post_target(aims["password"])
    for _ in turns:
        quiet = pace(seconds)
        guessing = {name: start_paced(each, GUESSES_PER_S, seconds) for name, each in aims.items()}
        beside = pace(seconds)
        done = {name: read_paced(each, seconds).statuses for name, each in guessing.items()}
        looked_at = sum(count_looked_at(name, each) for name, each in done.items())
        found.append(
            Guessed(
                quiet.p50_ms,
                beside.p50_ms,
                quiet.p95_ms,
                beside.p95_ms,
                sum(sum(each.values()) for each in done.values()),
                looked_at,
            )
        )
    return found


def build_guesses(root_url: str) -> dict[str, Target]:
    """One guess at each way in, by its name."""
    password = urlencode({"login": "admin", "password": "guess", "csrfmiddlewaretoken": _CSRF})
    form = {
        "Content-Type": "application/x-www-form-urlencoded",
        "Cookie": f"csrftoken={_CSRF}",
    }
    code = json.dumps({"code": "0" * 65, "code_verifier": "x" * 43})
    token = f"eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJ4In0.{'0' * 43}"
    return {
        "password": Target(f"{root_url}/console/sign-in", "", password, form),
        "code": Target(f"{root_url}/api/v1/auth/keys", "", code),
        "token": Target(f"{root_url}/api/v1/chat/completions", token, "{}"),
    }


def count_looked_at(name: str, statuses: dict[str, int]) -> int:
    """Of the guesses at this way in. Raises `LoadFailed` where one got an odd answer."""
    if odd := statuses.keys() - {_LOOKED_AT[name], "429"}:
        raise LoadFailed(f"guesses of a {name} were answered {sorted(odd)}")
    return Counter(statuses)[_LOOKED_AT[name]]
