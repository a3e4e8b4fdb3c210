"""A reply on its way in a greenlet of its own, so that who waits for it can do more than wait."""

from collections.abc import Callable
from typing import Any

from gateway.outbound.errors import OutboundError
from gateway.outbound.reply import Reply
from routing.upstreams.failures import UpstreamFailure


class PendingReply:
    """Runs `work` at once. Needs gevent."""

    def __init__(self, work: Callable[[], Reply]) -> None:
        from gevent import spawn

        self._job = spawn(_captured, work)

    def wait(self, timeout_s: float | None) -> bool:
        """Whether it has ended within that time; None waits until it has."""
        self._job.join(timeout_s)
        return bool(self._job.ready())

    def reply(self) -> Reply:
        """What `work` returned, or raised: `UpstreamFailure` or `OutboundError`."""
        reply, error = self._job.get()
        if reply is None:
            raise error
        result: Reply = reply
        return result

    def late_reply(self) -> Reply | None:
        """The reply, if there was one after all, once the work has ended."""
        self._job.join()
        reply, _ = self._job.get()
        return reply if isinstance(reply, Reply) else None

    def let_go(self) -> None:
        """Close the reply when it comes: nobody will ask for it any more."""
        self._job.link(_close_late)


def _captured(work: Callable[[], Reply]) -> tuple[Reply | None, Any]:
    """gevent prints what a greenlet raises; so errors come back as values."""
    try:
        return work(), None
    except (UpstreamFailure, OutboundError) as error:
        return None, error


def _close_late(job: Any) -> None:
    # A killed greenlet's value is the exception that ended it.
    if isinstance(job.value, tuple) and job.value[0] is not None:
        job.value[0].close()
