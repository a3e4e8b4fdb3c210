"""The application that sent a request, by the address in its `HTTP-Referer` header."""

from typing import Final, NamedTuple
from urllib.parse import urlsplit

_CHARS_MAX: Final = 200


class ClientApp(NamedTuple):
    """`url` identifies the application: its address without query and fragment. `origin` is the
    scheme and host of it. Both are "" where there is none."""

    url: str = ""
    origin: str = ""


NO_APP: Final = ClientApp()


def parse_app(referer: str | None) -> ClientApp:
    """The application of a caller's header; `NO_APP` for anything but an http(s) address."""
    if not referer:
        return NO_APP
    try:
        parts = urlsplit(referer.strip())
        port = parts.port
    except ValueError:
        return NO_APP
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        return NO_APP
    place = parts.hostname + (f":{port}" if port else "")
    origin = f"{parts.scheme}://{place}"
    return ClientApp((origin + parts.path).rstrip("/")[:_CHARS_MAX], origin[:_CHARS_MAX])
