"""What is derived from a value once, for as long as that value stays the same object."""

from collections.abc import Callable
from typing import Generic, TypeVar

Source = TypeVar("Source")
Derived = TypeVar("Derived")


class IdentityCache(Generic[Source, Derived]):
    """`derived(value)` is what `make` made of this very object, which must never change.

    Rules that hold for a key stay the same objects until the key is read again, and to compare them
    would cost as much as to make it again. `may_keep` says no to what is too large.
    """

    def __init__(
        self,
        make: Callable[[Source], Derived],
        *,
        size_max: int = 64,
        may_keep: Callable[[Derived], bool] = lambda derived: True,
    ) -> None:
        self._make = make
        self._size_max = size_max
        self._may_keep = may_keep
        # The value stays too: its place in memory is its name here.
        self._known: dict[int, tuple[Source, Derived]] = {}

    def __call__(self, value: Source) -> Derived:
        entry = self._known.get(id(value))
        if entry is not None:
            return entry[1]
        derived = self._make(value)
        if self._may_keep(derived):
            if len(self._known) >= self._size_max:
                self._known.clear()
            self._known[id(value)] = value, derived
        return derived
