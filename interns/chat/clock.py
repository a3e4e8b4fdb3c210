"""What time it is, for everything about chats; tests bring a clock of their own."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Clock:
    """`now` is the wall's and goes into rows; `moment` is monotonic, in seconds, for waits."""

    now: Callable[[], datetime] = _utc_now
    moment: Callable[[], float] = time.monotonic


CLOCK = Clock()
