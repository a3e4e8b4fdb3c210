"""Waiting for a place at endpoints that have none free."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from gateway.database.db import under_gevent
from gateway.limits.concurrency import Bound
from gateway.limits.fair_queue import QueueStay, Waiting, fair_queue
from gateway.live_settings import settings
from routing.entities.entries import EndpointEntry
from routing.selection.types import Plan
from routing.serving.admission.endpoint_limits import Full
from routing.serving.attempts.attempts import Attempts
from routing.serving.attempts.house_credentials import AllParked
from routing.serving.request import process
from routing.serving.request.client_watch import ClientWatch
from routing.serving.request.context import Attempt, RequestProgress

if TYPE_CHECKING:
    from gevent.event import Event

# A place that another process gives back is noticed this late.
_LOOK_EVERY_S: Final = 0.2
# The limits of an endpoint, and of a credential of the gateway's: everybody's requests count.
_SHARED: Final = ("places:endpoint:", "places:credential:")


class QueueingAttempts(Attempts):
    """See `Attempts`. Where no endpoint has a place free the request waits for one, in its turn."""

    def __init__(self, progress: RequestProgress) -> None:
        super().__init__(progress)
        # What may be waited for, by the limits' scopes.
        self._full_scopes: set[str] = set()

    def _try_turns(
        self, *, is_again: bool = False, is_last_resort: bool = False
    ) -> Iterator[Attempt]:
        plan = self._progress.context.plan
        yield from super()._try_turns(is_again=is_again, is_last_resort=is_last_resort)
        if self._full_scopes and not is_again and len(self._progress.attempts) == self._first:
            yield from self._wait_for_place(plan)

    def _wait_for_place(self, plan: Plan) -> Iterator[Attempt]:
        """The attempts of the plan once it is the request's turn at one of the full endpoints."""
        progress = self._progress
        with _wait_in_queue(progress, self._full_scopes) as turns:
            for _ in turns:
                # What was passed over may be asked now.
                progress.context = progress.context._replace(plan=plan)
                self._full_scopes = set()
                for attempt in super()._try_turns():
                    _leave_queue(progress, attempt)
                    yield attempt
                has_tried = len(progress.attempts) > self._first
                # Waiting helps against nothing else.
                if has_tried or not self._full_scopes or self._refused is not None:
                    return
                if progress.waiting is not None:
                    fair_queue().join_more(progress.waiting, self._full_scopes)

    def _waits_in_turn(self) -> bool:
        return self._progress.parent is None and len(self._progress.attempts) == self._first

    def _pass_over(self, endpoint: EndpointEntry, cause: Full | AllParked) -> None:
        super()._pass_over(endpoint, cause)
        bound = cause.cause if isinstance(cause, Full) else None
        if not (isinstance(bound, Bound) and bound.scope.startswith(_SHARED)):
            return
        # What a tool asks of a model does not wait: the request that it serves may have the place.
        if settings.ROUTER_QUEUE_SECONDS and self._progress.parent is None and under_gevent():
            self._full_scopes.add(bound.scope)


@contextmanager
def _wait_in_queue(progress: RequestProgress, scopes: set[str]) -> Iterator[Iterator[None]]:
    """Wait for one of these; the iterator goes on whenever it may be the request's turn."""
    from gevent.event import Event

    event, caller = Event(), progress.context.caller
    assert caller.workspace_id is not None
    waiting = Waiting(
        caller.account_id,
        caller.workspace_id,
        caller.queue_weight,
        frozenset(scopes),
        event.set,
        began=process.now(),
    )
    if not fair_queue().join(waiting, size_max=settings.ROUTER_QUEUE_MAX):
        yield iter(())
        return
    progress.waiting = waiting
    watch = ClientWatch(progress.client, waiting.give_up)
    watch.start(stalled_s=settings.ROUTER_STALLED_READER_SECONDS)
    until = min(waiting.began + settings.ROUTER_QUEUE_SECONDS, progress.context.deadline)
    try:
        yield _list_turns(waiting, event, until)
    finally:
        watch.stop()
        _leave_queue(progress)


def _list_turns(waiting: Waiting, event: "Event", until: float) -> Iterator[None]:
    queue = fair_queue()
    while not waiting.is_over:
        event.clear()
        if queue.is_next(waiting):
            yield
            # A place that it gave back itself wakes itself: nothing else would ever run.
            event.clear()
        left_s = until - process.now()
        if waiting.is_over or left_s <= 0:
            return
        # Only who is next has to look for what other processes give back.
        event.wait(min(left_s, _LOOK_EVERY_S) if queue.is_next(waiting) else left_s)


def _leave_queue(progress: RequestProgress, attempt: Attempt | None = None) -> None:
    """Wait no longer: the attempt has a place, or nobody will be asked."""
    waiting, progress.waiting = progress.waiting, None
    if waiting is None:
        return
    served: set[str] | None = None
    if attempt is not None:
        served = {each.scope for each in attempt.limits.places} if attempt.limits else set()
    fair_queue().leave(waiting, served=served)
    progress.queue_stay = QueueStay(waiting.place, process.now() - waiting.began)
