"""URLs that somebody else chose, taken apart without trusting them."""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urljoin, urlsplit

from gateway.outbound.exchange import Origin

URL_CHARS_MAX: Final = 8_192
# Below these only the web's own: mail servers and the like take HTTP for orders of theirs.
_SYSTEM_PORTS_END: Final = 1024
_WEB_PORTS: Final = frozenset({80, 443})
_URL: Final = re.compile(r"(?P<base>https?://[^/?#]*)(?P<rest>[^#]*)(?:#.*)?", re.I | re.S)
# What may stand in a path or query as it is; all else is percent-encoded.
_KEPT: Final = "%/:?[]@!$&'()*+,;=-._~"


class TargetRefused(ValueError):
    """A URL that no request is sent to. The text says why, for the one who chose it."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes. `path` has the query, both percent-encoded."""

    origin: Origin
    path: str

    @property
    def host(self) -> str:
        """The name or address, in lower case, as hosts are compared."""
        return self.origin.host

    @property
    def url(self) -> str:
        return f"{self.origin.scheme}://{self.origin.host_header}{self.path}"


def split_url(url: str) -> tuple[str, str]:
    """Scheme and host of a URL, and the path and query behind them. Raises `TargetRefused`."""
    if len(url) > URL_CHARS_MAX:
        raise TargetRefused(f"The URL is longer than {URL_CHARS_MAX} characters")
    parts = _URL.fullmatch(url)
    if parts is None:
        raise TargetRefused("The URL begins with http:// or https:// and names a host")
    return parts["base"], parts["rest"]


def target_of(base: str, rest: str) -> Target:
    """Both parts of `split_url` as a target. Raises `TargetRefused`."""
    try:
        # `example.com.` is `example.com`, and its certificate says the latter.
        origin = Origin.parse(re.sub(r"\.(?=(:[0-9]*)?$)", "", base))
    except ValueError as error:
        raise TargetRefused(str(error).replace("a base URL", "a URL")) from None
    if origin.port < _SYSTEM_PORTS_END and origin.port not in _WEB_PORTS:
        raise TargetRefused(f"Port {origin.port} is not one of the web's")
    path = quote(rest if rest.startswith("/") else f"/{rest}", safe=_KEPT)
    # Dots are resolved here; the door sends no path that climbs. Two slashes would name a host.
    parts = urlsplit(urljoin("http://host/", f"/.{path}"))
    return Target(origin, (parts.path or "/") + (f"?{parts.query}" if "?" in path else ""))


def follow_redirect(target: Target, location: str) -> Target:
    """Where an answer from the target sends its reader. Raises `TargetRefused`."""
    try:
        joined = urljoin(target.url, location.strip())
    except ValueError:
        raise TargetRefused("The redirect leads to no URL") from None
    return target_of(*split_url(joined))


def same_origin(one: Target, other: Target) -> bool:
    return one.origin.pool_key == other.origin.pool_key
