"""A cache of values that are derived from an object, by the object's identity."""

from collections.abc import Callable
from typing import Generic, TypeVar

Source = TypeVar("Source")
Derived = TypeVar("Derived")


class IdentityCache(Generic[Source, Derived]):
    """Calling it gives `make(value)`, made once for each object; the objects must never change.

    The rules of a key stay the same objects until the key is read again. Comparing them by value
    would cost as much as `make`. Results for which `may_keep` is false are not cached.
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
        # The value is held too: its `id` is only unique while it lives.
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
