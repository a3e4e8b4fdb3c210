"""Where a request goes and how it begins: a base URL parsed once, and the request's head."""

import re
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Self
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}
_VISIBLE_ASCII = re.compile(r"[\x21-\x7e]*")

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TARGET = re.compile(r"/[\x21\x22\x24-\x7e]*")  # Visible ASCII without "#".

# Only the client sets these: a caller who named one would choose host or framing.
_RESERVED_HEADERS = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_METHODS_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


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
        host = parts.hostname
        if not host:
            raise ValueError("a base URL names a host")
        if not host.isascii() or len(host) > 253:
            try:
                host = host.encode("idna").decode("ascii")
            except UnicodeError:
                raise ValueError("the host of a base URL is no valid name") from None
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


def request_head(
    origin: Origin,
    *,
    method: str,
    path: str,
    headers: Sequence[tuple[str, str]],
    body_bytes: int,
    absolute_form: bool = False,
) -> bytes:
    """The request up to its body. Raises ValueError for anything that could bend the request."""
    if not _TARGET.fullmatch(path) or "/.." in path:
        raise ValueError("the path is not a plain absolute path in ASCII")
    target = origin.path_prefix + path
    if absolute_form:
        target = f"http://{origin.host_header}{target}"
    if not _TOKEN.fullmatch(method):
        raise ValueError("the method is not a token")
    lines = (
        f"{method} {target} HTTP/1.1\r\nHost: {origin.host_header}\r\nConnection: keep-alive\r\n"
    )
    if body_bytes or method in _METHODS_WITH_BODY:
        lines += f"Content-Length: {body_bytes}\r\n"
    names_encoding = False
    for name, value in headers:
        lowered = _check_header_name(name)
        if not (value.isascii() and value.isprintable()) and (
            any(char in value for char in "\r\n\0") or (not value.isascii() and max(value) > "\xff")
        ):
            # The value stays out of the text: it may be a credential.
            raise ValueError(f"the value of header {lowered} holds a forbidden character")
        names_encoding = names_encoding or lowered == "accept-encoding"
        lines += f"{name}: {value}\r\n"
    if not names_encoding:
        lines += "Accept-Encoding: identity\r\n"
    return f"{lines}\r\n".encode("latin-1")


@lru_cache(maxsize=256)
def _check_header_name(name: str) -> str:
    """The name in lower case. Kept, as adapters send the same few."""
    if not _TOKEN.fullmatch(name):
        raise ValueError("a header name is not a token")
    lowered = name.lower()
    if lowered in _RESERVED_HEADERS:
        raise ValueError(f"header {lowered} is set by the door")
    return lowered
