"""The id of a request. Its answer, its errors, its record and the log lines about it carry the id,
so that each of them leads to the others."""

import os
import re
import time
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from gateway.live_settings import settings
from gateway.tracing.spans import build_trace_id, is_sampled

HEADER: Final = "X-Request-Id"
_OWN: Final = re.compile(r"req-([0-9a-f]{8})[0-9a-f]{16}")
_SANE: Final = re.compile(r"[!-~]{1,128}")
# https://www.w3.org/TR/trace-context/: version, trace, parent and flags; later versions may go on.
_TRACEPARENT: Final = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?"
)


class TraceParent(NamedTuple):
    """A place in a distributed trace: the trace, the span that calls, and flags, in hexadecimal.
    `span_id` is "" where the trace begins here."""

    trace_id: str
    span_id: str
    flags: str

    @property
    def is_sampled(self) -> bool:
        return bool(int(self.flags, 16) & 1)


class RequestIdentity(NamedTuple):
    """`id` is the caller's own where that is sane, and so is `trace`. Where the caller named no
    trace, one begins here if traces are on; else it is None."""

    id: str
    trace: TraceParent | None = None


_current: ContextVar[RequestIdentity | None] = ContextVar("request_identity", default=None)
_environ: ContextVar[Mapping[str, Any] | None] = ContextVar("request_environ", default=None)


def begin_request(environ: Mapping[str, Any]) -> RequestIdentity:
    """The identity of the request that begins here, from its headers. It is that of the greenlet
    until its next request."""
    identity = RequestIdentity(
        choose_request_id(environ.get("HTTP_X_REQUEST_ID", "")),
        read_traceparent(environ.get("HTTP_TRACEPARENT")) or begin_trace(),
    )
    _current.set(identity)
    _environ.set(environ)
    return identity


def choose_request_id(given: str) -> str:
    """The caller's own where that is sane, else a new one."""
    return given if _SANE.fullmatch(given) else build_request_id()


def end_request() -> None:
    """Its answer is sent: what this greenlet does from now on belongs to no request."""
    _current.set(None)
    _environ.set(None)


def build_request_id() -> str:
    """`req-<24 hexadecimal digits>`, of which eight say when in seconds since 1970: what an id
    stands for is found by its time."""
    return f"req-{int(time.time()):08x}{os.urandom(8).hex()}"


def read_request_time(request_id: str) -> datetime | None:
    """When an id of the gateway's own was made; None for others."""
    found = _OWN.fullmatch(request_id)
    return None if found is None else datetime.fromtimestamp(int(found[1], 16), UTC)


def get_request_id() -> str | None:
    """That of the request under way; None in a worker, a command or a thread."""
    identity = _current.get()
    return None if identity is None else identity.id


def get_identity() -> RequestIdentity | None:
    """The identity of the request under way; None in a worker, a command or a thread."""
    return _current.get()


def get_environ() -> Mapping[str, Any] | None:
    """The WSGI environment of the request under way, in lanes' threads too; else None."""
    return _environ.get()


def begin_trace() -> TraceParent | None:
    """A new trace, whose flags say whether it is sampled; None where traces are off."""
    if not settings.OTEL_EXPORTER_OTLP_ENDPOINT:
        return None
    trace_id = build_trace_id()
    return TraceParent(trace_id, "", "01" if is_sampled(trace_id, settings.TRACES_SHARE) else "00")


def read_traceparent(given: str | None) -> TraceParent | None:
    """What is malformed counts as absent, as the standard has it."""
    if given is None or (found := _TRACEPARENT.fullmatch(given)) is None:
        return None
    if given.startswith("00-") and len(given) != 55:
        return None
    return TraceParent(*found.groups())
