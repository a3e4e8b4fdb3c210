"""Look-ups that are remembered for less than a second per process.

The age of an answer counts from when its read *started*. So what changed while the read was under
way is seen within the stated second. One caller reads, the others wait for it. That there is
nothing is remembered too, within the same bound on size.
"""

import threading
import time
from _thread import allocate_lock
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from django.db import OperationalError

Name = TypeVar("Name", bound=Hashable)
Found = TypeVar("Found")


@dataclass(slots=True)
class _Read(Generic[Found]):
    """One look-up: under way until `done`, then an answer or an error. Until there is an answer,
    `former` is what the one before it found."""

    started_at: float
    former: Found | None = None
    done: threading.Event = field(default_factory=threading.Event)
    found: Found | None = None
    error: BaseException | None = None
    weight: int = 1
    # Until then it is an answer, and nobody has to be waited for.
    good_until: float = float("-inf")

    @property
    def latest(self) -> Found | None:
        return self.found if self.done.is_set() and self.error is None else self.former


class TtlCache(Generic[Name, Found]):
    """`find(name)` gives what was found or None; errors of `read` are raised to all who waited.

    `size_max` bounds how many answers are kept; where they differ in size, `weight_of` says what
    each counts for.
    """

    def __init__(
        self,
        read: Callable[[Name], Found | None],
        *,
        age_max_s: float,
        size_max: int = 10_000,
        wait_max_s: float = 5,
        clock: Callable[[], float] = time.monotonic,
        weight_of: Callable[[Found | None], int] = lambda value: 1,
    ) -> None:
        self._read = read
        self._age_max_s = age_max_s
        self._size_max = size_max
        self._wait_max_s = wait_max_s
        self._clock = clock
        self._weight_of = weight_of
        self._weight = 0
        self._reads: OrderedDict[Name, _Read[Found]] = OrderedDict()
        # The system's own, for threads of lanes too: nobody yields while holding it.
        self._lock = allocate_lock()

    def find(self, name: Name) -> Found | None:
        read = self._reads.get(name)
        if read is not None and self._clock() < read.good_until:
            return read.found
        read, is_ours = self._join_read(name)
        if is_ours:
            self._carry_out(name, read)
        elif not read.done.wait(self._wait_max_s):
            raise OperationalError("The look-up under way did not end")
        if read.error is not None:
            if not (is_ours or isinstance(read.error, Exception)):
                # The reader's time is over, or it was stopped: that is not ours.
                raise OperationalError("The look-up under way was cut off") from read.error
            raise read.error
        return read.found

    def find_newer(self, name: Name, than: Found) -> Found | None:
        """What is found by a look-up other than the one that gave `than`."""
        with self._lock:
            read = self._reads.get(name)
            if read is not None and read.found is than:
                read.started_at = read.good_until = float("-inf")
        return self.find(name)

    def knows(self, name: Name) -> bool:
        """Whether there was something the last time somebody looked, however long ago."""
        return self.recall(name) is not None

    def recall(self, name: Name) -> Found | None:
        """What was found the last time that a look-up was answered, however long ago."""
        read = self._reads.get(name)
        return None if read is None else read.latest

    def forget(self) -> None:
        with self._lock:
            self._reads.clear()
            self._weight = 0

    def _join_read(self, name: Name) -> tuple[_Read[Found], bool]:
        with self._lock:
            read = self._reads.get(name)
            if read is not None and self._clock() - read.started_at < self._age_max_s:
                return read, False
            former = None if read is None else read.latest
            self._drop(name)
            read = self._reads[name] = _Read(self._clock(), former, weight=self._weight_of(former))
            self._weight += read.weight
            self._make_room()
            return read, True

    def _drop(self, name: Name) -> None:
        gone = self._reads.pop(name, None)
        if gone is not None:
            self._weight -= gone.weight

    def _make_room(self) -> None:
        while self._weight > self._size_max and self._reads:
            self._drop(next(iter(self._reads)))

    def _carry_out(self, name: Name, read: _Read[Found]) -> None:
        try:
            read.found = self._read(name)
            weight = self._weight_of(read.found)
            with self._lock:
                if self._reads.get(name) is read:
                    self._weight += weight - read.weight
                    read.weight = weight
                    self._make_room()
            read.former, read.good_until = None, read.started_at + self._age_max_s
        except BaseException as error:
            read.error = error
            with self._lock:
                if self._reads.get(name) is read:
                    # The next one looks again.
                    read.started_at = float("-inf")
                    if read.former is None:
                        self._drop(name)
            raise
        finally:
            read.done.set()
