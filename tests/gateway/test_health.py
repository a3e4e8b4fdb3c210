"""GET /healthz and GET /readyz, and operators' pages, on a running server and in process."""

import resource
import socket
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.db import OperationalError
from django.test import RequestFactory

from gateway import health
from gateway.http.jsonio import loads
from gateway.shared_cache import SharedCache
from tests.support.bed import Bed
from tests.support.gateways import StartGateway
from tests.support.processes import children
from tests.support.server import GatewayServer, as_json
from tests.support.valkey import ValkeyServer


def test_a_machine_s_queue_is_told_from_the_others_of_its_kind(
    valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    hints = SharedCache(valkey.url, timeout_s=5.0)
    monkeypatch.setattr(health, "shared_cache", lambda: hints)
    # Who asks of machines does so by a connection of his own.
    settings.REDIS_URL, settings.REDIS_TIMEOUT = valkey.url, 5.0
    health.note_worker(["interns@east", "intern-control"])
    assert health.find_worked_queues()["interns"] is True
    assert health.find_worked_hosts("interns", ["east", "local"]) == {"east": True, "local": False}
    assert health.find_worked_hosts("intern-control", ["east", "local"]) == {
        "east": False,
        "local": True,
    }
    hints.close()


@pytest.mark.both
def test_a_disk_without_room_is_told_and_decides_where_the_database_is_on_it(
    start_gateway: StartGateway, stores: Bed
) -> None:
    server = start_gateway()
    ready = as_json(server.get("/readyz"))
    assert ready["status"] == "ok"
    assert (ready["checks"]["database"]["ok"], ready["checks"]["hints"]["ok"]) == (True, True)
    # No process of it may write to a file beyond its first 100 kB, by the kernel's refusal.
    pids = children(server.pid)
    before = resource.prlimit(pids[0], resource.RLIMIT_FSIZE)
    for pid in pids:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (100_000, before[1]))

    full = {"ok": False, "error": "File too large"}
    status = 200 if stores.is_postgres else 503
    server.wait_until(lambda: as_json(server.get("/readyz"))["checks"]["home"] == full)
    server.wait_until(lambda: server.get("/readyz").status_code == status)

    checks = as_json(server.get("/readyz"))["checks"]
    database = {"vendor": "postgresql", "ok": True}
    assert checks["database"] == (database if stores.is_postgres else {"vendor": "sqlite"} | full)


def test_only_a_deciding_check_makes_it_unready(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> health.Report:
        raise OperationalError("secret of the connection")

    bad = {"ok": False, "version": 3}
    for decides, look, status, told in (
        (True, lambda: bad, 503, bad),
        (False, lambda: bad, 200, bad),
        (True, broken, 503, {"ok": False, "error": "OperationalError"}),
    ):
        monkeypatch.setattr(health, "_checks", {})
        health.register_check("catalogue", decides, look)
        answer = health.readyz(RequestFactory().get("/readyz"))
        assert answer.status_code == status
        assert loads(answer.content)["checks"] == {"catalogue": told}


TOKEN = b"t" * 32


def answer_to_slow_form(server: GatewayServer, form: bytes) -> bytes:
    """Post a form whose body comes when its head has long been read; the status line."""
    where = urlsplit(server.root_url)
    assert where.hostname
    assert where.port
    with socket.create_connection((where.hostname, where.port), timeout=10) as caller:
        caller.sendall(
            b"POST /console/sign-in HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n"
            b"Cookie: csrftoken=" + TOKEN + b"\r\n"
            b"Content-Type: application/x-www-form-urlencoded\r\n"
            b"Content-Length: " + str(len(form)).encode() + b"\r\n\r\n"
        )
        for _ in range(3):
            assert server.get("/readyz").status_code == 200
        caller.sendall(form)
        return caller.makefile("rb").readline()


@pytest.mark.both
def test_a_form_may_come_in_pieces(gateway: GatewayServer) -> None:
    form = b"login=someone&password=something&csrfmiddlewaretoken=" + TOKEN
    assert answer_to_slow_form(gateway, form).startswith(b"HTTP/1.1 200 ")
