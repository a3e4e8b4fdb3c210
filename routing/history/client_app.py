"""Which application asked, by the address it names (`HTTP-Referer`)."""

from typing import Final, NamedTuple
from urllib.parse import urlsplit

_CHARS_MAX: Final = 200


class ClientApp(NamedTuple):
    """`url` is the application's identity: its address without query and fragment. `origin` is the
    scheme and host of that. Both are "" where there is none."""

    url: str = ""
    origin: str = ""


NO_APP: Final = ClientApp()


def parse_app(referer: str | None) -> ClientApp:
    """The application of a caller's header; what is no http address is nobody's."""
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
