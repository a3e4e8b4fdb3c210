"""What look-ups weigh. How long they are remembered is tried with keys."""

from gateway.ttl_cache import TtlCache

WEIGHTS = {"small": 1, "large": 8, "huge": 100}


class Shelf:
    """Counts what is read of it."""

    def __init__(self) -> None:
        self.read: list[str] = []
        self.recent: TtlCache[str, int] = TtlCache(
            self._read, age_max_s=60, size_max=10, weight_of=lambda found: found or 1
        )

    def _read(self, name: str) -> int | None:
        self.read.append(name)
        return WEIGHTS.get(name.rstrip("0123456789"))

    def needs_read(self, name: str) -> bool:
        """Whether it takes another read."""
        before = len(self.read)
        self.recent.find(name)
        return len(self.read) > before


def test_what_is_large_leaves_room_for_less_and_what_is_too_large_is_not_kept() -> None:
    shelf = Shelf()
    assert shelf.recent.find("huge") == 100
    assert shelf.needs_read("huge")
    shelf.recent.find("small1")
    shelf.recent.find("small2")
    assert shelf.recent.find("large1") == 8
    assert not shelf.needs_read("small1")

    shelf.recent.find("large2")
    assert shelf.needs_read("small1")
    assert not shelf.needs_read("large2")


def test_a_name_that_is_nothing_counts_too() -> None:
    shelf = Shelf()
    assert [shelf.recent.find(f"nothing{number}") for number in range(11)] == [None] * 11
    asked = [shelf.needs_read(name) for name in ("nothing10", "nothing0")]
    assert asked == [False, True]
    shelf.recent.forget()
    assert shelf.needs_read("nothing10")
