"""What one process shares between its requests: the HTTP client, endpoint health, the retry budget
and the bound on requests in progress."""

import random
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from uuid import UUID

from gateway.http.errors import Unavailable
from gateway.live_settings import settings
from gateway.outbound.http_client import HttpClient, Limits, Origin
from routing.entities.entries import ProviderEntry
from routing.selection.health import EndpointHealth

WINDOW_S = 10.0


class RetryBudget:
    """In any 10 s each account may make `share` of its first attempts as further ones, and its part
    of `floor`. All accounts with attempts divide that among them; each has at least one. `now` is
    monotonic seconds."""

    def __init__(self, *, share: float, floor: int) -> None:
        self._share = share
        self._floor = floor
        self._firsts = _RecentCounts()
        self._retries = _RecentCounts()

    def first(self, account_id: UUID, now: float) -> None:
        self._firsts.add(account_id, now)

    def draw(self, account_id: UUID, now: float) -> bool:
        """Take one retry; False when the account's budget is spent."""
        firsts, retries = self._firsts.read(now), self._retries.read(now)
        part = min(self._floor, max(1, self._floor // max(1, len(firsts))))
        if retries.get(account_id, 0) + 1 > self._share * firsts.get(account_id, 0) + part:
            return False
        self._retries.add(account_id, now)
        return True


class _RecentCounts:
    """How often something happened to each account within the window."""

    def __init__(self) -> None:
        self._moments: deque[tuple[float, UUID]] = deque()
        self._counts: dict[UUID, int] = {}

    def add(self, account_id: UUID, now: float) -> None:
        self.read(now)
        self._moments.append((now, account_id))
        self._counts[account_id] = self._counts.get(account_id, 0) + 1

    def read(self, now: float) -> Mapping[UUID, int]:
        """The counts of accounts that have any."""
        while self._moments and now - self._moments[0][0] > WINDOW_S:
            _, account_id = self._moments.popleft()
            self._counts[account_id] -= 1
            if not self._counts[account_id]:
                del self._counts[account_id]
        return self._counts


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
