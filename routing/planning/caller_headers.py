"""What the headers of an inference request add to its body."""

import re
from typing import NamedTuple

from django.http import HttpRequest

from routing.serving.request.context import AppFacts
from routing.upstreams.anthropic.wire import parse_betas

_TEXT_CHARS_MAX = 500
_BETA_HEADERS = ("HTTP_X_ANTHROPIC_BETA", "HTTP_ANTHROPIC_BETA")
CATEGORIES_MAX = 2
CATEGORY_CHARS_MAX = 30
_CATEGORY = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class CallerHeaders(NamedTuple):
    """`betas` names what the caller wants of message-style upstreams."""

    app: AppFacts
    betas: str
    wants_metadata: bool


def read_caller_headers(request: HttpRequest) -> CallerHeaders:
    """The calling application, the betas, and whether `router_metadata` is wanted."""
    meta = request.META
    texts = (
        # The header is called `HTTP-Referer`; browsers send `Referer` by themselves.
        meta.get("HTTP_HTTP_REFERER") or meta.get("HTTP_REFERER"),
        meta.get("HTTP_X_ROUTER_TITLE") or meta.get("HTTP_X_TITLE"),
        meta.get("HTTP_USER_AGENT"),
    )
    referer, title, user_agent = [text[:_TEXT_CHARS_MAX] if text else None for text in texts]
    named = meta.get("HTTP_X_ROUTER_CATEGORIES")
    app = AppFacts(referer, title, categories(named) if named else (), user_agent)
    betas = [str(header) for name in _BETA_HEADERS if (header := meta.get(name))]
    metadata = meta.get("HTTP_X_ROUTER_METADATA")
    if metadata is None:
        metadata = meta.get("HTTP_X_ROUTER_EXPERIMENTAL_METADATA", "")
    wants_metadata = str(metadata).strip().lower() == "enabled"
    return CallerHeaders(app, parse_betas(betas) if betas else "", wants_metadata)


def categories(header: str) -> tuple[str, ...]:
    """The first two well-formed words of a comma list; what is not well-formed is left out."""
    words = (word.strip() for word in header.split(","))
    return tuple(
        word
        for word in words
        if len(word) <= CATEGORY_CHARS_MAX and _CATEGORY.fullmatch(word) is not None
    )[:CATEGORIES_MAX]
