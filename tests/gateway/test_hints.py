"""The way to the hint store: what it says when there is one, and how little it costs when not."""

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from gateway.hints import FAILURES_MAX, REST_S, Hints
from tests.support.bed import PROJECT
from tests.support.valkey import ValkeyServer

TIMEOUT_S = 0.1


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[ValkeyServer]:
    server = ValkeyServer(tmp_path / "v")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(valkey: ValkeyServer, clock: Clock) -> Iterator[Hints]:
    hints = Hints(valkey.url, timeout_s=TIMEOUT_S, clock=clock)
    yield hints
    hints.close()


def ping(store: "redis.Redis") -> str:
    return "pong" if store.ping() else "nothing"


def asked(hints: Hints, *, knocks: bool = False) -> str:
    return hints.run(ping, "default", knocks=knocks)


def test_without_a_store_there_is_the_default() -> None:
    hints = Hints("", timeout_s=TIMEOUT_S)

    assert asked(hints) == "default"
    assert not hints.available
    assert not hints.configured
    assert hints.calls == 0


def test_what_it_says_is_handed_on(store: Hints) -> None:
    assert asked(store) == "pong"
    assert store.available
    assert (store.calls, store.failures, store.skipped) == (1, 0, 0)


def test_a_dead_one_is_told_of_once_and_then_left_alone(
    valkey: ValkeyServer, store: Hints, caplog: pytest.LogCaptureFixture
) -> None:
    asked(store)
    valkey.stop()

    with caplog.at_level(logging.WARNING, logger="gateway.hints"):
        assert [asked(store) for _ in range(10)] == ["default"] * 10

    assert len(caplog.records) == 1
    assert not store.available
    assert (store.failures, store.skipped) == (FAILURES_MAX, 10 - FAILURES_MAX)
    assert store.error == "ConnectionError"


def test_a_frozen_one_costs_its_limit_once(valkey: ValkeyServer, store: Hints) -> None:
    asked(store)
    valkey.pause()
    try:
        begun_at = time.monotonic()
        assert [asked(store) for _ in range(100)] == ["default"] * 100
        took_s = time.monotonic() - begun_at
    finally:
        valkey.resume()

    assert TIMEOUT_S <= took_s < 2.5 * TIMEOUT_S


def test_one_failure_is_no_outage(valkey: ValkeyServer, store: Hints) -> None:
    """Of a pool's connections, one may be dead while the store lives."""
    asked(store)
    valkey.stop()
    asked(store)
    valkey.start()

    assert asked(store) == "pong"
    assert store.available


def test_after_a_rest_one_caller_looks(valkey: ValkeyServer, store: Hints, clock: Clock) -> None:
    valkey.stop()
    for _ in range(FAILURES_MAX):
        asked(store)

    clock.now += REST_S + 1
    calls = store.calls
    for _ in range(5):
        asked(store)
    assert store.calls == calls + 1

    valkey.start()
    assert asked(store) == "default"
    clock.now += REST_S + 1
    assert asked(store) == "pong"
    assert store.available


def test_who_knocks_finds_it_back_for_all(
    valkey: ValkeyServer, store: Hints, caplog: pytest.LogCaptureFixture
) -> None:
    valkey.stop()
    for _ in range(FAILURES_MAX):
        asked(store)
    assert asked(store, knocks=True) == "default"
    valkey.start()
    assert asked(store) == "default"
    caplog.clear()

    with caplog.at_level(logging.WARNING, logger="gateway.hints"):
        assert asked(store, knocks=True) == "pong"

    assert asked(store) == "pong"
    assert [record.getMessage() for record in caplog.records] == ["The hint store answers again"]


def test_a_refusal_is_no_outage(store: Hints, caplog: pytest.LogCaptureFixture) -> None:
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
from gateway.hints import Hints

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
hints = Hints(f"redis://127.0.0.1:{server.server_port}/0", timeout_s=0.1)
begun_at = time.monotonic()
answers = [hints.run(lambda store: store.ping(), None) for _ in range(5)]
took_s = time.monotonic() - begun_at
gaps = [after - before for before, after in zip(turns, turns[1:])]
real = Hints(os.environ["STORE"], timeout_s=0.1)
real.run(lambda s: s.ping(), None)
jobs = [gevent.spawn(real.run, lambda s: s.ping(), False) for _ in range(1000)]
fine = sum(job.get() for job in jobs)
print(json.dumps({"answers": answers, "took_s": took_s, "gap_s": max(gaps), "fine": fine,
                  "failures": hints.failures, "available": real.available}))
"""


def test_under_gevent_it_is_bounded_and_holds_nobody(valkey: ValkeyServer) -> None:
    """One that drips answers every read in time and never ends. And far more callers at once than
    can be served within the limit are no outage: some of them go without."""
    done = subprocess.run(
        [sys.executable, "-c", UNDER_GEVENT],
        cwd=PROJECT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "gateway.settings", "STORE": valkey.url},
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)

    assert told["answers"] == [None] * 5
    assert 1 <= told["failures"] <= FAILURES_MAX
    assert told["took_s"] < 0.5
    assert told["gap_s"] < 0.1
    assert told["available"]
    assert told["fine"] > 0
