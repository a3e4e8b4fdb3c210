"""The queue in front of what has no place free: who waits, and whose turn it is.

Accounts are served in turn, and within each its workspaces, each as often as its weight says. One
that sends ten times as much waits ten times as long; others do not. It is one process's own. The
places themselves are counted over all processes (`gateway.limits.concurrency`).
"""

import itertools
from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence, Set
from dataclasses import dataclass, field
from functools import cache
from typing import Final, Generic, NamedTuple, TypeVar
from uuid import UUID

from gateway.limits.concurrency import Bound, concurrency_limiter

# What a turn takes of virtual time, at a weight of 1. Whole numbers keep equal times equal.
_TURN: Final = 1_000_000

T = TypeVar("T")


@dataclass(eq=False, slots=True)
class Waiting:
    """A request that waits for one of `scopes`. `place` is one more than how many were to be served
    before it, in its best queue, when it came. `look` is called when it may be its turn."""

    account: UUID
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
    """How long a request waited, and at which place it began."""

    place: int
    waited_s: float


@dataclass(slots=True)
class _Turns(Generic[T]):
    """Members that are served in turn. `due` says when it is a member's turn in virtual time, and
    which turn of all was its last. Of that time `passed` has gone by: who comes anew begins there,
    so that nobody saves up turns."""

    members: dict[UUID, T] = field(default_factory=dict)
    due: dict[UUID, tuple[int, int]] = field(default_factory=dict)
    passed: int = 0

    def find_next(self) -> UUID:
        return min(self.members, key=self.due.__getitem__)

    def add(self, key: UUID, member: T, weight: int, number: int) -> None:
        self.members[key] = member
        self.due[key] = (self.passed + _TURN // weight, number)

    def use_turn(self, key: UUID, weight: int, number: int) -> None:
        least, _ = min(self.due.values())
        self.passed = max(self.passed, least)
        self.due[key] = (self.due[key][0] + _TURN // weight, number)

    def remove(self, key: UUID) -> None:
        del self.members[key], self.due[key]

    def count_before(
        self, key: UUID, weight: int, ahead: int, measure: Callable[[T], tuple[int, int]]
    ) -> int:
        """How many are served before one of this member's that comes now, where `ahead` of its own
        are. `measure` says how many a member has, and its weight."""
        step = _TURN // weight
        due = self.due[key][0] if key in self.members else self.passed + step
        until, count = due + ahead * step, ahead
        for other, member in self.members.items():
            if other != key:
                size, other_weight = measure(member)
                first, step = self.due[other][0], _TURN // other_weight
                # Of two that are due at the same time the later one has turned later.
                earlier = max(first == until, -((first - until) // step))
                count += max(0, min(size, earlier))
        return count


_Workspaces = _Turns[deque[Waiting]]


@dataclass(slots=True)
class _Lane:
    """The requests that wait for one scope."""

    accounts: _Turns[_Workspaces] = field(default_factory=_Turns)

    def find_next(self) -> Waiting:
        workspaces = self.accounts.members[self.accounts.find_next()]
        return workspaces.members[workspaces.find_next()][0]

    def find_last_turn(self) -> int:
        """Which turn of all was the last one of the account that is next."""
        return self.accounts.due[self.accounts.find_next()][1]

    def find_latest(self, account: UUID, workspace: UUID) -> Waiting | None:
        workspaces = self.accounts.members.get(account)
        those = None if workspaces is None else workspaces.members.get(workspace)
        return those[-1] if those else None

    def count_before(self, waiting: Waiting) -> int:
        """How many are served before one that comes now."""
        account, workspace, weight = waiting.account, waiting.workspace, waiting.weight
        workspaces = self.accounts.members.get(account, _Workspaces())
        ahead = len(workspaces.members.get(workspace, ()))
        ahead = workspaces.count_before(workspace, weight, ahead, _measure_workspace)
        if workspaces.members:
            weight = max(weight, _measure_account(workspaces)[1])
        return self.accounts.count_before(account, weight, ahead, _measure_account)

    def add(self, waiting: Waiting, number: int) -> None:
        account, workspace, weight = waiting.account, waiting.workspace, waiting.weight
        if account not in self.accounts.members:
            self.accounts.add(account, _Workspaces(), weight, number)
        workspaces = self.accounts.members[account]
        if workspace not in workspaces.members:
            workspaces.add(workspace, deque(), weight, number)
        workspaces.members[workspace].append(waiting)

    def remove(self, waiting: Waiting, number: int, *, is_served: bool) -> None:
        account, workspace = waiting.account, waiting.workspace
        workspaces = self.accounts.members[account]
        if is_served:
            self.accounts.use_turn(account, _measure_account(workspaces)[1], number)
            workspaces.use_turn(workspace, waiting.weight, number)
        workspaces.members[workspace].remove(waiting)
        if not workspaces.members[workspace]:
            workspaces.remove(workspace)
        if not workspaces.members:
            self.accounts.remove(account)


def _measure_workspace(those: deque[Waiting]) -> tuple[int, int]:
    return len(those), those[0].weight


def _measure_account(workspaces: _Workspaces) -> tuple[int, int]:
    """An account weighs as much as the heaviest of its workspaces that wait."""
    sizes = [_measure_workspace(those) for those in workspaces.members.values()]
    return sum(size for size, _ in sizes), max(weight for _, weight in sizes)


class FairQueue:
    """All that wait in this process, at most `size_max`. Greenlets share it without a lock: nothing
    switches within its methods."""

    def __init__(self) -> None:
        self._lanes: dict[str, _Lane] = {}
        # By account and workspace.
        self._counts: dict[UUID, Counter[UUID]] = {}
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return sum(each.total() for each in self._counts.values())

    def __bool__(self) -> bool:
        return bool(self._lanes)

    def join(self, waiting: Waiting, *, size_max: int) -> bool:
        """Wait at the end of one's workspace; False where the queue is full. In a full queue the
        account with most requests gives up its latest for an account that has fewer. Within an
        account it is the workspace with most."""
        if len(self) >= size_max and not self._make_room(waiting):
            return False
        lanes = [self._lanes.setdefault(scope, _Lane()) for scope in waiting.scopes]
        waiting.place = min(lane.count_before(waiting) for lane in lanes) + 1
        for lane in lanes:
            lane.add(waiting, next(self._numbers))
        self._counts.setdefault(waiting.account, Counter())[waiting.workspace] += 1
        waiting.is_counted = True
        return True

    def join_more(self, waiting: Waiting, scopes: Set[str]) -> None:
        """Wait for these too, at the end of one's workspace there."""
        if waiting.is_over:
            return
        for scope in scopes - waiting.scopes:
            self._lanes.setdefault(scope, _Lane()).add(waiting, next(self._numbers))
        waiting.scopes |= scopes

    def leave(self, waiting: Waiting, *, served: Set[str] | None = None) -> None:
        """Give up the place. With `served`, the scopes of what it got, it uses its turn in those
        where it waits. Where it waits for none of them, it uses its turn where it is next. The next
        request looks at once. Told twice, it counts once."""
        if not waiting.is_counted:
            return
        used = frozenset[str]() if served is None else waiting.scopes & served
        if served is not None and not used:
            used = frozenset(
                scope for scope in waiting.scopes if self._lanes[scope].find_next() is waiting
            )
        nexts = []
        for scope in waiting.scopes:
            lane = self._lanes[scope]
            lane.remove(waiting, next(self._numbers), is_served=scope in used)
            if lane.accounts.members:
                nexts.append(lane.find_next())
            else:
                del self._lanes[scope]
        waiting.is_counted = False
        counts = self._counts[waiting.account]
        counts[waiting.workspace] -= 1
        # Without those that are at 0.
        self._counts[waiting.account] = +counts
        if not self._counts[waiting.account]:
            del self._counts[waiting.account]
        for each in nexts:
            each.look()

    def is_next(self, waiting: Waiting) -> bool:
        """Whether it is its turn in one of its scopes."""
        lanes = (self._lanes.get(scope) for scope in waiting.scopes)
        return any(lane is not None and lane.find_next() is waiting for lane in lanes)

    def find_overtaken(self, bounds: Sequence[Bound], waiting: Waiting | None) -> Bound | None:
        """The first of the bounds where somebody else is next; None where a place may be taken. A
        request that is next at one of them may take all. Otherwise two that are next at one each,
        and need both, would wait for each other."""
        queued = [bound for bound in bounds if bound.scope in self._lanes]
        if any(self._lanes[bound.scope].find_next() is waiting for bound in queued):
            return None
        return queued[0] if queued else None

    def announce(self, scopes: Collection[str]) -> None:
        """A place may be free in these: who is next looks. First does the one whose account had no
        turn for longest: it may need the places of another scope, too."""
        lanes = [lane for scope in scopes if (lane := self._lanes.get(scope)) is not None]
        for each in [lane.find_next() for lane in sorted(lanes, key=_Lane.find_last_turn)]:
            each.look()

    def _make_room(self, waiting: Waiting) -> bool:
        account = max(self._counts, key=lambda each: self._counts[each].total())
        own = self._counts.get(waiting.account, Counter())
        is_own = self._counts[account].total() <= own.total() + 1
        if is_own:
            account = waiting.account
        counts = self._counts.get(account)
        if not counts:
            return False
        workspace = max(counts, key=counts.__getitem__)
        if is_own and counts[workspace] <= own[waiting.workspace] + 1:
            return False
        found = [lane.find_latest(account, workspace) for lane in self._lanes.values()]
        latest = [each for each in found if each is not None][-1]
        self.leave(latest)
        latest.give_up()
        return True


@cache
def fair_queue() -> FairQueue:
    """This process's own."""
    queue = FairQueue()
    concurrency_limiter().on_free = queue.announce
    return queue
