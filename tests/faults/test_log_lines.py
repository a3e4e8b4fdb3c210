"""What a running gateway logs: each request, each failed provider, each change."""

import json
import os
import signal
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.faults import bench
from tests.faults.conftest import GatewayWith, Open
from tests.faults.raw_desk import worker_pids
from tests.support.gateways import seed_account
from tests.support.server import GatewayServer

pytestmark = pytest.mark.both


# The cheaper one is as good as always asked first.
PAIR = bench.model(
    "logged/pair", bench.endpoint("first"), bench.endpoint("second", pricing=bench.DEAR)
)


def read_lines(server: GatewayServer) -> list[dict[str, Any]]:
    """All of them, each a JSON object; amounts are exact."""
    text = server.log()
    return [json.loads(line, parse_float=Decimal) for line in text.splitlines()]


def find_line(server: GatewayServer, within_s: float = 10, **fields: Any) -> dict[str, Any]:
    """The one line with these fields, once it is there."""

    def find() -> list[dict[str, Any]]:
        whole = read_lines(server) if server.log().endswith("\n") else []
        return [line for line in whole if fields.items() <= line.items()]

    server.wait_until(lambda: bool(find()), within_s=within_s)
    (line,) = find()
    return line


def test_a_failover_is_a_line_of_the_provider_and_one_of_the_request(desk_of: Open) -> None:
    """An answer that is given again is a line without a charge."""
    desk = desk_of([PAIR])
    desk.upstream.script("first", {"status": 503})
    request_id = "failover-first"
    response, repeat = (
        desk.post(headers={"Idempotency-Key": "k-1", "X-Request-Id": f"failover-{word}"})
        for word in ("first", "again")
    )
    assert (response.status_code, repeat.status_code) == (200, 200)

    line = find_line(desk.server, logger="routing.requests", request_id=request_id)
    failed = find_line(desk.server, logger="routing.upstreams", request_id=request_id)

    generation = desk.generation(response.headers["X-Generation-Id"])
    key = desk.server.get("/api/v1/key", key=desk.account.api_key).json()["data"]
    time, pid, first_ms, whole_ms = (
        line.pop(name) for name in ("time", "process", "first_token_ms", "duration_ms")
    )
    assert (time[:2], pid > 0) == ("20", True)
    assert 0 <= first_ms <= whole_ms
    assert line == {
        "level": "INFO",
        "logger": "routing.requests",
        "message": "request",
        "request_id": request_id,
        "generation_id": generation["id"],
        "account_id": desk.account.account_id,
        "workspace_id": desk.account.workspace_id,
        "workspace": "main",
        "key": key["label"],
        "format": "chat",
        "streamed": False,
        "model": "logged/pair",
        "provider": "Second",
        "attempts": 2,
        "route": "First 503 → Second 200",
        "status": 200,
        "error_type": None,
        "reason": None,
        "tokens_prompt": generation["tokens_prompt"],
        "tokens_completion": generation["tokens_completion"],
        "charge_usd": Decimal(str(generation["total_cost"])),
        "is_repeat": False,
    }
    assert (failed["level"], failed["generation_id"]) == ("WARNING", generation["id"])
    assert (failed["model"], failed["provider"]) == ("logged/pair", "first")
    assert (failed["status"], failed["error_type"]) == (503, "provider_overloaded")
    assert failed["duration_ms"] >= 0

    again = find_line(desk.server, logger="routing.requests", request_id="failover-again")
    assert (again["is_repeat"], again["generation_id"]) == (True, generation["id"])
    assert (again["status"], again["charge_usd"], again["attempts"]) == (200, None, 0)


def test_births_and_changes_are_lines(desk_on: Open, tmp_path: Path) -> None:
    """A limit, a catalogue, and workers that a reload replaces."""
    desk = desk_on([PAIR], LOG_FORMAT="json")
    server, account = desk.server, desk.account
    (former,) = worker_pids(server)
    limited = desk.manage("PATCH", f"/keys/{account.api_key_hash}", {"limit": 3})
    assert limited.status_code == 200
    find_line(server, logger="accounts.limits", account_id=account.account_id)

    file = tmp_path / "more.yaml"
    more = bench.model("logged/more", bench.endpoint("third"))
    file.write_text(bench.as_yaml(bench.personas(desk.upstream), [more]), encoding="utf-8")
    version = server.manage("load_catalogue", str(file), "--wait")["version"]
    line = find_line(server, logger="routing.catalogue", process=former, version=version)
    assert (line["level"], line["endpoints"]) == ("INFO", 3)

    os.kill(server.pid, signal.SIGHUP)
    find_line(server, logger="gateway.web", message="Reload: 1 web workers are replaced")
    # It waits for its callers, who may keep connections open.
    ended = f"Web worker {former} ended"
    find_line(server, logger="gateway.web", message=ended, within_s=90)
    (new,) = worker_pids(server)
    find_line(server, logger="gateway.web", process=new, message=f"Web worker {new} serves")


@pytest.mark.nightly
def test_at_warning_no_request_has_a_line(gateway_with: GatewayWith) -> None:
    quiet = gateway_with([PAIR], LOG_LEVEL="warning")
    account = seed_account(quiet)

    answer = quiet.chat(
        key=account.api_key, model="logged/pair", messages=[{"role": "user", "content": "Hello"}]
    )

    assert answer.status_code == 200
    quiet.stop()
    assert "routing.requests" not in quiet.log()
