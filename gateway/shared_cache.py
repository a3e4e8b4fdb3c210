"""The shared cache: a Redis or Valkey that may be gone, frozen, slow or empty at any moment.

Everything in it is a hint, so nobody waits for it beyond REDIS_TIMEOUT, and nothing that it does
becomes an error. While it is slow or silent, only who looks whether it is back asks it. Connections
belong to the event loop they were opened on: operators' pages, which run in threads of their own,
must not come here.
"""

import hashlib
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, TypeVar

import redis
from django.conf import settings
from gevent import Timeout
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel, SentinelConnectionPool

from gateway.database.db import under_gevent
from gateway.environment.redis_url import SLOT_TAG, read_cluster_url, read_sentinel_url
from gateway.outbound.cluster_connection import ClusterConnection, TlsClusterConnection

log = logging.getLogger("gateway.hints")
T = TypeVar("T")

CONNECTIONS_MAX: Final = 64
# The first may be one dead connection of the pool, or our own event loop that was held. A wait that
# ended on time is enough: the next caller would wait as long, and so would the same request.
FAILURES_MAX: Final = 2
_ON_TIME: Final = 1.5
# Longer than the pause between two knocks of a web process, so that no request has to find out.
REST_S: Final = 5.0
# A store that takes more than this share of REDIS_TIMEOUT as a rule is no help. The rule is a
# moving mean: of the last call a fifth, so that one of them alone says nothing.
_SLOW: Final = 0.5
_WEIGHT: Final = 0.2
# With less than this share of REDIS_TIMEOUT left, a request does not begin another call.
_WORTH_IT: Final = 0.25


class Patience:
    """What one request has left to wait for the shared cache, over all its calls."""

    __slots__ = ("left_s",)

    def __init__(self, left_s: float) -> None:
        self.left_s = left_s


