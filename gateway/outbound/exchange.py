"""The limits of one call, the time it has left, and the handle that ends it early."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from gateway.outbound.errors import (
    Aborted,
    DeadlineExceeded,
    Disconnected,
    OutboundError,
    Phase,
)

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
