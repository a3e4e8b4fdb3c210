"""Every metric that there is has a number on a gateway that is used."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.metrics.families import FAMILIES
from routing.simulator.testing import SimulatedUpstream
from tests.conformance.deciding import judging
from tests.conformance.desk import Desk
from tests.conformance.guarded import set_guardrail
from tests.conformance.wide import wide_catalogue
from tests.gateway.metrics.test_metrics_page import import_families
from tests.routing.monitoring.test_metrics_of_a_gateway import Samples, find_url, scrape
from tests.support.bed import Bed
from tests.support.gateways import StartGateway, seed_account
from tests.support.procfile import running_line
from tests.support.server import GatewayServer

MODEL = "acme/over-openai"
PERSONA = "chat-a"


@pytest.fixture
def server(tmp_path: Path, stores: Bed, simulator: SimulatedUpstream) -> Iterator[GatewayServer]:
    """Web, a worker and beat, which audits the books at once."""
    with StartGateway(stores, tmp_path) as starter:
        server = starter.with_catalogue(
            wide_catalogue(simulator.url),
            worker=True,
            API_KEY_CACHE_SECONDS="0",
            LEDGER_AUDIT_SECONDS="1",
            ROUTER_ENDPOINT_RETRIES="1",
            ROUTER_RESPONSE_CACHE_ENABLED="true",
            ROUTER_RETRY_BACKOFF="0.01",
        )
        with running_line(server, "beat"):
            yield server


def ask(desk: Desk, **more: Any) -> None:
    response = desk.post(provider={"only": [PERSONA]}, **more)
    assert response.status_code == 200, response.text
    response.content  # noqa: B018 - Reads a stream to its end.


def use_everything(desk: Desk) -> None:
    """What each kind of request adds is in `EXPECTED`."""
    desk.upstream.script(PERSONA, {"status": 503}, {"text": "Well"})
    ask(desk)
    ask(desk, stream=True)
    for _ in range(2):
        ask(desk, headers={"Idempotency-Key": "once"})
        ask(desk, headers={"X-Router-Cache": "true"}, temperature=0.5)
    look = {"tool_calls": [{"name": "datetime", "arguments": {}}]}
    desk.upstream.script(PERSONA, look, {"text": "Late"})
    ask(desk, tools=[{"type": "router:datetime"}])
    desk.upstream.script("alpha", {"status": 500}, repeat=True)
    failed_over = desk.post(model="acme/small", provider={"order": ["alpha", "beta"]})
    assert failed_over.status_code == 200
    assert desk.post(model="nobody/knows").status_code == 400
    assert judging(desk).post().status_code == 200
    guard = {"kind": "moderation", "provider": PERSONA, "action": "flag", "on": "input"}
    set_guardrail(desk, external_guards=[guard])
    ask(desk)
    # Most of 13 cents.
    usage = {
        "prompt_tokens": 120_000,
        "prompt_tokens_details": {"cached_tokens": 100},
        "completion_tokens": 1,
    }
    desk.upstream.script(PERSONA, {"text": "Dear", "usage": usage})
    ask(desk)


EXPECTED = {
    "gateway_cache_hits_total{model=acme/over-openai}": 1,
    "gateway_decisions_total{path=native}": 1,
    "gateway_repeats_total{format=chat,workspace=WORKSPACE}": 1,
    "gateway_fallbacks_total{provider=Alpha}": 1,
    "gateway_retries_total{provider=Chat A}": 1,
    "gateway_tool_calls_total{outcome=ok,tool=router:datetime}": 1,
    "gateway_guard_checks_total{guard=moderation,result=passed,side=input}": 2,
    "gateway_ledger_audit_mismatches{}": 0,
    "gateway_queue_worked{queue=celery}": 1,
    "gateway_endpoints_unhealthy{provider=Alpha,state=unstable}": 1,
}


def find_missing(found: Samples, workspace_id: str) -> set[str]:
    """Families without a number, and numbers that are not as expected."""
    names = {re.sub(r"(_seconds|_size)_count$", r"\1", name.partition("{")[0]) for name in found}
    wrong = {
        name
        for name, value in EXPECTED.items()
        if found.get(name.replace("WORKSPACE", workspace_id)) != value
    }
    return FAMILIES.keys() - names | wrong


def test_everything_that_is_used_is_counted(
    server: GatewayServer, simulator: SimulatedUpstream
) -> None:
    import_families()
    simulator.clear()
    desk = Desk(server, simulator, seed_account(server, credits_usd="0.13"), MODEL)
    use_everything(desk)

    # Numbers are written once a second.
    url, workspace_id = find_url(server), desk.account.workspace_id
    server.wait_until(lambda: not find_missing(scrape(url), workspace_id), within_s=60)
