"""GET /healthz and GET /readyz, on a running server and in process."""

import resource
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client, RequestFactory

from gateway import health
from gateway.http.jsonio import loads
from tests.support.bed import Bed
from tests.support.gateways import StartGateway
from tests.support.server import GatewayServer, as_json
from tests.support.victims import children


@pytest.mark.both
def test_a_ready_server_tells_what_it_checked(start_gateway: StartGateway) -> None:
    answer = start_gateway().get("/readyz")

    assert answer.status_code == 200
    body = as_json(answer)
    assert body["status"] == "ok"
    assert body["checks"]["database"]["ok"] is True
    assert body["checks"]["hints"]["ok"] is True


@pytest.mark.both
def test_liveness_does_no_io(start_gateway: StartGateway) -> None:
    server = start_gateway.build(DATABASE_URL="postgresql://nobody@127.0.0.1:9/nothing")
    server.start(until_ready=False)

    assert as_json(server.get("/healthz")) == {"status": "ok"}
    unready = server.get("/readyz")
    assert unready.status_code == 503
    assert as_json(unready)["checks"]["database"]["ok"] is False


def test_a_lost_hint_store_is_told_and_decides_nothing(start_gateway: StartGateway) -> None:
    server = start_gateway(redis_url="unix:///nonexistent.sock")

    body = as_json(server.get("/readyz"))
    assert body["status"] == "ok"
    assert body["checks"]["hints"]["ok"] is False
    assert body["checks"]["worker"]["ok"] is None


def test_a_worker_shows_which_queue_it_reads(start_gateway: StartGateway) -> None:
    server = start_gateway(worker=True)

    def workers() -> Any:
        return as_json(server.get("/readyz"))["checks"]["worker"]

    server.wait_until(lambda: workers()["queues"]["celery"] is True)
    others = {"celery": True, "interns": False, "intern-control": False}
    assert workers() == {"ok": False, "queues": others}


@pytest.fixture
def full_server(start_gateway: StartGateway) -> Iterator[GatewayServer]:
    """No process of it may write to a file beyond its first 100 kB, by the kernel's refusal."""
    server = start_gateway()
    pids = children(server.pid)
    before = resource.prlimit(pids[0], resource.RLIMIT_FSIZE)
    for pid in pids:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (100_000, before[1]))
    yield server
    for pid in pids:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
    server.wait_ready()


@pytest.mark.both
def test_a_disk_without_room_is_told_and_decides_where_the_database_is_on_it(
    full_server: GatewayServer, stores: Bed
) -> None:
    full = {"ok": False, "error": "File too large"}
    if not stores.is_postgres:
        full_server.wait_until(lambda: full_server.get("/readyz").status_code == 503)
    answer = full_server.get("/readyz")

    assert answer.status_code == (200 if stores.is_postgres else 503)
    checks = as_json(answer)["checks"]
    assert checks["home"] == full
    assert checks["database"] == {
        "vendor": "postgresql" if stores.is_postgres else "sqlite",
        **({"ok": True} if stores.is_postgres else full),
    }


@pytest.fixture
def only_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_checks", {})


@pytest.mark.usefixtures("only_checks")
@pytest.mark.parametrize(("decides", "status"), [(True, 503), (False, 200)])
def test_only_a_deciding_check_makes_it_unready(decides: bool, status: int) -> None:
    health.register_check("catalogue", decides, lambda: {"ok": False, "version": 3})

    answer = health.readyz(RequestFactory().get("/readyz"))

    assert answer.status_code == status
    assert loads(answer.content)["checks"] == {"catalogue": {"ok": False, "version": 3}}


@pytest.mark.usefixtures("only_checks")
def test_a_check_that_raises_is_not_ok() -> None:
    def broken() -> health.Report:
        raise OperationalError("secret of the connection")

    health.register_check("catalogue", True, broken)

    answer = health.readyz(RequestFactory().get("/readyz"))

    assert answer.status_code == 503
    assert loads(answer.content)["checks"]["catalogue"] == {
        "ok": False,
        "error": "OperationalError",
    }


@pytest.mark.django_db
def test_probes_answer_without_a_key_and_only_to_reading(client: Client) -> None:
    assert client.get("/healthz").status_code == 200
    assert client.get("/readyz").status_code == 200
    assert client.post("/healthz").status_code == 405
