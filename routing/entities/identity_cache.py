"""What is made of a value once, for as long as that value stays the same object."""

from collections.abc import Callable
from typing import Generic, TypeVar

Of = TypeVar("Of")
Made = TypeVar("Made")


class IdentityCache(Generic[Of, Made]):
    """`derived(value)` is what `make` made of this very object, which must never change.

    Rules that hold for a key stay the same objects until the key is read again, and to compare them
    would cost as much as to make it again. `may_keep` says no to what is too large.
    """

    def __init__(
        self,
        make: Callable[[Of], Made],
        *,
        size_max: int = 64,
        may_keep: Callable[[Made], bool] = lambda made: True,
    ) -> None:
        self._make = make
        self._size_max = size_max
        self._may_keep = may_keep
        # The value stays too: its place in memory is its name here.
        self._known: dict[int, tuple[Of, Made]] = {}

    def __call__(self, value: Of) -> Made:
        known = self._known.get(id(value))
        if known is not None:
            return known[1]
        made = self._make(value)
        if self._may_keep(made):
            if len(self._known) >= self._size_max:
                self._known.clear()
            self._known[id(value)] = value, made
        return made
