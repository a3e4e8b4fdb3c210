"""What every Celery worker does besides its tasks: it shows `/readyz` that it lives."""

from typing import Any

from celery.signals import heartbeat_sent, worker_ready

from gateway.health import worker_lives


@worker_ready.connect
@heartbeat_sent.connect
def show_life(**_: Any) -> None:
    """Every two seconds, from the worker's main process."""
    worker_lives()
