"""How long work on the event loop keeps others from theirs."""

from collections.abc import Callable
from typing import Any

import pytest


def stretches_of(
    module: Any, monkeypatch: pytest.MonkeyPatch, *, clock: Callable[[], float]
) -> list[float]:
    """A list that grows with each call of the module's `yield_control`: seconds since the one
    before, or since now."""
    found: list[float] = []
    last = clock()

    def yield_control() -> None:
        nonlocal last
        now = clock()
        found.append(now - last)
        last = now

    monkeypatch.setattr(module, "yield_control", yield_control)
    return found
