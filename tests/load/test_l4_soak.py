"""L4: a long time at a moderate load with one fault in a hundred, and nothing grows."""

import os
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from tests.support.bed import Bed
from tests.support.crowds import Between, counting_gateway, workers_of
from tests.support.gateways import StartGateway

# GATEWAY_SOAK_SECONDS=60 tries it out.
SECONDS = float(os.environ.get("GATEWAY_SOAK_SECONDS", "900"))
ASKS_PER_S = float(os.environ.get("GATEWAY_SOAK_RATE", "150"))
WARM_UP_S = min(120.0, SECONDS / 3)
STREAMS = 50
GROWTH_SHARE = 0.10
# Pools fill up and empty within these bounds.
SPARE = 8

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(SECONDS * 2 + 300)]


@dataclass(frozen=True)
class Sizes:
    """The largest worker's memory and open files, and the database's connections."""

    rss_bytes: int
    files: int
    connections: int


def sizes(between: Between) -> Sizes:
    pids = workers_of(between.server.pid)
    return Sizes(
        rss_bytes=max(map(_rss_bytes, pids)),
        files=max(_open_files(pid) for pid in pids),
        connections=_connections(between.server.env["DATABASE_URL"]),
    )


def _rss_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _open_files(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def _connections(database_url: str) -> int:
    with psycopg.connect(database_url) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        ).fetchone()
    assert row is not None
    return int(row[0])


def loaded(between: Between, seconds: float) -> Sizes:
    """Sizes once the load is over and its connections have ended."""
    plan = {"streams": STREAMS, "tokens": int(20 * seconds), "tokens_per_s": 20.0}
    asks = {"asks_per_s": ASKS_PER_S, "asks_s": seconds, "upstream_s": 0.05, "fault_share": 0.01}
    with between.crowd(**plan, **asks) as crowd:
        crowd.wait_open()
        told = crowd.end()
    assert (told["whole"], told["broken"], told["lost"]) == (STREAMS, 0, 0), told["shown"]
    failed = {name for name in told["asked"] if name != "200"}
    assert failed, "no fault came to pass"
    assert all(" after " in name for name in failed), told["asked"]
    between.check_books()
    return sizes(between)


def test_nothing_grows(stores: Bed, tmp_path: Path) -> None:
    with (
        StartGateway(stores, tmp_path) as starter,
        counting_gateway(
            # A fault of the upstream's must not keep it from being asked the next time.
            starter,
            tmp_path,
            worker=True,
            ROUTER_OUTAGE_WINDOW_SECONDS="0.001",
            # Its streams last as long as the load, and each call's own deadline is ten minutes.
            ROUTER_TOTAL_TIMEOUT=str(max(600.0, SECONDS + 60)),
            HOLD_LEASE_SECONDS=str(int(SECONDS) + 900),
        ) as between,
    ):
        warm = loaded(between, WARM_UP_S)
        after = loaded(between, SECONDS)

        assert after.rss_bytes <= warm.rss_bytes * (1 + GROWTH_SHARE), (warm, after)
        assert after.files <= warm.files + SPARE, (warm, after)
        assert after.connections <= warm.connections + SPARE, (warm, after)
