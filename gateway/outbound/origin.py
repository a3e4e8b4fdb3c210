"""Where requests go: one provider's base URL, parsed once."""

import re
import ssl
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import SplitResult, urlsplit

_PORTS = {"http": 80, "https": 443}
_VISIBLE_ASCII = re.compile(r"[\x21-\x7e]*")


@dataclass(frozen=True, slots=True)
class Origin:
    """Scheme, host and port of an upstream, and the path its API begins at.

    ``path_prefix`` is empty or begins with a slash and does not end with one. Two origins that
    share ``pool_key`` share connections. ``tls_context`` None stands for the door's shared
    default. One with a ``socket_path`` listens on a Unix socket of this machine.
    """

    scheme: str
    host: str
    port: int
    path_prefix: str
    host_header: str
    pool_key: str
    tls_context: ssl.SSLContext | None = field(default=None, compare=False)
    socket_path: str = ""

    @classmethod
    def of_socket(cls, path: str) -> Self:
        """A server of this machine's own; no base URL says so."""
        return cls("http", "localhost", 80, "", "localhost", f"unix:{path}", socket_path=path)

    @classmethod
    def parse(cls, base_url: str, *, tls_context: ssl.SSLContext | None = None) -> Self:
        """Take a base URL apart. Raises ValueError for anything but a plain http or https one."""
        parts = _split(base_url)
        host = _ascii_host(parts)
        port = parts.port if parts.port is not None else _PORTS[parts.scheme]
        if port == 0:
            raise ValueError("a base URL needs a port other than 0")
        bracketed = f"[{host}]" if ":" in host else host
        return cls(
            scheme=parts.scheme,
            host=host,
            port=port,
            path_prefix=parts.path.rstrip("/"),
            host_header=bracketed if port == _PORTS[parts.scheme] else f"{bracketed}:{port}",
            pool_key=f"{parts.scheme}://{bracketed}:{port}"
            + (f" {id(tls_context)}" if tls_context is not None else ""),
            tls_context=tls_context,
        )

    @property
    def is_tls(self) -> bool:
        return self.scheme == "https"

    @property
    def authority(self) -> str:
        """Host and port as CONNECT wants them, the port always there."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _split(base_url: str) -> SplitResult:
    # urlsplit drops line breaks and keeps backslashes, so odd characters are refused before it.
    if any(char <= " " or char in "\\\x7f" for char in base_url):
        raise ValueError("a base URL holds no spaces, control characters or backslashes")
    if "?" in base_url or "#" in base_url:
        raise ValueError("a base URL has no query and no fragment")
    parts = urlsplit(base_url)
    if parts.scheme not in _PORTS:
        raise ValueError("a base URL begins with http:// or https://")
    if "@" in parts.netloc:
        raise ValueError("a base URL holds no credentials")
    if not _VISIBLE_ASCII.fullmatch(parts.path):
        raise ValueError("the path of a base URL is ASCII; write other characters as %XX")
    return parts


def _ascii_host(parts: SplitResult) -> str:
    host = parts.hostname
    if not host:
        raise ValueError("a base URL names a host")
    if host.isascii() and len(host) <= 253:
        return host
    try:
        return host.encode("idna").decode("ascii")
    except UnicodeError:
        raise ValueError("the host of a base URL is no valid name") from None
