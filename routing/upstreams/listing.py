"""Asking a provider which models it serves, in the way of its wire kind."""

from typing import Final

from routing.upstreams.anthropic.wire import VERSION

PATH: Final = "/models"
# Message-style providers give their list in pages; this is the longest there is.
_PAGE: Final = "?limit=1000"
_MESSAGES: Final = "anthropic"


def listing_path(kind: str) -> str:
    """What to get below the provider's base URL for all models at once."""
    return PATH + _PAGE if kind == _MESSAGES else PATH


def listing_headers(kind: str, credential: str | None) -> list[tuple[str, str]]:
    headers = [("Accept", "application/json")]
    if kind == _MESSAGES:
        headers.append(("anthropic-version", VERSION))
    if credential:
        own = ("x-api-key", credential)
        headers.append(own if kind == _MESSAGES else ("Authorization", f"Bearer {credential}"))
    return headers
