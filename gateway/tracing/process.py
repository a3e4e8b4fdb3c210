"""The sender of this process. OpenTelemetry is loaded by the first who asks for it, and only where
traces are on."""

import os
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from django.conf import settings

if TYPE_CHECKING:
    from gateway.tracing.sender import SpanSender

_lock = threading.Lock()
_on_loss: list[Callable[[int], None]] = []
_sender: "SpanSender | None" = None
_owner: int | None = None


def get_sender() -> "SpanSender | None":
    """That of this process, made where there is none yet; None where traces are off."""
    global _sender, _owner
    if not settings.OTEL_EXPORTER_OTLP_ENDPOINT:
        return None
    if _owner != os.getpid():
        with _lock:
            if _owner != os.getpid():
                # A fork has the sender of its parent, but not its thread.
                _sender, _owner = _build_sender(), os.getpid()
    return _sender


def call_on_loss(note: Callable[[int], None]) -> None:
    """Have `note` called with how many spans are lost each time that some are."""
    _on_loss[:] = [note]


def stop_sender(within_s: float) -> None:
    """Send what is queued, for at most that long. A later caller gets another sender."""
    global _sender, _owner
    sender, _sender = _sender, None
    if sender is not None and _owner == os.getpid():
        sender.stop(within_s)
    _owner = None


def _build_sender() -> "SpanSender":
    from gateway.tracing.sender import build_sender

    own = {
        "service.name": settings.OTEL_SERVICE_NAME,
        "service.version": settings.GATEWAY_VERSION,
        "service.instance.id": f"{socket.gethostname()}-{os.getpid()}",
        "telemetry.sdk.language": "python",
        "telemetry.sdk.name": "opentelemetry",
    }
    return build_sender(
        settings.OTEL_EXPORTER_OTLP_ENDPOINT,
        headers=settings.OTEL_EXPORTER_OTLP_HEADERS,
        timeout_s=settings.OTEL_EXPORTER_OTLP_TIMEOUT / 1000,
        compression=settings.OTEL_EXPORTER_OTLP_COMPRESSION,
        certificate=settings.OTEL_EXPORTER_OTLP_CERTIFICATE,
        resource={**settings.OTEL_RESOURCE_ATTRIBUTES, **own},
        version=settings.GATEWAY_VERSION,
        on_loss=_on_loss,
    )
