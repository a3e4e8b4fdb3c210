"""A log line for each request that is refused, so that the id in its answer leads somewhere."""

import logging
import time
from collections.abc import Callable
from typing import Final

log = logging.getLogger("gateway.refusals")

# A flood of refusals fills no disk and keeps nobody waiting for stderr.
LINES_PER_S: Final = 50
_WHAT_CHARS_MAX: Final = 200


class RefusalLines:
    """At most `LINES_PER_S` lines in each second; the first one after others were left out says how
    many. `now` gives monotonic seconds."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._second = self._written = self._left_out = 0

    def write(self, what: str, status: int, reason: str, *, request_id: str | None = None) -> None:
        """`what` was refused may be in a caller's words. `request_id` is there where no request is
        under way: else the line has its id anyhow."""
        second = int(self._now())
        if second != self._second:
            self._second, self._written = second, 0
        if self._written >= LINES_PER_S:
            self._left_out += 1
            return
        self._written += 1
        left_out, self._left_out = self._left_out, 0
        shown = what if what.isprintable() else what.encode("unicode_escape").decode("ascii")
        log.info(
            "%s: %d %s%s%s",
            shown[:_WHAT_CHARS_MAX],
            status,
            reason,
            f" [{request_id}]" if request_id else "",
            f"; {left_out} others were left out" if left_out else "",
            extra={"status": status, "reason": reason}
            | ({"request_id": request_id} if request_id else {}),
        )


refusal_lines: Final = RefusalLines()
