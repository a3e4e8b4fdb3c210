"""Key strings: what they look like; and the cache of keys, on a clock of the test's own."""

import hashlib
import random
import re
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from zlib import crc32

import pytest
from django.db import OperationalError
from hypothesis import given
from hypothesis import strategies as st

from accounts.authentication import KeyCache
from accounts.caller import Caller
from accounts.keystring import generate_key, hash_key, is_well_formed, label_key

PREFIX = "sk-rt-v1-"


def test_a_key_is_prefix_56_random_digits_and_8_of_the_checksum() -> None:
    key = generate_key(PREFIX)
    assert re.fullmatch(r"sk-rt-v1-[0-9a-f]{64}", key)
    assert int(key[-8:], 16) == crc32(key[:-8].encode())
    assert is_well_formed(key, PREFIX)
    assert label_key(PREFIX + "abc" + "d" * 58 + "890", PREFIX) == "sk-rt-v1-abc...890"


def test_keys_do_not_repeat_and_are_hashed_as_a_whole() -> None:
    keys = [generate_key(PREFIX) for _ in range(1000)]
    assert len(set(keys)) == 1000
    assert hash_key(keys[0]) == hashlib.sha256(keys[0].encode("ascii")).hexdigest()


def mangle(key: str, chance: random.Random) -> str:
    """A typo: a digit changed, two neighbours swapped, one lost, one too many, upper case."""
    at = chance.randrange(len(PREFIX), len(key) - 1)
    other = chance.choice([digit for digit in "0123456789abcdef" if digit != key[at]])
    swapped = key[:at] + key[at + 1] + key[at] + key[at + 2 :]
    return chance.choice(
        [
            key[:at] + other + key[at + 1 :],
            swapped if swapped != key else key[:-1],
            key[:at] + key[at + 1 :],
            key[:at] + other + key[at:],
            key.upper(),
            key[len(PREFIX) :],
            f"{key} ",
            key.replace("sk-rt", "sk-or"),
        ]
    )


def test_a_thousand_typos_and_odd_strings_are_all_told_from_real_keys() -> None:
    chance, key = random.Random(1), generate_key(PREFIX)
    odd = ["", PREFIX, "Bearer", "sk-", "é" * 73, PREFIX + "é" * 64, PREFIX + "\x00" * 64]
    odd += [mangle(key, chance) for _ in range(1000)]
    assert not any(is_well_formed(text, PREFIX) for text in [*odd, "0" * 10**6])


@given(st.text())
def test_whatever_is_sent_is_looked_at_without_an_error(text: str) -> None:
    assert not is_well_formed(PREFIX + text, PREFIX) or len(text) == 64


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


class Gate:
    """Holds a read under way until the test lets it end; then it fails with `error`, if any."""

    def __init__(self, rows: Rows, error: Exception | None = None) -> None:
        self.reading, self.may_end = threading.Event(), threading.Event()
        self.error = error
        rows.before_answer = self._wait

    def _wait(self) -> None:
        self.reading.set()
        assert self.may_end.wait(WAIT_S)
        if self.error:
            raise self.error

    def let_many_in(self, cache: KeyCache, count: int) -> list[Future[Caller | None]]:
        """What so many who ask at once are answered, in the end."""
        with ThreadPoolExecutor(count) as pool:
            first = pool.submit(cache.find, "known")
            assert self.reading.wait(WAIT_S)
            others = [pool.submit(cache.find, "known") for _ in range(count - 1)]
            self.may_end.set()
            return [first, *others]


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


def test_unknown_keys_are_remembered_as_unknown_and_only_so_many(
    cache: KeyCache, rows: Rows
) -> None:
    assert [cache.find("unknown") for _ in range(5)] == [None] * 5
    assert rows.reads == ["unknown"]
    for number in range(1000):
        cache.find(str(number))
    assert len(cache._reads) == 3
    rows.reads.clear()
    cache.find("999")
    cache.find("0")
    assert rows.reads == ["0"]


def test_an_age_of_zero_or_forgetting_reads_anew(cache: KeyCache, rows: Rows, clock: Clock) -> None:
    none = KeyCache(rows.read, age_max_s=0, clock=clock)
    for found in (none, cache):
        found.find("known")
        found.forget()
        found.find("known")
    none.find("known")

    assert len(rows.reads) == 5


def test_fifty_at_once_read_once(cache: KeyCache, rows: Rows) -> None:
    found = Gate(rows).let_many_in(cache, 50)
    assert [each.result() for each in found] == [rows.callers["known"]] * 50
    assert rows.reads == ["known"]


def test_an_error_reaches_all_who_waited_for_the_read(cache: KeyCache, rows: Rows) -> None:
    found = Gate(rows, OSError("the database is gone")).let_many_in(cache, 10)
    assert all(isinstance(each.exception(), OSError) for each in found)


def test_an_error_is_told_and_not_remembered(cache: KeyCache, rows: Rows) -> None:
    Gate(rows, OSError("the database is gone")).may_end.set()
    for _ in range(2):
        with pytest.raises(OSError, match="gone"):
            cache.find("known")
    rows.before_answer = lambda: None

    assert cache.find("known") is not None
    assert len(rows.reads) == 3


def test_whoever_waits_for_a_read_that_never_ends_gives_up(rows: Rows, clock: Clock) -> None:
    cache = KeyCache(rows.read, age_max_s=0.8, wait_max_s=0.02, clock=clock)
    gate = Gate(rows)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(cache.find, "known")
        assert gate.reading.wait(WAIT_S)
        with pytest.raises(OperationalError):
            cache.find("known")
        gate.may_end.set()
        assert slow.result(WAIT_S) is not None


def test_it_knows_a_key_that_was_good_long_ago(cache: KeyCache, rows: Rows, clock: Clock) -> None:
    assert not cache.knows("known")
    cache.find("known")
    cache.find("wrong")
    clock.now += 100

    assert (cache.knows("known"), cache.knows("wrong")) == (True, False)
    during: list[bool] = []
    rows.before_answer = lambda: during.append(cache.knows("known"))
    cache.find("known")
    assert during == [True]
    rows.callers.clear()
    clock.now += 1
    cache.find("known")
    assert not cache.knows("known")
