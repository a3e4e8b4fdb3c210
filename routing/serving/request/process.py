"""What one process shares between its requests: the HTTP client, endpoint health, the retry budget
and the bound on requests in progress."""

import random
import time
from collections import deque
from collections.abc import Callable
from functools import cache, lru_cache

from gateway.http.errors import Unavailable
from gateway.live_settings import settings
from gateway.outbound.http_client import HttpClient, Limits, Origin
from routing.entities.entries import ProviderEntry
from routing.selection.health import EndpointHealth

WINDOW_S = 10.0


class RetryBudget:
    """In any 10 s, at most `share` of first attempts plus `floor` further ones. `now` is monotonic
    seconds."""

    def __init__(self, *, share: float, floor: int) -> None:
        self._share = share
        self._floor = floor
        self._firsts: deque[float] = deque()
        self._retries: deque[float] = deque()

    def first(self, now: float) -> None:
        _forget(self._firsts, now)
        self._firsts.append(now)

    def draw(self, now: float) -> bool:
        """Take one retry; False when the budget is spent."""
        _forget(self._firsts, now)
        _forget(self._retries, now)
        if len(self._retries) + 1 > self._share * len(self._firsts) + self._floor:
            return False
        self._retries.append(now)
        return True


def _forget(moments: deque[float], now: float) -> None:
    while moments and now - moments[0] > WINDOW_S:
        moments.popleft()


now = time.monotonic
# A probe that neither succeeded nor failed within this long is given up, so that another may try.
PROBE_S = 30.0


@cache
def http_client() -> HttpClient:
    return HttpClient(
        pool_size_per_origin=settings.ROUTER_POOL_SIZE, proxy=settings.ROUTER_UPSTREAM_PROXY or None
    )


@cache
def health() -> EndpointHealth:
    return EndpointHealth(window_s=settings.ROUTER_OUTAGE_WINDOW_SECONDS, probe_s=PROBE_S)


@cache
def retries() -> RetryBudget:
    return RetryBudget(share=settings.ROUTER_RETRY_BUDGET, floor=settings.ROUTER_RETRY_FLOOR)


def chance() -> float:
    """The random source of load balancing; not a secret."""
    return random.random()  # noqa: S311 - Chooses among providers, guards nothing.


@lru_cache(maxsize=1024)
def origin_of(base_url: str) -> Origin:
    return Origin.parse(base_url)


def limits_of(provider: ProviderEntry, first_byte_s: float | None = None) -> Limits:
    """The provider's own limits, else the settings; `first_byte_s` takes the place of either."""
    return _limits(provider.connect_s, first_byte_s or provider.first_byte_s, provider.idle_s)


@lru_cache(maxsize=256)
def _limits(connect_s: float | None, first_byte_s: float | None, idle_s: float | None) -> Limits:
    return Limits(
        connect_s=connect_s or settings.ROUTER_CONNECT_TIMEOUT,
        first_byte_s=first_byte_s or settings.ROUTER_FIRST_BYTE_TIMEOUT,
        idle_s=idle_s or settings.ROUTER_IDLE_TIMEOUT,
        body_bytes_max=settings.ROUTER_MAX_ANSWER_BYTES,
    )


class Slot:
    """One place, given back once. A stream keeps it past its view's return."""

    def __init__(self, slots: "Slots") -> None:
        self._slots: Slots | None = slots
        self._kept = False
        # Called once, when it is released.
        self.on_release: Callable[[], None] | None = None

    def keep(self) -> None:
        if self._slots is not None and not self._kept:
            self._kept = True
            self._slots.streams += 1

    def release(self) -> None:
        slots, self._slots = self._slots, None
        if slots is not None:
            slots.taken -= 1
            slots.streams -= self._kept
            if self.on_release is not None:
                self.on_release()

    def release_unless_streaming(self) -> None:
        if not self._kept:
            self.release()


class Slots:
    """Greenlets share these without a lock: nothing switches between test and count. `streams` of
    those `taken` are kept by answers that are streamed."""

    def __init__(self) -> None:
        self.taken = self.streams = 0

    def take(self) -> Slot:
        """A free place. Raises `Unavailable` (503, Retry-After) when there is none."""
        self.refuse_if_full()
        self.taken += 1
        return Slot(self)

    def refuse_if_full(self) -> None:
        """Raises `Unavailable` when `take` would: a refusal costs least before anything is read."""
        if self.taken >= settings.ROUTER_MAX_CONCURRENCY:
            raise Unavailable("Too many requests in progress", reason="too_many_in_progress")


slots = Slots()
