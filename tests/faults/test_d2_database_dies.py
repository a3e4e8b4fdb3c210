"""D2: PostgreSQL killed, frozen, full and read-only under load. Nothing is sent upstream without a
hold, and callers get an answer within two seconds. What was acknowledged is in the books
afterwards, and no connection is lost for good."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.conf import settings

from tests.conformance.desk import Desk
from tests.faults import bench
from tests.faults.conftest import Open
from tests.faults.faulty_postgres import FaultyPostgres
from tests.faults.steady import Steady, upstream_tags
from tests.support.bed import Bed
from tests.support.callers import at_a_time
from tests.support.gateways import StartGateway
from tests.support.ledger import Ledger
from tests.support.postgres import USER
from tests.support.promptness import in_time
from tests.support.server import GatewayServer, as_json
from tests.support.tcp_proxy import TcpProxy

pytestmark = pytest.mark.thorough

CALLERS = 8
# Callers are told within two seconds; the rest is for a machine that other work keeps busy.
TOLD_S = 2.0
SLACK_S = 0.5
RECOVERY_S = 10.0
GOOD = 12
REFUSED = 8


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyPostgres]:
    folder = tmp_path_factory.mktemp("pg")
    folder.chmod(0o755)
    cluster = FaultyPostgres(folder / "cluster", tcp=True)
    cluster.start()
    yield cluster
    cluster.stop()


@pytest.fixture
def desk(postgres: FaultyPostgres, stores: Bed, desk_on: Open) -> Iterator[Desk]:
    """A desk on a gateway whose database is the faulty one."""
    name = f"gateway_{time.monotonic_ns()}"
    desk = desk_on(bench.plain_models(), database_url=postgres.fill(name, stores))
    yield desk
    desk.server.kill()
    postgres.mend()
    postgres.drop(name)


def check_calls(desk: Desk, load: Steady) -> None:
    """Served in full or refused in JSON, and every connection lived through it. Upstream calls,
    records and entries are the same set; the answers say the same money."""
    assert not [one for one in load.asked if one.status not in {200, 503}][:3]
    for one in load.asked:
        if one.status == 503:
            assert int(one.headers["retry-after"]) >= 1
            assert one.body["error"]["metadata"]["error_type"] == "provider_overloaded"
    server, account_id = desk.server, desk.account.account_id
    ledger = Ledger(server.env["DATABASE_URL"])
    server.wait_until(lambda: ledger.open_holds() == 0, within_s=RECOVERY_S)
    calls = {call.user: call for call in ledger.calls(account_id)}
    for one in load.asked:
        if one.status == 200:
            call = calls[one.tag]
            assert (call.entries, call.entries_nano) == (1, one.cost_nano)
    sent = upstream_tags(desk)
    assert len(sent) == len(set(sent))
    assert set(sent) == set(calls)
    assert all(call.entries == 1 and not call.lost for call in calls.values())
    server.check_books()


@contextmanager
def outage(desk: Desk, load: Steady) -> Iterator[None]:
    """Callers are refused, soon; and served again once the outage, which ends inside, is over."""
    load.wait_until(200, GOOD, since=0)
    lost_at = time.monotonic()
    yield
    back_at = time.monotonic()
    during = [one for one in load.since(lost_at) if one.begun_at < back_at and one.status == 503]
    refused_s = [one.took_s for one in during if "x-generation-id" not in one.headers]
    in_time(max(refused_s, default=0.0), TOLD_S + SLACK_S, during)
    # Whose upstream had been asked by then waits for the books.
    answered_s = [one.took_s for one in during if "x-generation-id" in one.headers]
    in_time(max(answered_s, default=0.0), settings.LEDGER_TIMEOUT + SLACK_S, during)
    load.wait_until(200, GOOD, since=back_at, within_s=RECOVERY_S)


def wait_refused(load: Steady) -> None:
    load.wait_until(503, REFUSED, since=time.monotonic())


def read_unready(desk: Desk) -> Any:
    """What `/readyz` says of it, soon."""
    begun_at = time.monotonic()
    told = desk.server.get("/readyz")
    in_time(time.monotonic() - begun_at, TOLD_S + SLACK_S)
    assert told.status_code == 503
    return as_json(told)["checks"]


@pytest.mark.parametrize(
    ("rounds", "pause_s"), [(1, 0.02), pytest.param(20, 0.15, marks=pytest.mark.nightly)]
)
def test_killed_under_load(
    desk: Desk, postgres: FaultyPostgres, rounds: int, pause_s: float
) -> None:
    with Steady(desk, callers=CALLERS, pause_s=pause_s) as load:
        for round_ in range(rounds):
            with outage(desk, load):
                postgres.crash()
                wait_refused(load)
                if round_ == 0:
                    check_doors(desk)
                postgres.revive()

    check_calls(desk, load)
    assert rounds > 1 or "Traceback" not in desk.server.log()


def check_doors(desk: Desk) -> None:
    """What else there is tells the loss in its own way, and without a traceback."""
    checks = read_unready(desk)
    assert (checks["database"]["ok"], checks["catalogue"]["ok"]) == (False, True)
    assert as_json(desk.server.get("/healthz")) == {"status": "ok"}
    credits_ = desk.server.get("/api/v1/credits", key=desk.account.management_key)
    assert credits_.status_code == 500
    assert as_json(credits_)["error"]["metadata"]["error_type"] == "server"
    check_page(desk.server.get("/admin/", headers=COOKIE))


COOKIE = {"Cookie": "sessionid=" + "s" * 32}


def check_page(page: Any) -> None:
    assert page.status_code == 503
    assert page.headers["Content-Type"].startswith("text/html")
    assert int(page.headers["Retry-After"]) >= 1
    assert "Traceback" not in page.text
    assert "psycopg" not in page.text


def test_frozen_under_load(desk: Desk, postgres: FaultyPostgres) -> None:
    with Steady(desk, callers=CALLERS) as load, outage(desk, load):
        postgres.freeze()
        wait_refused(load)
        for _ in range(2):
            read_unready(desk)
        postgres.thaw()

    desk.server.wait_ready()
    check_calls(desk, load)


@pytest.mark.nightly
def test_a_page_of_a_frozen_database_comes_to_an_end(desk: Desk, postgres: FaultyPostgres) -> None:
    assert desk.server.get("/admin/", headers=COOKIE, allow_redirects=False).status_code == 302
    postgres.freeze()

    check_page(desk.server.get("/admin/", headers=COOKIE, timeout=60))

    postgres.thaw()
    assert desk.server.get("/admin/", headers=COOKIE, allow_redirects=False).status_code == 302


def test_without_a_free_connection(desk: Desk, postgres: FaultyPostgres) -> None:
    database = desk.server.env["DATABASE_URL"].split("?")[0].rsplit("/", 1)[1]
    with Steady(desk, callers=CALLERS) as load, outage(desk, load), postgres.no_room(database):
        wait_refused(load)
        # A process keeps the connection it may still have for a moment.
        desk.server.wait_until(lambda: desk.server.get("/readyz").status_code == 503, within_s=30)

    check_calls(desk, load)


def test_read_only(desk: Desk, postgres: FaultyPostgres) -> None:
    """Reading goes on, writing is refused, and a balancer sends nobody here."""
    with Steady(desk, callers=CALLERS) as load, outage(desk, load), postgres.read_only():
        wait_refused(load)
        assert read_unready(desk)["database"]["error"] == "read-only"
        assert desk.total_usage_nano() > 0
        key = desk.account.management_key
        created = desk.server.post("/api/v1/keys", key=key, json={"name": "another"})
        assert created.status_code == 500
        assert as_json(created)["error"]["metadata"]["error_type"] == "server"

    desk.server.wait_ready()
    check_calls(desk, load)


# --- Connections ----------------------------------------------------------------------------------

POOL = 4


@pytest.fixture
def proxy(stores: Bed) -> Iterator[TcpProxy]:
    with TcpProxy("127.0.0.1", stores.postgres.port) as proxy:
        yield proxy


def test_probes_in_an_outage_cost_no_connection(
    start_gateway: StartGateway, stores: Bed, proxy: TcpProxy
) -> None:
    server = start_behind_proxy(proxy, start_gateway, stores, DATABASE_POOL_SIZE="1")
    proxy.refuse()
    proxy.cut()
    # Each could lose the pool a connection for good, and it has only one.
    assert [server.get("/readyz").status_code for _ in range(2)] == [503, 503]

    proxy.thaw()

    server.wait_ready()


def test_connections_that_died_unseen_fail_no_request(
    start_gateway: StartGateway, stores: Bed, proxy: TcpProxy
) -> None:
    server = start_behind_proxy(proxy, start_gateway, stores, CATALOGUE_POLL_SECONDS="30")
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


def start_behind_proxy(
    proxy: TcpProxy, start_gateway: StartGateway, stores: Bed, **env: str
) -> GatewayServer:
    """A gateway that reaches a new database only through the proxy."""
    database = re.sub(r".*/(\w+)\?.*", r"\1", stores.create())
    url = f"postgresql://{USER}@127.0.0.1:{proxy.port}/{database}"
    return start_gateway(**{"database_url": url, "DATABASE_POOL_SIZE": str(POOL)} | env)
