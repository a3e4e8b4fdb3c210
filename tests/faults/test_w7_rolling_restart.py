"""W7 for streams: workers are replaced, and servers stopped, while callers are being served."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import processes
from tests.support.bed import Bed
from tests.support.crowds import Between, counting_gateway, is_alive, workers_of
from tests.support.gateways import StartGateway
from tests.support.server import GatewayServer

pytestmark = pytest.mark.thorough

START_S = 30.0
# gunicorn's grace, which every stop must keep, and a little for a busy machine.
STOP_S = 10.0
SMALL = {"streams": 20, "asks_per_s": 30.0, "asks_s": 7.0}
FULL = {"streams": 100, "asks_per_s": 200.0, "asks_s": 20.0}
ROUNDS = [
    pytest.param(SMALL, id="small"),
    pytest.param(FULL, id="full", marks=pytest.mark.nightly),
]


@pytest.fixture
def between(stores: Bed, tmp_path: Path) -> Iterator[Between]:
    with (
        StartGateway(stores, tmp_path) as starter,
        counting_gateway(starter, tmp_path) as between,
    ):
        yield between


def renewed(server: GatewayServer, old: set[int]) -> None:
    """Until as many new workers as before are at work and the old ones have left."""

    def done() -> bool:
        now = workers_of(server.pid)
        return len(now) == len(old) and not now & old

    server.wait_until(done, within_s=START_S)


@pytest.mark.parametrize("load", ROUNDS)
def test_workers_are_replaced_without_one_failed_request(
    between: Between, load: dict[str, Any]
) -> None:
    server = between.server
    old = workers_of(server.pid)
    tokens = int(20 * load["asks_s"])
    with between.crowd(**load, tokens=tokens, tokens_per_s=20) as crowd:
        crowd.wait_open()
        os.kill(server.pid, signal.SIGHUP)
        server.wait_until(lambda: len(workers_of(server.pid) - old) == len(old), within_s=START_S)
        told = crowd.end()

    assert (told["broken"], told["told"], told["lost"]) == (0, 0, 0), told["shown"]
    assert told["stale"] == 0
    assert told["whole"] == load["streams"]
    assert told["asked"] == {"200": int(load["asks_per_s"] * load["asks_s"])}
    renewed(server, old)
    between.check_books()


@pytest.mark.nightly
def test_a_new_worker_that_dies_is_replaced_though_old_ones_are_still_leaving(
    between: Between,
) -> None:
    server = between.server
    old = workers_of(server.pid)
    with between.crowd(streams=10, tokens=300, tokens_per_s=20) as crowd:
        crowd.wait_open()
        os.kill(server.pid, signal.SIGHUP)
        server.wait_until(lambda: len(workers_of(server.pid) - old) == len(old), within_s=START_S)
        victim = max(workers_of(server.pid) - old)
        os.kill(victim, signal.SIGKILL)
        server.wait_until(
            lambda: len(workers_of(server.pid) - old - {victim}) == len(old), within_s=START_S
        )
        assert any(map(is_alive, old))
        told = crowd.end()
    assert told["whole"] == 10, told["shown"]
    renewed(server, old)


@pytest.mark.parametrize("load", ROUNDS)
def test_a_stopped_server_leaves_nobody_untold_and_another_takes_over(
    between: Between, load: dict[str, Any], tmp_path: Path
) -> None:
    server = between.server
    with between.crowd(**load, tokens=800, tokens_per_s=20) as crowd:
        crowd.wait_open()
        first = server._web
        assert first is not None
        server.start()  # A second master on the same listening socket.
        assert first.pid != server.pid
        first.send_signal(signal.SIGTERM)
        first.wait(STOP_S)
        told = crowd.end()

    # Streams outlast the grace: each that the first server carried ends with an error chunk.
    assert (told["broken"], told["lost"]) == (0, 0), told["shown"]
    assert told["told"] + told["whole"] == load["streams"]
    assert told["asked"] == {"200": int(load["asks_per_s"] * load["asks_s"])}
    assert told["stale"] == 0
    between.check_books()


@pytest.mark.nightly
def test_a_stop_tells_requests_that_outlast_the_grace(between: Between) -> None:
    server = between.server
    with between.crowd(asks_per_s=20.0, asks_s=2, upstream_s=30) as crowd:
        crowd.wait_open()
        first = server._web
        assert first is not None
        server.start()
        first.send_signal(signal.SIGTERM)
        first.wait(STOP_S)
        server._web, second = first, server._web
        assert second is not None
        processes.stop(second, grace_s=STOP_S)
        told = crowd.end()

    assert set(told["asked"]) == {"503"}, told
    assert told["lost"] == 0, told["shown"]
    between.check_books()
