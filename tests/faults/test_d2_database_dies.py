"""D2: PostgreSQL killed, frozen, full and read-only under load. Nothing is sent upstream without a
hold, callers are told within two seconds, and what was acknowledged is in the books afterwards."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import Desk
from tests.faults import bench
from tests.faults.conftest import loaded
from tests.support.bed import Bed
from tests.support.faulty_postgres import FaultyPostgres
from tests.support.gateways import StartGateway, seed_account
from tests.support.ledger import Ledger
from tests.support.promptness import in_time
from tests.support.server import as_json
from tests.support.steady import Asked, Steady, upstream_tags

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
def desk(
    postgres: FaultyPostgres,
    stores: Bed,
    start_gateway: StartGateway,
    simulator: SimulatedUpstream,
    tmp_path: Path,
) -> Iterator[Desk]:
    """A desk on a gateway whose database is the faulty one."""
    simulator.clear()
    name = f"gateway_{time.monotonic_ns()}"
    url = postgres.fill(name, stores)
    catalogue = bench.as_yaml(bench.personas(simulator), bench.plain_models())
    server = loaded(start_gateway, tmp_path, catalogue, database_url=url)
    yield Desk(server, simulator, seed_account(server, credits_usd="1000"), "plain/first")
    server.kill()
    postgres.mend()
    postgres.drop(name)


def check_answers(load: Steady) -> None:
    """Served in full or refused in JSON; every connection lived through it."""
    assert {one.status for one in load.asked} <= {200, 503}, strange(load)
    for one in load.asked:
        if one.status == 503:
            assert int(one.headers["retry-after"]) >= 1
            assert one.body["error"]["metadata"]["error_type"] == "provider_overloaded"


def strange(load: Steady) -> list[Asked]:
    return [one for one in load.asked if one.status not in {200, 503}][:3]


def check_told_in_time(load: Steady, lost_at: float, back_at: float) -> None:
    during = [one for one in load.since(lost_at) if one.begun_at < back_at and one.status == 503]
    refused_s = [one.took_s for one in during if "x-generation-id" not in one.headers]
    in_time(max(refused_s, default=0.0), TOLD_S + SLACK_S, during)
    # Whose upstream had been asked by then waits for the books.
    answered_s = [one.took_s for one in during if "x-generation-id" in one.headers]
    in_time(max(answered_s, default=0.0), settings.LEDGER_TIMEOUT + SLACK_S, during)


def check_books(desk: Desk, load: Steady) -> None:
    """Upstream calls, records and entries are the same set; the answers say the same money."""
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
    audit = server.manage("audit_ledger")
    assert (audit["mismatches"], audit["open_holds"]) == ([], 0)


def refused_since(load: Steady, lost_at: float) -> None:
    load.until(503, REFUSED, since=lost_at)


def recovered(load: Steady, back_at: float) -> None:
    load.until(200, GOOD, since=back_at, within_s=RECOVERY_S)


def killed(desk: Desk, postgres: FaultyPostgres, *, rounds: int, pause_s: float) -> None:
    with Steady(desk, callers=CALLERS, pause_s=pause_s) as load:
        load.until(200, GOOD, since=0)
        for round_ in range(rounds):
            lost_at = time.monotonic()
            postgres.crash()
            refused_since(load, lost_at)
            if round_ == 0:
                check_doors(desk)
            check_told_in_time(load, lost_at, time.monotonic())
            postgres.revive()
            recovered(load, time.monotonic())
    check_answers(load)
    check_books(desk, load)


def check_doors(desk: Desk) -> None:
    """What else there is tells the loss in its own way, soon, and without a traceback."""
    begun_at = time.monotonic()
    unready = desk.server.get("/readyz")
    in_time(time.monotonic() - begun_at, TOLD_S + SLACK_S)
    assert unready.status_code == 503
    assert as_json(unready)["checks"]["database"]["ok"] is False
    assert as_json(unready)["checks"]["catalogue"]["ok"] is True
    assert as_json(desk.server.get("/healthz")) == {"status": "ok"}
    credits_ = desk.server.get("/api/v1/credits", key=desk.account.management_key)
    assert credits_.status_code == 500
    assert as_json(credits_)["error"]["metadata"]["error_type"] == "server"
    page = desk.server.get("/admin/", headers={"Cookie": "sessionid=" + "s" * 32})
    check_page(page)


def check_page(page: Any) -> None:
    assert page.status_code == 503
    assert page.headers["Content-Type"].startswith("text/html")
    assert int(page.headers["Retry-After"]) >= 1
    assert "Traceback" not in page.text
    assert "psycopg" not in page.text


def test_killed_three_times_under_load(desk: Desk, postgres: FaultyPostgres) -> None:
    killed(desk, postgres, rounds=3, pause_s=0.02)

    assert "Traceback" not in desk.server.log()


@pytest.mark.nightly
def test_killed_twenty_times_under_load(desk: Desk, postgres: FaultyPostgres) -> None:
    killed(desk, postgres, rounds=20, pause_s=0.15)


def test_frozen_under_load(desk: Desk, postgres: FaultyPostgres) -> None:
    with Steady(desk, callers=CALLERS) as load:
        load.until(200, GOOD, since=0)
        lost_at = time.monotonic()
        postgres.freeze()
        refused_since(load, lost_at)
        for _ in range(3):
            begun_at = time.monotonic()
            assert desk.server.get("/readyz").status_code == 503
            in_time(time.monotonic() - begun_at, TOLD_S + SLACK_S)
        check_told_in_time(load, lost_at, time.monotonic())
        postgres.thaw()
        recovered(load, time.monotonic())
        assert desk.server.get("/readyz").status_code == 200

    check_answers(load)
    check_books(desk, load)


@pytest.mark.nightly
def test_a_page_of_a_frozen_database_comes_to_an_end(desk: Desk, postgres: FaultyPostgres) -> None:
    cookie = {"Cookie": "sessionid=" + "s" * 32}
    assert desk.server.get("/admin/", headers=cookie, allow_redirects=False).status_code == 302
    postgres.freeze()

    check_page(desk.server.get("/admin/", headers=cookie, timeout=60))

    postgres.thaw()
    assert desk.server.get("/admin/", headers=cookie, allow_redirects=False).status_code == 302


def test_without_a_free_connection(desk: Desk, postgres: FaultyPostgres) -> None:
    database = desk.server.env["DATABASE_URL"].split("?")[0].rsplit("/", 1)[1]
    with Steady(desk, callers=CALLERS) as load:
        load.until(200, GOOD, since=0)
        with postgres.no_room(database):
            lost_at = time.monotonic()
            refused_since(load, lost_at)
            # A process keeps the connection it may still have for a moment.
            desk.server.wait_until(
                lambda: desk.server.get("/readyz").status_code == 503, within_s=30
            )
            check_told_in_time(load, lost_at, time.monotonic())
        recovered(load, time.monotonic())

    check_answers(load)
    check_books(desk, load)


def test_read_only(desk: Desk, postgres: FaultyPostgres) -> None:
    with Steady(desk, callers=CALLERS) as load:
        load.until(200, GOOD, since=0)
        with postgres.read_only():
            lost_at = time.monotonic()
            refused_since(load, lost_at)
            check_read_only(desk)
            check_told_in_time(load, lost_at, time.monotonic())
        recovered(load, time.monotonic())
        desk.server.wait_ready()

    check_answers(load)
    check_books(desk, load)


def check_read_only(desk: Desk) -> None:
    """Reading goes on, writing is refused, and a balancer sends nobody here."""
    unready = desk.server.get("/readyz")
    assert unready.status_code == 503
    assert as_json(unready)["checks"]["database"]["error"] == "read-only"
    assert desk.total_usage_nano() > 0
    created = desk.server.post(
        "/api/v1/keys", key=desk.account.management_key, json={"name": "another"}
    )
    assert created.status_code == 500
    assert as_json(created)["error"]["metadata"]["error_type"] == "server"
