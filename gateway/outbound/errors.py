"""What can go wrong at the outbound door, by name."""

from typing import ClassVar, Literal

Phase = Literal["connect", "head", "body"]


class OutboundError(Exception):
    """An upstream call that gave no whole answer.

    ``phase`` is how far the call came, ``bytes_received`` counts the bytes of the answer seen on
    the wire, head included. The text never holds header values or bodies.
    """

    kind: ClassVar[str]

    def __init__(self, message: str, *, phase: Phase, bytes_received: int = 0) -> None:
        super().__init__(message)
        self.phase = phase
        self.bytes_received = bytes_received


class DnsFailed(OutboundError):
    """The name of the host gave no address."""

    kind = "dns_failed"


class ConnectFailed(OutboundError):
    """Every address refused, was unreachable, or may not be dialled; or the proxy said no."""

    kind = "connect_failed"


class NotAllowed(ConnectFailed):
    """No address of the name may be dialled; none was."""


class TlsFailed(OutboundError):
    """The handshake broke, or the certificate is not one to trust for this host."""

    kind = "tls_failed"


class ConnectTimeout(OutboundError):
    """No connection within ``connect_s``."""

    kind = "connect_timeout"


class FirstByteTimeout(OutboundError):
    """No complete head within ``first_byte_s`` of the request being sent."""

    kind = "first_byte_timeout"


class IdleTimeout(OutboundError):
    """No body byte for ``idle_s``."""

    kind = "idle_timeout"


class DeadlineExceeded(OutboundError):
    """The whole call took too long."""

    kind = "deadline_exceeded"


class Disconnected(OutboundError):
    """Reset, or end of file before the end of the answer."""

    kind = "disconnected"


class MalformedReply(OutboundError):
    """Bytes that are no HTTP answer, or not one this door takes."""

    kind = "malformed_reply"


class BodyTooLarge(MalformedReply):
    """The body is over ``body_bytes_max``."""

    kind = "body_too_large"


class Aborted(OutboundError):
    """Ended from this side, by ``abort`` or ``close``."""

    kind = "aborted"
