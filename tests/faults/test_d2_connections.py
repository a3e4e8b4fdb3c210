"""D2, connections: how few are enough, and that an outage costs none of them for good."""

import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from routing.simulator.testing import Wire
from tests.conformance.desk import HELLO, Desk
from tests.faults import bench
from tests.faults.test_hang_ups import END
from tests.support.bed import Bed
from tests.support.callers import at_a_time, begin
from tests.support.gateways import StartGateway
from tests.support.ledger import Ledger
from tests.support.postgres import USER
from tests.support.server import GatewayServer
from tests.support.tcp_proxy import TcpProxy

pytestmark = pytest.mark.thorough

STREAMS = 300
POOL = 4


def test_three_hundred_streams_share_four_connections(desk_on: Any) -> None:
    desk: Desk = desk_on(
        [bench.model("plain/first", bench.endpoint("first"))],
        DATABASE_POOL_SIZE=str(POOL),
        # Their callers read when the test gets round to it.
        ROUTER_IDLE_TIMEOUT="60",
    )
    events = [{"text": "A beginning."}, {"gate": "all-open"}, {"text": " And an end."}, *END]
    desk.upstream.script("first", {"events": events}, repeat=True)
    port = int(desk.server.root_url.rsplit(":", 1)[1])

    def open_(number: int) -> Wire:
        wire = begin(
            port,
            desk.account.api_key,
            model=desk.model,
            messages=HELLO,
            stream=True,
            user=f"reader-{number}",
        )
        assert wire.head()[0] == 200
        wire.until(b"A beginning.")
        return wire

    wires = at_a_time(16, STREAMS, open_)
    # The pool's own and the ledger's; no reader's.
    assert len(connections(desk.server)) <= POOL + 1
    assert set(connections(desk.server)) <= {"idle"}
    desk.upstream.open_gate("all-open")

    ends = at_a_time(16, STREAMS, lambda number: wires[number].to_end())

    for wire in wires:
        wire.close()
    broken = [
        end[-900:].decode() for end in ends if b"And an end." not in end or b"[DONE]" not in end
    ]
    assert not broken, broken[0]
    check_settled(desk)


def check_settled(desk: Desk) -> None:
    ledger = Ledger(desk.server.env["DATABASE_URL"])
    calls = ledger.calls(desk.account.account_id)
    assert {call.user for call in calls} == {f"reader-{number}" for number in range(STREAMS)}
    assert all(call.entries == 1 and call.status == 200 for call in calls)
    audit = desk.server.manage("audit_ledger")
    assert (audit["mismatches"], audit["open_holds"]) == ([], 0)


def connections(server: GatewayServer) -> list[str]:
    """What each connection of a server's processes is doing; this one's own is not told."""
    with psycopg.connect(server.env["DATABASE_URL"], autocommit=True) as connection:
        rows = connection.execute(
            "SELECT state FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchall()
    return [row[0] for row in rows]


@pytest.fixture
def proxy(stores: Bed) -> Iterator[TcpProxy]:
    with TcpProxy("127.0.0.1", stores.postgres.port) as proxy:
        yield proxy


def test_probes_in_an_outage_cost_no_connection(
    start_gateway: StartGateway, stores: Bed, proxy: TcpProxy
) -> None:
    server = behind(proxy, start_gateway, stores, DATABASE_POOL_SIZE="1")
    proxy.refuse()
    proxy.cut()
    # Each could lose the pool a connection for good, and it has only one.
    assert [server.get("/readyz").status_code for _ in range(2)] == [503, 503]

    proxy.thaw()

    server.wait_ready()


def test_connections_that_died_unseen_fail_no_request(
    start_gateway: StartGateway, stores: Bed, proxy: TcpProxy
) -> None:
    server = behind(proxy, start_gateway, stores, CATALOGUE_POLL_SECONDS="30")
    seeded = server.manage(
        "seed_keys", "--account", "acme", "--workspace", "main", "--credits", "1"
    )
    key = seeded["management_key"]
    proxy.delay_s = 0.008

    def ask(_: int) -> int:
        return server.get("/api/v1/credits", key=key).status_code

    assert set(at_a_time(4 * POOL, 4 * POOL, ask)) == {200}
    assert proxy.connections >= POOL

    proxy.cut()

    assert set(at_a_time(4 * POOL, 4 * POOL, ask)) == {200}


def behind(proxy: TcpProxy, start_gateway: StartGateway, stores: Bed, **env: str) -> GatewayServer:
    """A gateway that reaches a new database only through the proxy."""
    database = re.sub(r".*/(\w+)\?.*", r"\1", stores.create())
    url = f"postgresql://{USER}@127.0.0.1:{proxy.port}/{database}"
    return start_gateway(**{"database_url": url, "DATABASE_POOL_SIZE": str(POOL)} | env)
