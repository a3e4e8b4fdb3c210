"""Key look-ups, cached for less than a second per process.

The age of an answer counts from when its read *started*, so a key revoked while the read was under
way is gone within the stated second. One caller reads, the others wait for it. Unknown hashes are
remembered too, within the same bound on size.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from accounts.caller import Caller


@dataclass(slots=True)
class _Read:
    """One look-up: under way until `done`, then an answer or an error."""

    started_at: float
    done: threading.Event = field(default_factory=threading.Event)
    caller: Caller | None = None
    error: BaseException | None = None


class KeyCache:
    """`find(hash)` gives the caller or None; errors of `read` are raised to all who waited."""

    def __init__(
        self,
        read: Callable[[str], Caller | None],
        *,
        age_max_s: float,
        size_max: int = 10_000,
        wait_max_s: float = 5,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._age_max_s = age_max_s
        self._size_max = size_max
        self._wait_max_s = wait_max_s
        self._clock = clock
        self._reads: OrderedDict[str, _Read] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, key_hash: str) -> Caller | None:
        read = self._reads.get(key_hash)
        if read is not None and self._fresh(read) and read.done.is_set() and read.error is None:
            return read.caller
        read, mine = self._join(key_hash)
        if mine:
            self._carry_out(key_hash, read)
        elif not read.done.wait(self._wait_max_s):
            raise TimeoutError("the key look-up under way did not end")
        if read.error is not None:
            raise read.error
        return read.caller

    def forget(self) -> None:
        with self._lock:
            self._reads.clear()

    def _fresh(self, read: _Read) -> bool:
        return self._clock() - read.started_at < self._age_max_s

    def _join(self, key_hash: str) -> tuple[_Read, bool]:
        with self._lock:
            read = self._reads.get(key_hash)
            if read is not None and self._fresh(read):
                return read, False
            read = self._reads[key_hash] = _Read(self._clock())
            self._reads.move_to_end(key_hash)
            while len(self._reads) > self._size_max:
                self._reads.popitem(last=False)
            return read, True

    def _carry_out(self, key_hash: str, read: _Read) -> None:
        try:
            read.caller = self._read(key_hash)
        except BaseException as error:
            read.error = error
            with self._lock:
                if self._reads.get(key_hash) is read:
                    del self._reads[key_hash]
            raise
        finally:
            read.done.set()
