"""On which machine an intern boots. Pure: no rows, no clock."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HostState:
    """A living machine that takes interns.

    `free_memory_bytes` was measured when it had `counted` interns; by now `placed` are there, of
    which `of_account` are of the account that asks. `has_disk` says that the intern's own disk lies
    there, so that nothing needs to be fetched.
    """

    name: str
    free_memory_bytes: int
    counted: int = 0
    placed: int = 0
    of_account: int = 0
    has_disk: bool = False

    def estimate_free_bytes(self, needed_bytes: int) -> int:
        """What is left once those that came since the measurement have what they need."""
        return self.free_memory_bytes - max(0, self.placed - self.counted) * needed_bytes


def choose_host(hosts: Iterable[HostState], *, needed_bytes: int) -> str | None:
    """The machine's name; None where there is none.

    One with room comes before one without, then the one that has the disk, then the one with the
    fewest interns of the account, so that a machine that dies takes few of them, then the one with
    the most free memory. Where none has room the intern boots all the same: memory is a bound of
    each of its processes, and few use it up.
    """

    def rank(host: HostState) -> tuple[bool, bool, int, int, str]:
        free_bytes = host.estimate_free_bytes(needed_bytes)
        lacks_room = free_bytes < needed_bytes
        return lacks_room, not host.has_disk, host.of_account, -free_bytes, host.name

    found = min(hosts, key=rank, default=None)
    return None if found is None else found.name
