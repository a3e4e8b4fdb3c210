"""Hanging up on a database that does not answer, at no cost to the statements it does answer."""

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from django.conf import settings

from routing.ledger.session import LedgerSession
from routing.ledger.tickets import new_event

_LOOK_S = 0.25


class Watchdog:
    """While open, looks beside the writer's thread at what the writer is waiting for.

    `busy_since` is when the writer last began to wait for the database (monotonic), 0 while it does
    not. The patience is half of what a settlement waits, so that a second try fits in.
    """

    def __init__(self, session: Callable[[], LedgerSession | None]) -> None:
        self.busy_since = 0.0
        self._session = session
        self._ended: Any = None

    def __enter__(self) -> Self:
        self._ended = new_event()
        thread = threading.Thread(
            target=self._look, args=(self._ended,), name="ledger-watchdog", daemon=True
        )
        thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()

    def _look(self, ended: Any) -> None:
        while not ended.wait(_LOOK_S):
            since, session = self.busy_since, self._session()
            if since and session and time.monotonic() - since > settings.LEDGER_TIMEOUT / 2:
                session.cut()
