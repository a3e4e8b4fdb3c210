"""Nightly: overload, hundreds of paced streams, and a long time with faults.

The callers need a core of their own: where they share the server's, their work is what is measured.
"""

import os
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.load.accounting import ProcessTree
from tests.support.bed import Bed
from tests.support.crowds import Between, counting_gateway, workers_of
from tests.support.gateways import StartGateway

# GATEWAY_OVERLOAD_SECONDS=10 and GATEWAY_SOAK_SECONDS=60 try it out.
OVERLOAD_S = float(os.environ.get("GATEWAY_OVERLOAD_SECONDS", "120"))
SOAK_S = float(os.environ.get("GATEWAY_SOAK_SECONDS", "900"))
SOAK_PER_S = float(os.environ.get("GATEWAY_SOAK_RATE", "150"))
# Enough to keep two workers busy with an upstream that takes 50 ms, and no long queue.
IN_PROGRESS_MAX = 48
UPSTREAM_S = 0.05
# Pools fill up and empty within these bounds.
SPARE = 8

pytestmark = pytest.mark.nightly


def send_crowd(between: Between, **plan: Any) -> dict[str, Any]:
    """What became of such a crowd."""
    with between.crowd(**plan) as crowd:
        crowd.wait_open()
        return crowd.end()


def goodput(told: dict[str, Any]) -> float:
    return float(told["asked"]["200"] / told["asks_took_s"])


def peak(between: Between) -> float:
    """Answers a second with as many callers as may be in progress, each asking on and on."""
    plan = {"asks_per_s": 3000.0, "asks_s": 1.0, "asks_max": IN_PROGRESS_MAX}
    told = send_crowd(between, **plan, upstream_s=UPSTREAM_S)
    assert set(told["asked"]) == {"200"}, told
    return goodput(told)


def test_at_twice_the_sustainable_rate_goodput_holds_and_the_rest_is_refused_at_once(
    stores: Bed, tmp_path: Path
) -> None:
    with (
        StartGateway(stores, tmp_path) as starter,
        counting_gateway(starter, tmp_path, ROUTER_MAX_CONCURRENCY=str(IN_PROGRESS_MAX)) as between,
    ):
        sustainable = max(peak(between), peak(between))
        plan = {"asks_per_s": 2 * sustainable, "asks_s": OVERLOAD_S, "asks_max": 4000}
        told = send_crowd(between, **plan, upstream_s=UPSTREAM_S)

        assert set(told["asked"]) <= {"200", "429", "503"}, told
        assert told["lost"] == 0, told["shown"]
        assert goodput(told) >= 0.9 * sustainable, (goodput(told), sustainable)
        assert told["latencies_ms"]["503"]["p99"] <= 200
        between.check_books()


def test_of_500_paced_streams_every_token_comes_and_the_first_one_soon(
    stores: Bed, tmp_path: Path
) -> None:
    with StartGateway(stores, tmp_path) as starter, counting_gateway(starter, tmp_path) as between:
        send_crowd(between, streams=2, tokens=2)
        told = send_crowd(between, streams=500, tokens=600, tokens_per_s=20, open_s=5)

        assert (told["whole"], told["broken"]) == (500, 0), told["shown"]
        # On a machine that does nothing else.
        assert told["first_token_ms"]["p99"] <= 100
        between.check_books()


def sizes(between: Between) -> dict[str, int]:
    """The largest worker's memory and open files, and the database's connections."""
    with psycopg.connect(between.server.env["DATABASE_URL"]) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        ).fetchone()
    assert row is not None
    pids = workers_of(between.server.pid)
    return {
        "rss_bytes": max(ProcessTree(pid).rss_bytes()[pid] for pid in pids),
        "files": max(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids),
        "connections": int(row[0]),
    }


def soak(between: Between, seconds: float) -> dict[str, int]:
    """Sizes once a moderate load with one fault in a hundred is over and its connections ended."""
    streams = {"streams": 50, "tokens": int(20 * seconds), "tokens_per_s": 20.0}
    asks = {"asks_per_s": SOAK_PER_S, "asks_s": seconds, "upstream_s": 0.05, "fault_share": 0.01}
    told = send_crowd(between, **streams, **asks)
    assert (told["whole"], told["broken"], told["lost"]) == (50, 0, 0), told["shown"]
    failed = {name for name in told["asked"] if name != "200"}
    assert failed, "no fault came to pass"
    assert all(" after " in name for name in failed), told["asked"]
    between.check_books()
    return sizes(between)


@pytest.mark.timeout(SOAK_S * 2 + 300)
def test_nothing_grows_in_a_long_time(stores: Bed, tmp_path: Path) -> None:
    settings = {
        # A fault of the upstream's must not keep it from being asked the next time.
        "ROUTER_OUTAGE_WINDOW_SECONDS": "0.001",
        # Its streams last as long as the load, and each call's own deadline is ten minutes.
        "ROUTER_TOTAL_TIMEOUT": str(max(600.0, SOAK_S + 60)),
        "HOLD_LEASE_SECONDS": str(int(SOAK_S) + 900),
    }
    with (
        StartGateway(stores, tmp_path) as starter,
        counting_gateway(starter, tmp_path, worker=True, **settings) as between,
    ):
        warm = soak(between, min(120.0, SOAK_S / 3))
        after = soak(between, SOAK_S)

        assert after["rss_bytes"] <= warm["rss_bytes"] * 1.1, (warm, after)
        assert after["files"] <= warm["files"] + SPARE, (warm, after)
        assert after["connections"] <= warm["connections"] + SPARE, (warm, after)