class SharedCache:
    """One process's way to the shared cache; `url` empty means that there is none.

    `calls`, `failures` and `skipped` count for metrics and tests; `error` names the last failure.
    """

    def __init__(
        self, url: str, *, timeout_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.calls = self.failures = self.skipped = 0
        self.error = ""
        self._timeout_s = timeout_s
        self._clock = clock
        self._in_a_row = 0
        self._usual_s = 0.0
        self._weighed_at = float("-inf")
        self._answered_at = float("-inf")
        self._rests_until: float | None = None
        self._refused = ""
        self._store = _store(url, timeout_s) if url else None

    @property
    def is_configured(self) -> bool:
        return self._store is not None

    @property
    def available(self) -> bool:
        """Whether there is a shared cache and it answered lately, as far as anybody asked."""
        return self.is_configured and self._rests_until is None

    def run(
        self,
        work: Callable[["redis.Redis"], T],
        default: T,
        *,
        limit_s: float | None = None,
        patience: Patience | None = None,
        knocks: bool = False,
    ) -> T:
        """What `work` returns, or `default` where there is no store or it does not answer.

        It takes REDIS_TIMEOUT at most and no more than what is left of `patience`, or `limit_s`,
        which suits work beside the requests. While the store is out, only who `knocks` asks it, and
        the first caller after a rest.
        """
        left_s = self._timeout_s if patience is None else patience.left_s
        is_late = left_s < _WORTH_IT * self._timeout_s
        if self._store is None or is_late or not (knocks or self._may_ask()):
            self.skipped += 1
            return default
        self.calls += 1
        begun, wait_s = self._clock(), limit_s or min(left_s, self._timeout_s)
        try:
            with _limit_time(wait_s):
                result = work(self._store)
        except redis.ResponseError as error:
            # It lives and says no: too old for a command, out of memory, read-only.
            self.failures += 1
            self.error = type(error).__name__
            if self._refused != str(error):
                self._refused = str(error)
                log.warning("The hint store refuses: %s", error)
            return default
        except (redis.RedisError, OSError) as error:
            if wait_s < self._timeout_s and isinstance(error, redis.TimeoutError):
                # It was not given its time: no more than a sign that it is slow.
                self._weigh_time(self._timeout_s, begun=begun)
            else:
                self._note_failure(error, begun=begun)
            return default
        finally:
            took_s = self._clock() - begun
            if patience is not None:
                patience.left_s -= took_s
        self._in_a_row = 0
        self._answered_at = self._clock()
        if self._rests_until is None:
            # Only those small calls that requests wait for say how slow it is.
            if limit_s is None and not knocks:
                self._weigh_time(took_s, begun=begun)
        elif took_s <= _SLOW * self._timeout_s:
            self._rests_until, self._usual_s = None, took_s
            log.warning("The hint store answers again")
        return result

    def close(self) -> None:
        """Close what is idle; the next call opens anew."""
        if self._store is not None:
            self._store.connection_pool.disconnect(inuse_connections=False)

    def _may_ask(self) -> bool:
        if self._rests_until is None:
            return True
        now = self._clock()
        if now < self._rests_until:
            return False
        # This caller looks; the others go on resting meanwhile.
        self._rests_until = now + REST_S
        return True

    def _weigh_time(self, seconds: float, *, begun: float) -> None:
        if begun < self._weighed_at:
            return  # Of calls at the same time one says it for all: they may be too many.
        self._weighed_at = self._clock()
        self._usual_s += (seconds - self._usual_s) * _WEIGHT
        if self._usual_s > _SLOW * self._timeout_s:
            self._rest(f"is slow ({self._usual_s * 1000:.0f} ms)")

    def _rest(self, trouble: str) -> None:
        if self._rests_until is None:
            log.warning("The hint store %s, every process is for itself", trouble)
        self._rests_until = self._clock() + REST_S

    def _note_failure(self, error: Exception, *, begun: float) -> None:
        self.failures += 1
        self.error = type(error).__name__
        if self._answered_at > begun:
            return  # Others were answered in the meantime: we were too many, or too busy.
        waited_s = self._clock() - begun
        in_vain = isinstance(error, redis.TimeoutError) and waited_s < _ON_TIME * self._timeout_s
        self._in_a_row = FAILURES_MAX if in_vain else self._in_a_row + 1
        if self._in_a_row < FAILURES_MAX:
            return
        self._rest(f"does not answer ({error})")
        # What is idle was opened to a store that is no more; it would fail one by one.
        self.close()


class LuaScript:
    """A script that runs in the store, which keeps it by its digest."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._sha1 = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()

    def run(self, store: "redis.Redis", key: str, *arguments: bytes | str) -> Any:
        """What it returns."""
        try:
            return store.evalsha(self._sha1, 1, key, *arguments)
        except redis.exceptions.NoScriptError:
            return store.eval(self._text, 1, key, *arguments)


@cache
def cache_key(name: str) -> str:
    """The key of that name of this installation, should several share a store.

    All processes of one know its master key and its database, and no two have both in common.
    """
    parts = (settings.VAULT_MASTER_KEY, str(settings.DATABASES["default"]["NAME"]))
    tag = SLOT_TAG if read_cluster_url(settings.REDIS_URL) else "gateway"
    return f"{tag}:{hashlib.sha256(repr(parts).encode()).hexdigest()[:12]}:{name}"


@cache
def shared_cache() -> SharedCache:
    """This process's own."""
    return SharedCache(settings.REDIS_URL, timeout_s=settings.REDIS_TIMEOUT)


def _store(url: str, timeout_s: float) -> "redis.Redis":
    pool = build_pool(
        url,
        timeout_s=timeout_s,
        connections=CONNECTIONS_MAX,
        # Ever more of what does not answer is what a caller needs least.
        retry=Retry(NoBackoff(), 0),
        # Every word of a greeting is a round trip.
        protocol=2,
        driver_info=None,
    )
    return redis.Redis(connection_pool=pool)


def build_pool(
    url: str, *, timeout_s: float, connections: int, **options: Any
) -> redis.ConnectionPool:
    """Connections to the store. Each wait, also that for a free one, takes at most `timeout_s`."""
    waits = {"socket_timeout": timeout_s, "socket_connect_timeout": timeout_s}
    cluster = read_cluster_url(url)
    if cluster is not None:
        return redis.BlockingConnectionPool(  # type: ignore[no-untyped-call]  # redis-py has no types here.
            connection_class=TlsClusterConnection if cluster.tls else ClusterConnection,
            nodes=deque(cluster.nodes),
            max_connections=connections,
            timeout=timeout_s,
            username=cluster.user or None,
            password=cluster.password or None,
            **cluster.tls,
            **waits,
            **options,
        )
    found = read_sentinel_url(url)
    if found is None:
        return redis.BlockingConnectionPool.from_url(
            url, max_connections=connections, timeout=timeout_s, **waits, **options
        )
    tls = {"ssl": bool(found.tls), **found.tls}
    manager = Sentinel(
        found.sentinels,
        sentinel_kwargs={**waits, **options, **tls, "password": found.sentinel_password or None},
    )
    return _SentinelPool(  # type: ignore[no-untyped-call]  # Nor here.
        found.service,
        manager,
        max_connections=connections,
        timeout=timeout_s,
        db=found.database,
        username=found.user or None,
        password=found.password or None,
        **tls,
        **waits,
        **options,
    )


class _SentinelPool(SentinelConnectionPool, redis.BlockingConnectionPool):
    """Waits for a free connection, as that to one server does."""


@contextmanager
def _limit_time(limit_s: float) -> Iterator[None]:
    """Bound the whole work; the socket's own limit is for each reading of it. redis-py closes a
    connection that is torn away from its work."""
    if not under_gevent():
        yield
        return
    with Timeout(limit_s) as limit:
        try:
            yield
        except Timeout as passed:
            if passed is not limit:
                raise
            raise redis.TimeoutError(f"no answer within {limit_s:g} s") from None
