"""What the headers of an inference request say beside its body."""

from django.http import HttpRequest

from routing.serving.request.call import AppFacts
from routing.serving.settlement.app_facts import categories
from routing.upstreams.anthropic.wire import parse_betas

_TEXT_CHARS_MAX = 500


def wants_metadata(request: HttpRequest) -> bool:
    """Whether the caller asks for `router_metadata`."""
    value = request.META.get("HTTP_X_ROUTER_METADATA")
    if value is None:
        value = request.META.get("HTTP_X_ROUTER_EXPERIMENTAL_METADATA", "")
    return str(value).strip().lower() == "enabled"


def betas(request: HttpRequest) -> str:
    """What the caller wants of message-style upstreams beside their version."""
    names = ("HTTP_X_ANTHROPIC_BETA", "HTTP_ANTHROPIC_BETA")
    headers = [str(header) for name in names if (header := request.META.get(name))]
    return parse_betas(headers) if headers else ""


def app_facts(request: HttpRequest) -> AppFacts:
    """What is said of the calling application."""
    meta = request.META
    title = meta.get("HTTP_X_ROUTER_TITLE") or meta.get("HTTP_X_TITLE")
    return AppFacts(
        # The header is called `HTTP-Referer`; browsers send `Referer` by themselves.
        referer=_short(meta.get("HTTP_HTTP_REFERER") or meta.get("HTTP_REFERER")),
        title=_short(title),
        categories=categories(meta.get("HTTP_X_ROUTER_CATEGORIES", "")),
        user_agent=_short(meta.get("HTTP_USER_AGENT")),
    )


def _short(value: str | None) -> str | None:
    return value[:_TEXT_CHARS_MAX] if value else None
