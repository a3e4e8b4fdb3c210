"""The key cache, on a clock of the test's own."""

import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from accounts.caller import Caller
from accounts.keycache import KeyCache

WAIT_S = 10


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Rows:
    """Stands for the table: `read` answers from it and counts."""

    def __init__(self) -> None:
        self.callers: dict[str, Caller] = {}
        self.reads: list[str] = []
        self.before_answer: Callable[[], None] = lambda: None
        self._lock = threading.Lock()

    def read(self, key_hash: str) -> Caller | None:
        with self._lock:
            self.reads.append(key_hash)
        found = self.callers.get(key_hash)
        self.before_answer()
        return found


def caller(key_hash: str) -> Caller:
    account = uuid.uuid4()
    return Caller(1, key_hash, False, account, account, None, False, False, None, "")


@pytest.fixture
def rows() -> Rows:
    rows = Rows()
    rows.callers["known"] = caller("known")
    return rows


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(rows: Rows, clock: Clock) -> KeyCache:
    return KeyCache(rows.read, age_max_s=0.8, size_max=3, clock=clock)


def test_an_answer_is_used_until_it_is_too_old(cache: KeyCache, rows: Rows, clock: Clock) -> None:
    for moment in (0.0, 0.5, 0.79):
        clock.now = moment
        assert cache.find("known") is rows.callers["known"]
    assert rows.reads == ["known"]

    clock.now = 0.8
    cache.find("known")
    assert rows.reads == ["known"] * 2


def test_the_age_counts_from_when_the_read_began(cache: KeyCache, rows: Rows, clock: Clock) -> None:
    """A key revoked while its read was under way must not live a whole age longer."""

    def take_long() -> None:
        clock.now += 0.5

    rows.before_answer = take_long
    assert cache.find("known") is not None
    del rows.callers["known"]
    clock.now += 0.5

    assert cache.find("known") is None


def test_unknown_keys_are_remembered_as_unknown(cache: KeyCache, rows: Rows) -> None:
    assert [cache.find("unknown") for _ in range(5)] == [None] * 5
    assert rows.reads == ["unknown"]


def test_an_age_of_zero_remembers_nothing(rows: Rows, clock: Clock) -> None:
    cache = KeyCache(rows.read, age_max_s=0, clock=clock)

    cache.find("known")
    cache.find("known")

    assert len(rows.reads) == 2


def test_fifty_at_once_read_once(cache: KeyCache, rows: Rows) -> None:
    reading, may_answer = threading.Event(), threading.Event()

    def wait() -> None:
        reading.set()
        assert may_answer.wait(WAIT_S)

    rows.before_answer = wait
    with ThreadPoolExecutor(50) as pool:
        first = pool.submit(cache.find, "known")
        assert reading.wait(WAIT_S)
        others = [pool.submit(cache.find, "known") for _ in range(49)]
        may_answer.set()
        found = [each.result(WAIT_S) for each in (first, *others)]

    assert found == [rows.callers["known"]] * 50
    assert rows.reads == ["known"]


def test_the_number_of_remembered_keys_is_bounded(cache: KeyCache, rows: Rows) -> None:
    for number in range(1000):
        cache.find(str(number))
    assert len(cache._reads) == 3

    cache.find("999")
    cache.find("0")
    assert rows.reads[1000:] == ["0"]


def test_an_error_is_told_and_not_remembered(cache: KeyCache, rows: Rows) -> None:
    def fail() -> None:
        raise OSError("the database is gone")

    rows.before_answer = fail
    for _ in range(2):
        with pytest.raises(OSError, match="gone"):
            cache.find("known")
    rows.before_answer = lambda: None

    assert cache.find("known") is not None
    assert len(rows.reads) == 3


def test_an_error_reaches_all_who_waited_for_the_read(cache: KeyCache, rows: Rows) -> None:
    reading, may_fail = threading.Event(), threading.Event()

    def fail() -> None:
        reading.set()
        assert may_fail.wait(WAIT_S)
        raise OSError("the database is gone")

    rows.before_answer = fail
    with ThreadPoolExecutor(10) as pool:
        first = pool.submit(cache.find, "known")
        assert reading.wait(WAIT_S)
        others = [pool.submit(cache.find, "known") for _ in range(9)]
        may_fail.set()
        errors = [each.exception(WAIT_S) for each in (first, *others)]

    assert all(isinstance(error, OSError) for error in errors)


def test_whoever_waits_for_a_read_that_never_ends_gives_up(rows: Rows, clock: Clock) -> None:
    cache = KeyCache(rows.read, age_max_s=0.8, wait_max_s=0.02, clock=clock)
    reading, may_end = threading.Event(), threading.Event()

    def wait() -> None:
        reading.set()
        assert may_end.wait(WAIT_S)

    rows.before_answer = wait
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(cache.find, "known")
        assert reading.wait(WAIT_S)
        with pytest.raises(TimeoutError):
            cache.find("known")
        may_end.set()
        assert slow.result(WAIT_S) is not None


def test_forgetting_reads_anew(cache: KeyCache, rows: Rows) -> None:
    cache.find("known")
    cache.forget()
    cache.find("known")

    assert len(rows.reads) == 2


def test_it_knows_a_key_that_was_good_however_long_ago(
    cache: KeyCache, rows: Rows, clock: Clock
) -> None:
    assert not cache.knows("known")
    cache.find("known")
    cache.find("wrong")
    clock.now += 100

    assert cache.knows("known")
    assert not cache.knows("wrong")
    during: list[bool] = []
    rows.before_answer = lambda: during.append(cache.knows("known"))
    cache.find("known")
    assert during == [True]


def test_it_does_not_know_a_key_that_is_gone(cache: KeyCache, rows: Rows, clock: Clock) -> None:
    cache.find("known")
    rows.callers.clear()
    clock.now += 1
    cache.find("known")

    assert not cache.knows("known")
