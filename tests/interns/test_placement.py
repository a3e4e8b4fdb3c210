"""On which machine an intern boots, by values."""

import pytest

from interns.hosts import HostState, choose_host

GIB = 1 << 30


def state(name: str, free_gib: float, **more: int | bool) -> HostState:
    return HostState(name, int(free_gib * GIB), **more)  # type: ignore[arg-type]  # Counts and a flag.


@pytest.mark.parametrize(
    ("hosts", "chosen"),
    [
        ([], None),
        ([state("a", 0)], "a"),
        ([state("a", 4), state("b", 8)], "b"),
        ([state("b", 8), state("a", 8)], "a"),
        # Room comes before all else, then the disk, then the account's spread.
        ([state("a", 1, has_disk=True), state("b", 2, of_account=9)], "b"),
        ([state("a", 2, has_disk=True, of_account=9), state("b", 64)], "a"),
        ([state("a", 64, of_account=2), state("b", 3, of_account=1)], "b"),
        # Those that came since the memory was measured will want theirs.
        ([state("a", 10, counted=3, placed=6), state("b", 5, counted=1, placed=1)], "b"),
        ([state("a", 10, counted=6, placed=3), state("b", 9)], "a"),
        # Where none has room the fullest is still the last choice.
        ([state("a", 1), state("b", 1.5)], "b"),
    ],
)
def test_room_then_the_disk_then_the_spread_then_memory(
    hosts: list[HostState], chosen: str | None
) -> None:
    assert choose_host(hosts, needed_bytes=2 * GIB) == chosen
    assert choose_host(reversed(hosts), needed_bytes=2 * GIB) == chosen


def test_many_of_one_account_spread_over_machines_by_their_room() -> None:
    free_gib, placed = {"a": 8.0, "b": 16.0, "c": 2.0}, dict.fromkeys("abc", 0)
    for _ in range(11):
        hosts = [
            state(name, free, placed=placed[name], of_account=placed[name])
            for name, free in free_gib.items()
        ]
        chosen = choose_host(hosts, needed_bytes=2 * GIB)
        assert chosen is not None
        placed[chosen] += 1
    # As many as each has room for, which a spread alone would not give.
    assert placed == {"a": 4, "b": 6, "c": 1}
