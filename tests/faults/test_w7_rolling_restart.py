"""W7 for streams: workers are replaced, and servers stopped, while callers are being served. Also
hundreds of streams at once, every token of each in its place."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.bed import Bed
from tests.support.crowds import Between, counting_gateway, workers_of
from tests.support.gateways import StartGateway
from tests.support.ledger import Ledger
from tests.support.server import GatewayServer

pytestmark = pytest.mark.thorough
START_S = 30.0
# gunicorn's grace, which every stop must keep, and a little for a busy machine.
STOP_S = 10.0
SMALL = {"streams": 20, "asks_per_s": 30.0, "asks_s": 4.0, "tokens_per_s": 20.0}
# Tokens come slowly, so that a small machine carries all of them beside the requests.
FULL = {"streams": 200, "asks_per_s": 30.0, "asks_s": 20.0, "tokens_per_s": 4.0, "open_s": 5.0}
ROUNDS = [pytest.param(SMALL, id="small"), pytest.param(FULL, id="full", marks=pytest.mark.nightly)]


@pytest.fixture
def counted_gateway(stores: Bed, tmp_path: Path) -> Iterator[Between]:
    with (
        StartGateway(stores, tmp_path) as starter,
        counting_gateway(
            starter, tmp_path, is_forked=False, DATABASE_POOL_SIZE=str(POOL)
        ) as counted_gateway,
    ):
        yield counted_gateway


def wait_renewed(server: GatewayServer, old: set[int], *, left: bool) -> None:
    """Until as many new workers as before are at work, and the old ones have left."""

    def are_replaced() -> bool:
        now = workers_of(server.pid)
        return len(now - old) == len(old) and not (left and now & old)

    server.wait_until(are_replaced, within_s=START_S)


@pytest.mark.parametrize("load", ROUNDS)
def test_workers_are_replaced_without_one_failed_request(
    counted_gateway: Between, load: dict[str, Any]
) -> None:
    server = counted_gateway.server
    old = workers_of(server.pid)
    tokens = int(load["tokens_per_s"] * load["asks_s"])
    with counted_gateway.crowd(**load, tokens=tokens) as crowd:
        crowd.wait_open()
        os.kill(server.pid, signal.SIGHUP)
        wait_renewed(server, old, left=False)
        told = crowd.end()

    assert (told["broken"], told["told"], told["lost"]) == (0, 0, 0), told["shown"]
    assert told["stale"] == 0
    assert told["whole"] == load["streams"]
    assert told["asked"] == {"200": int(load["asks_per_s"] * load["asks_s"])}
    wait_renewed(server, old, left=True)
    counted_gateway.check_books()


@pytest.mark.parametrize("load", ROUNDS)
def test_a_stopped_server_leaves_nobody_untold_and_another_takes_over(
    counted_gateway: Between, load: dict[str, Any], tmp_path: Path
) -> None:
    server = counted_gateway.server
    with counted_gateway.crowd(**load, tokens=800) as crowd:
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
    counted_gateway.check_books()


# --- Many at once ---------------------------------------------------------------------------------

POOL = 4
STATES = (
    "SELECT state FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


@pytest.mark.parametrize(
    ("streams", "tokens"),
    [pytest.param(300, 4, id="300"), pytest.param(1000, 60, id="1000", marks=pytest.mark.nightly)],
)
def test_no_stream_is_lost_and_no_token_out_of_place(
    counted_gateway: Between, streams: int, tokens: int
) -> None:
    with counted_gateway.crowd(streams=streams, tokens=tokens, tokens_per_s=1, open_s=5) as crowd:
        crowd.wait_open()
        # All at once, and none of them keeps a connection to the database: the pool's own are idle.
        assert counted_gateway.health("/readyz") == 200
        ledger = Ledger(counted_gateway.server.env["DATABASE_URL"])
        # What a process does now and then takes a moment.
        counted_gateway.server.wait_until(
            lambda: {state for (state,) in ledger.rows(STATES)} <= {"idle"}
        )
        assert len(ledger.rows(STATES)) <= 2 * (POOL + 1)
        told = crowd.end()

    assert (told["whole"], told["told"], told["broken"]) == (streams, 0, 0), told["shown"]
    assert len(workers_of(counted_gateway.server.pid)) == 2
    counted_gateway.check_books()
