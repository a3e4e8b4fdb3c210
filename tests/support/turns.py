"""How long work on the event loop keeps others from theirs."""

from collections.abc import Callable
from typing import Any

import pytest


def stretches_of(
    module: Any, monkeypatch: pytest.MonkeyPatch, *, clock: Callable[[], float]
) -> list[float]:
    """A list that grows with each turn that the module's `give_way` gives: seconds since the one
    before, or since now."""
    found: list[float] = []
    last = clock()

    def give_way() -> None:
        nonlocal last
        now = clock()
        found.append(now - last)
        last = now

    monkeypatch.setattr(module, "give_way", give_way)
    return found
