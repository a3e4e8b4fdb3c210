"""The queue in front of what has no place free: who waits, and whose turn it is.

Workspaces are served in turn, each as often as its weight says: one that sends ten times as much
waits ten times as long, and others do not. It is one process's own. The places themselves are
counted over all processes (`gateway.limits.concurrency`).
"""

import itertools
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final, NamedTuple
from uuid import UUID

from gateway.limits.concurrency import Bound, concurrency_limiter

# What a turn takes of virtual time, at a weight of 1. Whole numbers keep equal times equal.
_TURN: Final = 1_000_000


@dataclass(eq=False, slots=True)
class Waiting:
    """A request that waits for one of `scopes`. `place` is how many were to be served before it in
    its best queue when it came, plus one; `look` is called when it may be its turn."""

    workspace: UUID
    weight: int
    scopes: frozenset[str]
    look: Callable[[], None]
    place: int = 0
    is_over: bool = False
    is_counted: bool = False
    # In monotonic seconds.
    began: float = 0.0

    def give_up(self) -> None:
        """Wait no longer: the caller has left, or others need the room. From the event loop too."""
        self.is_over = True
        self.look()


class QueueStay(NamedTuple):
    """What a request is told of its waiting."""

    place: int
    waited_s: float


@dataclass(slots=True)
class _Lane:
    """Who waits for one scope. `due` says when it is a workspace's turn in virtual time, of which
    `passed` has gone by: who comes anew begins there, so that nobody saves up turns."""

    waiting: dict[UUID, deque[Waiting]] = field(default_factory=dict)
    due: dict[UUID, tuple[int, int]] = field(default_factory=dict)
    passed: int = 0

    def find_next(self) -> Waiting:
        return self.waiting[min(self.waiting, key=self.due.__getitem__)][0]

    def count_before(self, workspace: UUID, weight: int) -> int:
        """How many are served before one that comes now."""
        ahead = len(self.waiting.get(workspace, ()))
        step = _TURN // weight
        due = self.due[workspace][0] if ahead else self.passed + step
        until, count = due + ahead * step, ahead
        for other, those in self.waiting.items():
            if other != workspace:
                first, step = self.due[other][0], _TURN // those[0].weight
                # Of two that are due at the same time the later one has turned later.
                earlier = max(first == until, -((first - until) // step))
                count += max(0, min(len(those), earlier))
        return count


class FairQueue:
    """All that wait in this process, at most `size_max`. Greenlets share it without a lock: nothing
    switches within its methods."""

    def __init__(self) -> None:
        self._lanes: dict[str, _Lane] = {}
        self._counts: dict[UUID, int] = {}
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return sum(self._counts.values())

    def __bool__(self) -> bool:
        return bool(self._lanes)

    def join(self, waiting: Waiting, *, size_max: int) -> bool:
        """Wait at the end of one's workspace; False where the queue is full. In a full one the
        workspace with most requests gives up its latest for one that has fewer."""
        if len(self) >= size_max and not self._make_room(waiting.workspace):
            return False
        workspace, weight = waiting.workspace, waiting.weight
        lanes = [self._lanes.setdefault(scope, _Lane()) for scope in waiting.scopes]
        waiting.place = min(lane.count_before(workspace, weight) for lane in lanes) + 1
        for lane in lanes:
            if workspace not in lane.waiting:
                lane.waiting[workspace] = deque()
                lane.due[workspace] = (lane.passed + _TURN // weight, next(self._numbers))
            lane.waiting[workspace].append(waiting)
        self._counts[workspace] = self._counts.get(workspace, 0) + 1
        waiting.is_counted = True
        return True

    def leave(self, waiting: Waiting, *, served: str | None = None) -> None:
        """Give up the place, or with `served` use the turn in that scope. Who is next looks at
        once. Told twice, it counts once."""
        workspace, nexts = waiting.workspace, []
        for scope in waiting.scopes:
            lane = self._lanes.get(scope)
            if lane is None or waiting not in lane.waiting.get(workspace, ()):
                continue
            lane.waiting[workspace].remove(waiting)
            if scope == served:
                due, _ = lane.due[workspace]
                lane.passed = max(lane.passed, due)
                lane.due[workspace] = (due + _TURN // waiting.weight, next(self._numbers))
            if not lane.waiting[workspace]:
                del lane.waiting[workspace], lane.due[workspace]
            if not lane.waiting:
                del self._lanes[scope]
            else:
                nexts.append(lane.find_next())
        if waiting.is_counted:
            waiting.is_counted = False
            self._counts[workspace] -= 1
            if not self._counts[workspace]:
                del self._counts[workspace]
        for each in nexts:
            each.look()

    def is_next(self, waiting: Waiting) -> bool:
        """Whether it is its turn in one of its scopes."""
        lanes = (self._lanes.get(scope) for scope in waiting.scopes)
        return any(lane is not None and lane.find_next() is waiting for lane in lanes)

    def find_overtaken(self, bounds: Sequence[Bound], waiting: Waiting | None) -> Bound | None:
        """The first of the bounds where somebody else is next; None where a place may be taken."""
        for bound in bounds:
            lane = self._lanes.get(bound.scope)
            if lane is not None and lane.find_next() is not waiting:
                return bound
        return None

    def announce(self, scopes: Collection[str]) -> None:
        """A place may be free in these: who is next looks."""
        for scope in scopes:
            if (lane := self._lanes.get(scope)) is not None:
                lane.find_next().look()

    def _make_room(self, workspace: UUID) -> bool:
        most = max(self._counts, key=self._counts.__getitem__)
        if self._counts[most] <= self._counts.get(workspace, 0) + 1:
            return False
        lanes = [lane for lane in self._lanes.values() if most in lane.waiting]
        latest = lanes[-1].waiting[most][-1]
        self.leave(latest)
        latest.give_up()
        return True


@cache
def fair_queue() -> FairQueue:
    """This process's own."""
    queue = FairQueue()
    concurrency_limiter().on_free = queue.announce
    return queue
