"""Requests that a browser sends from a page of another origin (CORS).

They may reach what is called with an inference key or exchanges a code for one, and nothing that
manages an account. The API knows no cookies, so any origin may ask: it needs a key all the same.
It is no django-cors-headers, which is a middleware: inference requests bypass all middleware.
"""

import re
from collections.abc import Callable
from typing import Any, Final

from django.http import HttpResponse
from django.utils.cache import patch_vary_headers

from gateway.live_settings import settings

Headers = list[tuple[str, str]]
_PATHS: Final = re.compile(
    r"/api/(?:alpha/decisions|v1/(?:chat/completions|messages|responses|embeddings|systemone|models?"
    r"|endpoints|providers|generation|key))(?:/|$)|/api/v1/auth/keys/?$"
)
_HEADER_NAMES: Final = re.compile(r"[A-Za-z0-9-]+(?:, ?[A-Za-z0-9-]+){0,63}")
_COUNTED: Final = ("requests", "tokens")
_FIGURES: Final = ("limit", "remaining", "reset")
# What no page may read unless it is named.
_EXPOSED: Final = ", ".join(
    (
        *("X-Generation-Id", "X-Request-Id", "Retry-After"),
        *("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"),
        *(f"x-ratelimit-{name}-{what}" for what in _COUNTED for name in _FIGURES),
        *(f"anthropic-ratelimit-{what}-{name}" for what in _COUNTED for name in _FIGURES),
        *("X-Router-Cache-Status", "X-Router-Cache-Age", "X-Router-Cache-TTL"),
        *("X-Router-Cache-Source-Id", "X-Router-Semantic-Cache", "X-Router-Semantic-Similarity"),
    )
)
_DAY_S: Final = "86400"


def is_covered(path: str) -> bool:
    """Whether pages of other origins may ask this path."""
    return _PATHS.match(path) is not None


def add_headers(origin: str, start_response: Callable[..., Any]) -> Callable[..., Any]:
    """`start_response` that also says whether a page of `origin` may read the answer."""
    allowed = settings.CORS_ALLOW_ORIGINS
    if "*" in allowed:
        own = [("Access-Control-Allow-Origin", "*"), ("Access-Control-Expose-Headers", _EXPOSED)]
    else:
        own = [("Vary", "Origin")]
        if origin in allowed:
            own.append(("Access-Control-Allow-Origin", origin))
            own.append(("Access-Control-Expose-Headers", _EXPOSED))

    def start(status: str, headers: Headers, *more: object) -> Any:
        return start_response(status, [*headers, *own], *more)

    return start


def answer_preflight(environ: dict[str, Any]) -> HttpResponse | None:
    """The answer to a browser that asks before it sends; None for any other request."""
    if environ["REQUEST_METHOD"] != "OPTIONS":
        return None
    if "HTTP_ACCESS_CONTROL_REQUEST_METHOD" not in environ:
        return None
    answer = HttpResponse(status=204)
    del answer.headers["Content-Type"]
    answer["Access-Control-Allow-Methods"] = "GET, POST"
    answer["Access-Control-Max-Age"] = _DAY_S
    # By name: `*` does not stand for Authorization.
    wanted = environ.get("HTTP_ACCESS_CONTROL_REQUEST_HEADERS", "")
    if _HEADER_NAMES.fullmatch(wanted):
        answer["Access-Control-Allow-Headers"] = wanted
    patch_vary_headers(answer, ["Access-Control-Request-Headers"])
    return answer
