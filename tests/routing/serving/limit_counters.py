"""Counters of limits that stay in this process, at a moment of their own."""

from typing import Any

import pytest

from gateway.limits.limits import Exceeded, Limit, RateLimiter
from gateway.shared_cache import SharedCache
from routing.entities.entries import EndpointEntry
from routing.serving.admission import endpoint_limits, rate_limits
from tests.routing.selection.entries import endpoint

PAID, FREE = "acme/small", "acme/small:free"


class Counters(RateLimiter):
    """Counts here, at a moment of its own."""

    def __init__(self) -> None:
        self.now = 1_000_000_040.0
        super().__init__(SharedCache("", timeout_s=0.1), clock=lambda: self.now)

    def count_remaining(self, limit: Limit) -> int:
        """How much of it there is."""
        asked = self.take(limit._replace(cost=limit.most + 1))
        assert isinstance(asked, Exceeded)
        return limit.most - asked.used


def use_counters(patch: pytest.MonkeyPatch, counters: Counters) -> None:
    for module in (rate_limits, endpoint_limits):
        patch.setattr(module, "rate_limiter", lambda: counters)


def endpoint_of(model_id: str, **more: Any) -> EndpointEntry:
    return endpoint(model_id=model_id, **more)
