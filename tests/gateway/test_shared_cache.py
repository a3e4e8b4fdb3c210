"""The way to the shared cache: what it says when there is one, and how little it costs when not."""

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
import redis

from gateway.shared_cache import FAILURES_MAX, REST_S, Patience, SharedCache
from tests.support.bed import PROJECT
from tests.support.promptness import in_time
from tests.support.valkey import ValkeyServer

# Real time counts too, and a busy machine takes its own.
TIMEOUT_S = 1.0


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(valkey: ValkeyServer, clock: Clock) -> Iterator[SharedCache]:
    with closing(SharedCache(valkey.url, timeout_s=TIMEOUT_S, clock=clock)) as hints:
        yield hints


def ping(store: "redis.Redis") -> str:
    return "pong" if store.ping() else "nothing"


def ask(hints: SharedCache, *, knocks: bool = False) -> str:
    return hints.run(ping, "default", knocks=knocks)


def test_what_it_says_is_handed_on_and_without_one_there_is_the_default(store: SharedCache) -> None:
    assert ask(store) == "pong"
    assert store.available
    assert (store.calls, store.failures, store.skipped) == (1, 0, 0)
    none = SharedCache("", timeout_s=TIMEOUT_S)
    assert ask(none) == "default"
    assert (none.available, none.is_configured, none.calls) == (False, False, 0)


def test_a_dead_one_is_told_of_once_and_left_alone_until_one_caller_looks_after_a_rest(
    valkey: ValkeyServer, store: SharedCache, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    ask(store)
    valkey.stop()

    with caplog.at_level(logging.WARNING, logger="gateway.hints"):
        assert [ask(store) for _ in range(10)] == ["default"] * 10

    assert len(caplog.records) == 1
    assert not store.available
    assert (store.failures, store.skipped) == (FAILURES_MAX, 10 - FAILURES_MAX)
    assert store.error == "ConnectionError"
    clock.now += REST_S + 1
    calls = store.calls
    assert [ask(store) for _ in range(5)] == ["default"] * 5
    assert store.calls == calls + 1

    valkey.start()
    assert ask(store) == "default"
    clock.now += REST_S + 1
    assert ask(store) == "pong"
    assert store.available


def test_one_failure_is_no_outage_and_who_knocks_finds_it_back_for_all(
    valkey: ValkeyServer, store: SharedCache, caplog: pytest.LogCaptureFixture
) -> None:
    # Of a pool's connections, one may be dead while the store lives.
    ask(store)
    valkey.stop()
    ask(store)
    valkey.start()
    assert ask(store) == "pong"
    assert store.available

    valkey.stop()
    assert [ask(store) for _ in range(FAILURES_MAX)] == ["default"] * FAILURES_MAX
    assert ask(store, knocks=True) == "default"
    valkey.start()
    assert ask(store) == "default"
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="gateway.hints"):
        assert ask(store, knocks=True) == "pong"
    assert ask(store) == "pong"
    assert [record.getMessage() for record in caplog.records] == ["The hint store answers again"]


def test_a_frozen_one_costs_its_limit_once(valkey: ValkeyServer, store: SharedCache) -> None:
    ask(store)
    valkey.pause()
    try:
        begun_at = time.monotonic()
        assert [ask(store) for _ in range(100)] == ["default"] * 100
        took_s = time.monotonic() - begun_at
    finally:
        valkey.resume()

    in_time(took_s, 2.5 * TIMEOUT_S, at_least_s=TIMEOUT_S)


# --- A slow one ----------------------------------------------------------------------------------


def build_slow_ping(clock: Clock, seconds: float) -> Callable[["redis.Redis"], str]:
    """A ping that takes so long by the clock."""

    def work(found: "redis.Redis") -> str:
        clock.now += seconds
        return ping(found)

    return work


