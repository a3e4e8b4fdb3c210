"""What a process tells its store of uses and corrections, and what it keeps to itself."""

from collections.abc import Sequence

from gateway.limits.limit_leases import LimitLeases
from gateway.limits.limit_store import LimitAnswer, LimitStore
from gateway.limits.limits import DAY_S, Exceeded, Limit, RateLimiter, WindowsTaken
from gateway.shared_cache import SharedCache

NOWHERE = SharedCache("", timeout_s=0.1)


class ScriptedStore(LimitStore):
    """Says one thing and notes what it is told: a real one cannot say which calls were spared."""

    def __init__(self) -> None:
        super().__init__(NOWHERE)
        self.answer: LimitAnswer | None = None
        self.told: list[list[tuple[str, int, int]]] = []
        self.flushed = False

    def take(self, limits: object) -> LimitAnswer | None:
        return self.answer

    look = take

    def add(self, parts: Sequence[tuple[str, int, int]]) -> None:
        self.told.append(list(parts))

    def flush(self) -> None:
        self.flushed = True


class Scripted:
    """A process with such a store, in the middle of a day."""

    def __init__(self) -> None:
        self.start, self.now = DAY_S * 20_000, DAY_S * 20_000 + 1000
        self.store = ScriptedStore()
        self.limiter = RateLimiter(NOWHERE, clock=lambda: self.now)
        self.limiter._store = self.store
        self.limiter._leases = LimitLeases(
            self.store.add, later=lambda *_: None, clock=lambda: self.now
        )

    def say(self, *used: int, refused: int = 0, more: int = 0) -> None:
        self.store.answer = LimitAnswer(self.now, refused, more, list(used))

    def list_used(self, *limits: Limit) -> list[int]:
        return [limit.most - self.limiter.find_tightest([limit]).left for limit in limits]


A, B = Limit("a", 100, DAY_S, 10), Limit("b", 100, DAY_S, 10)


def test_a_correction_is_told_to_the_store_where_the_store_counted_the_use() -> None:
    process = Scripted()
    limiter, told = process.limiter, process.store.told
    process.say(10, 20)
    taken = limiter.take(A, B)
    assert taken == WindowsTaken((A, B), (process.start, process.start))

    limiter.add(taken, [0, 0])
    assert told == []
    limiter.add(taken, [-4, 0])
    assert (told.pop(), process.list_used(A, B)) == ([("a", process.start, -4)], [6, 20])
    limiter.add(taken, [5, -30])
    assert told.pop() == [("a", process.start, 5), ("b", process.start, -30)]
    assert process.list_used(A, B) == [11, 0]

    # A day later the store still hears of it, and here the new day's count stands.
    process.now += DAY_S
    process.say(10, 10)
    assert isinstance(limiter.take(A, B), WindowsTaken)
    limiter.add(taken, [-4, -4])
    assert (len(told.pop()), process.list_used(A, B)) == (2, [10, 10])

    # What this process counted by itself is its own.
    process.store.answer = None
    own = limiter.take(A)
    assert isinstance(own, WindowsTaken)
    assert (own.is_local, process.list_used(A)) == (True, [20])
    limiter.add(own, [-5])
    assert (told, process.list_used(A)) == ([], [15])


def test_room_that_the_store_gave_is_used_without_it_and_given_back_at_the_end() -> None:
    process = Scripted()
    limiter, told = process.limiter, process.store.told
    process.say(100, refused=1)
    exceeded = Exceeded(A, 100, process.now)
    assert (limiter.find_exceeded(A), limiter.take(A)) == (exceeded, exceeded)
    process.say(10, 100, refused=2)
    assert limiter.take(A, B) == Exceeded(B, 100, process.now)

    process.say(60, more=3)
    taken = limiter.take(A)
    process.say(100, refused=1)

    assert limiter.take(A) == taken == WindowsTaken((A,), (process.start,))
    assert limiter.find_exceeded(A) is None
    # What was not needed stays with the room; not so what this process had counted alone.
    limiter.add(taken, [-3])
    limiter.add(taken._replace(is_local=True), [-7])
    assert (told, process.list_used(A)) == ([], [60 - 7])
    # What it needed beyond that is used by now, and the room is not.
    limiter.add(taken, [4])
    assert told.pop() == [("a", process.start, 4)]
    limiter.close()
    assert (told, process.store.flushed) == ([[("a", process.start, -(3 - 1) * 10 - 3)]], True)
