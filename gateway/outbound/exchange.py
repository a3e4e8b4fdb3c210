"""One call: where it goes and how it begins, its limits, the time it has left, and the handle that
ends it early."""

import re
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, Protocol, Self
from urllib.parse import urlsplit

from gateway.outbound.errors import (
    Aborted,
    DeadlineExceeded,
    Disconnected,
    OutboundError,
    Phase,
)

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


MIB = 1024 * 1024
# No system call takes an endless timeout as a number; every wait is in a loop that goes on.
WAIT_S_MAX = 3600.0
# While connecting there is nothing yet that an abort could shut down.
NOTICE_S = 0.2


@dataclass(frozen=True, slots=True)
class Limits:
    """How long the phases of a call may take, in seconds, and how much may come, in bytes.

    ``connect_s`` covers DNS, every address tried, the proxy and the TLS handshake.
    ``first_byte_s`` runs from the request being sent to the end of the head. ``idle_s`` is the
    longest silence between body bytes. ``body_bytes_max`` counts decoded bytes; ``head_bytes_max``
    covers the status line, the headers, interim 1xx replies, and the framing and trailers round a
    body.
    """

    connect_s: float
    first_byte_s: float
    idle_s: float
    body_bytes_max: int = 64 * MIB
    head_bytes_max: int = 64 * 1024


class Request(NamedTuple):
    """What goes out: the head with its empty line, then the body."""

    head: bytes
    body: bytes
    is_head: bool


class Cuttable(Protocol):
    def cut(self, owner: object) -> None: ...


class AbortHandle:
    """Ends one call from another greenlet or thread, also before there is a reply to abort.

    A call that is still connecting looks at it every `NOTICE_S`.
    """

    __slots__ = ("aborted", "connection")

    def __init__(self) -> None:
        self.aborted = False
        self.connection: Cuttable | None = None

    def abort(self) -> None:
        """Shut the call's socket down at once. Its owner meets Aborted."""
        self.aborted = True
        connection = self.connection
        if connection is not None:
            connection.cut(self)


class Exchange:
    """One request on its way: its clock, and how to say what went wrong."""

    __slots__ = (
        "abort_handle",
        "bytes_received",
        "clock",
        "deadline",
        "limits",
        "phase",
        "request",
    )

    def __init__(
        self,
        request: Request,
        clock: Callable[[], float],
        deadline: float,
        limits: Limits,
        abort_handle: AbortHandle,
    ) -> None:
        self.request = request
        self.clock = clock
        self.deadline = deadline
        self.limits = limits
        self.abort_handle = abort_handle
        self.phase: Phase = "connect"
        self.bytes_received = 0

    def left_s(self, until: float, too_late: type[OutboundError]) -> float:
        """Seconds to wait for ``until`` or the deadline, always above 0.

        Raises DeadlineExceeded or ``too_late``, whichever limit has passed.
        """
        now = self.clock()
        nearest = min(until, self.deadline)
        if now >= nearest:
            raise self.build_late_error(until, too_late)
        return min(nearest - now, WAIT_S_MAX)

    def notice_s(self, until: float, too_late: type[OutboundError]) -> float:
        """Seconds of ``left_s``, in steps that let an abort be seen. Raises Aborted too."""
        self.check_not_aborted()
        return min(self.left_s(until, too_late), NOTICE_S)

    def build_late_error(self, until: float, too_late: type[OutboundError]) -> OutboundError:
        """The error for having waited up to the nearer of ``until`` and the deadline."""
        if self.deadline <= until:
            return self.build_error(DeadlineExceeded, "the call's deadline passed")
        return self.build_error(too_late, "the upstream was silent for too long")

    def check_not_aborted(self) -> None:
        """Raises Aborted once the handle was used."""
        if self.abort_handle.aborted:
            raise self.build_error(Aborted, "the call was aborted")

    def build_loss_error(self, message: str) -> OutboundError:
        """The error for a connection that ended: by our own hand, or by the other side's."""
        if self.abort_handle.aborted:
            return self.build_error(Aborted, "the call was aborted")
        return self.build_error(Disconnected, message)

    def build_error(self, kind: type[OutboundError], message: str) -> OutboundError:
        return kind(message, phase=self.phase, bytes_received=self.bytes_received)