def test_one_that_is_slow_as_a_rule_is_given_a_rest(
    store: SharedCache, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    slow, quick = build_slow_ping(clock, 0.9), build_slow_ping(clock, 0.01)

    with caplog.at_level(logging.WARNING, logger="gateway.hints"):
        assert [store.run(slow, "default") for _ in range(10)] == ["pong"] * 4 + ["default"] * 6
        # That it still answers, slowly, is no reason to ask it again.
        assert store.run(slow, "default", knocks=True) == "pong"
        assert store.run(quick, "default") == "default"
        clock.now += REST_S
        assert [store.run(slow, "default") for _ in range(3)] == ["pong", "default", "default"]
        assert len(caplog.records) == 1
        assert store.run(quick, "default", knocks=True) == "pong"

    assert store.available
    assert [store.run(slow, "default") for _ in range(4)] == ["pong"] * 4
    assert len(caplog.records) == 3


def test_one_slow_answer_or_more_time_says_nothing(store: SharedCache, clock: Clock) -> None:
    slow, quick, long = (build_slow_ping(clock, seconds) for seconds in (0.9, 0.01, 8.0))

    for _ in range(20):
        assert [store.run(work, "default") for work in (slow, quick, quick)] == ["pong"] * 3
    assert [store.run(long, "default", limit_s=10.0) for _ in range(9)] == ["pong"] * 9
    assert [store.run(long, "default", knocks=True) for _ in range(9)] == ["pong"] * 9
    assert store.available


def test_a_request_waits_once_for_all_that_it_asks(valkey: ValkeyServer, clock: Clock) -> None:
    for slow_s, calls in ((0.01, 10), (0.4, 2), (0.9, 1), (0.3, 3)):
        hints = SharedCache(valkey.url, timeout_s=TIMEOUT_S, clock=clock)
        patience, begun = Patience(TIMEOUT_S), clock.now
        work = build_slow_ping(clock, slow_s)
        said = [hints.run(work, "default", patience=patience) for _ in range(10)]
        hints.close()

        assert said == ["pong"] * calls + ["default"] * (10 - calls)
        assert clock.now - begun <= TIMEOUT_S


def test_who_waits_in_vain_while_others_are_answered_meets_no_outage(
    store: SharedCache, clock: Clock
) -> None:
    def answer_late(found: "redis.Redis") -> str:
        clock.now += 0.1
        assert ask(store) == "pong"
        raise redis.TimeoutError

    assert [store.run(answer_late, "default") for _ in range(3 * FAILURES_MAX)] == ["default"] * 6
    assert store.failures == 3 * FAILURES_MAX
    assert store.available


def test_a_refusal_is_no_outage(store: SharedCache, caplog: pytest.LogCaptureFixture) -> None:
    def wrong_kind(found: "redis.Redis") -> int:
        found.set("word", "text")
        return int(found.lpush("word", "more"))

    with caplog.at_level(logging.WARNING, logger="gateway.hints"):
        assert [store.run(wrong_kind, -1) for _ in range(5)] == [-1] * 5

    assert len(caplog.records) == 1
    assert store.available
    assert store.error == "ResponseError"


UNDER_GEVENT = """
from gevent import monkey; monkey.patch_all()
import gevent, json, os, time
import django; django.setup()
from gevent.server import StreamServer
from gateway.shared_cache import SharedCache

def drip(peer, _):
    peer.recv(1000)
    try:
        while True:
            peer.sendall(b"+")
            gevent.sleep(0.05)
    except OSError:
        pass

server = StreamServer(("127.0.0.1", 0), drip)
server.start()
turns = []
def turn():
    while True:
        turns.append(time.monotonic())
        gevent.sleep(0.005)
other = gevent.spawn(turn)
hints = SharedCache(f"redis://127.0.0.1:{server.server_port}/0", timeout_s=0.1)
begun_at = time.monotonic()
answers = [hints.run(lambda store: store.ping(), None) for _ in range(5)]
took_s = time.monotonic() - begun_at
gaps = [after - before for before, after in zip(turns, turns[1:])]
real = SharedCache(os.environ["STORE"], timeout_s=0.1)
real.run(lambda s: s.ping(), None)
jobs = [gevent.spawn(real.run, lambda s: s.ping(), False) for _ in range(1000)]
fine = sum(job.get() for job in jobs)
print(json.dumps({"answers": answers, "took_s": took_s, "gap_s": max(gaps), "fine": fine,
                  "failures": hints.failures}))
"""


def test_under_gevent_it_is_bounded_and_holds_nobody(valkey: ValkeyServer) -> None:
    """One that drips answers every read in time and never ends. And of far more callers at once
    than can be served within the limit some go without."""
    done = subprocess.run(
        [sys.executable, "-c", UNDER_GEVENT],
        cwd=PROJECT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "gateway.settings", "STORE": valkey.url},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)

    assert told["answers"] == [None] * 5
    assert 1 <= told["failures"] <= FAILURES_MAX
    in_time(told["took_s"], 0.5)
    in_time(told["gap_s"], 0.1)
    assert told["fine"] > 0
