"""What a running gateway shows of what was asked of it."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

from routing.simulator.testing import SimulatedUpstream
from tests.support.bed import Bed
from tests.support.catalogue import FAILOVER
from tests.support.gateways import SeededAccount, StartGateway, seed_account
from tests.support.processes import children
from tests.support.server import GatewayServer

TOKEN = "token-of-the-metrics"
ASKED = {"model": "acme/small", "messages": [{"role": "user", "content": "Hello"}]}
Samples = dict[str, float]


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, stores: Bed, simulator: SimulatedUpstream
) -> Iterator[GatewayServer]:
    with StartGateway(stores, tmp_path_factory.mktemp("metrics")) as start:
        yield start.with_catalogue(
            FAILOVER.format(url=simulator.url),
            worker=True,
            WEB_CONCURRENCY="2",
            METRICS_TOKEN=TOKEN,
        )


@pytest.fixture(scope="module")
def account(server: GatewayServer) -> SeededAccount:
    return seed_account(server)


def find_url(server: GatewayServer) -> str:
    file = Path(server.env["GATEWAY_HOME"]) / "run" / "metrics" / "url"
    server.wait_until(file.exists)
    return file.read_text(encoding="utf-8")


def scrape(url: str, **headers: str) -> Samples:
    """Samples by name and labels as they are written, such as `requests{status="200"}`."""
    response = requests.get(url, headers=headers, timeout=10)
    assert response.status_code == 200, response.text
    assert response.headers["X-Request-Id"].startswith("req-")
    samples = {}
    for family in text_string_to_metric_families(response.text):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            samples[f"{sample.name}{{{labels}}}"] = sample.value
    return samples


def wait_for(server: GatewayServer, holds: Callable[[Samples], bool]) -> Samples:
    found: Samples = {}

    def look() -> bool:
        found.clear()
        try:
            found.update(scrape(find_url(server)))
        except requests.ConnectionError:
            # Whoever listened there was killed.
            return False
        return holds(found)

    server.wait_until(look, within_s=15)
    return found


@pytest.mark.both
def test_answer_failover_refusal_and_stream_are_counted(
    server: GatewayServer, account: SeededAccount
) -> None:
    key, workspace = account.api_key, account.workspace_id
    plain = server.chat(key=key, **ASKED, provider={"only": ["up"]})
    failed_over = server.chat(key=key, **ASKED, provider={"order": ["down", "up"]})
    refused = server.chat(key=key, **(ASKED | {"model": "what/a-secret-name"}))
    streamed = server.chat(key=key, **ASKED, stream=True, provider={"only": ["up"]})
    assert [each.status_code for each in (plain, failed_over, refused, streamed)] == [
        *(200, 200, 400, 200)
    ]
    assert "[DONE]" in streamed.text
    cost = [plain.json()["usage"]["cost"], failed_over.json()["usage"]["cost"]]

    server_labels = "model=acme/small,provider=Up"
    whose = f"{server_labels},workspace={workspace}"
    stream = "error_type=,format=chat,model=acme/small,provider=Up,status=200,workspace="
    ended = f"gateway_requests_total{{{stream}{workspace}}}"
    refusals = f"gateway_refusals_total{{reason=unknown_model,workspace={workspace}}}"
    # Each process writes down its own, once a second.
    found = wait_for(server, lambda found: found.get(ended) == 3 and refusals in found)

    version = server.get("/readyz").json()["checks"]["catalogue"]["version"]
    expected = {
        "gateway_requests_total{error_type=invalid_request,format=chat,model=other,provider=,"
        f"status=400,workspace={workspace}}}": 1,
        refusals: 1,
        "gateway_upstream_attempts_total{outcome=ok,provider=Up}": 3,
        "gateway_upstream_attempts_total{outcome=provider_unavailable,provider=Down}": 1,
        "gateway_fallbacks_total{provider=Down}": 1,
        f"gateway_request_duration_seconds_count{{format=chat,{server_labels}}}": 3,
        "gateway_request_duration_seconds_count{format=chat,model=other,provider=}": 1,
        f"gateway_time_to_first_token_seconds_count{{{server_labels}}}": 1,
        f"gateway_time_per_output_token_seconds_count{{{server_labels}}}": 1,
        "gateway_endpoints{provider=Down}": 1,
        "gateway_endpoints{provider=Up}": 1,
        "gateway_web_processes{}": 2,
        "gateway_requests_in_progress{}": 0,
        "gateway_streams_in_progress{}": 0,
        "gateway_request_slots{}": 2_000,
        "gateway_body_memory_bytes{}": 0,
        "gateway_ledger_queue_depth{}": 0,
        "gateway_reports_dropped_total{}": 0,
        "gateway_failed_requests_lost_total{}": 0,
        "gateway_spans_lost_total{}": 0,
        "gateway_destination_traces_lost_total{reason=broker}": 0,
        "gateway_holds_open{}": 0,
        "gateway_held_usd{}": 0,
        "gateway_holds_expired{}": 0,
        "gateway_interns{status=running}": 0,
        "gateway_intern_jobs_waiting{}": 0,
        "gateway_intern_jobs_oldest_seconds{}": 0,
        "gateway_catalogue_version{}": version,
        "gateway_catalogue_version_min{}": version,
        **{
            f"gateway_metrics_source_up{{source={source}}}": 1
            for source in ("books", "disk", "interns", "queue")
        },
    }
    assert {name: found.get(name) for name in expected} == expected
    assert found[f"gateway_charge_usd_total{{{whose}}}"] == pytest.approx(3 * sum(cost) / 2)
    assert found[f"gateway_cost_usd_total{{{whose}}}"] == pytest.approx(3 * sum(cost) / 2)
    ages = {name for name in found if name.startswith("gateway_provider_answer_age_seconds")}
    assert ages == {"gateway_provider_answer_age_seconds{provider=Up}"}
    for kind in ("input", "output"):
        tokens = f"gateway_tokens_total{{model=acme/small,provider=Up,type={kind},"
        assert found[f"{tokens}workspace={workspace}}}"] > 0
    for name in ("disk_free_bytes", "disk_size_bytes", "body_memory_limit_bytes"):
        assert found[f"gateway_{name}{{}}"] > 0
    assert any(name.startswith("gateway_build_info{") for name in found)
    assert any(name.startswith("gateway_queue_depth{") for name in found)
    for name in ("ledger_batch_size", "ledger_commit_seconds"):
        assert found[f"gateway_{name}_count{{}}"] > 0
    assert not any("a-secret-name" in name or key in name for name in found)


@pytest.mark.both
def test_the_web_port_wants_the_token(server: GatewayServer) -> None:
    url = f"{server.root_url}/metrics"

    assert server.get("/metrics").status_code == 401
    assert server.get("/metrics", key="token-of-somebody").status_code == 401
    assert scrape(url, Authorization=f"Bearer {TOKEN}")["gateway_web_processes{}"] == 2


@pytest.mark.both
def test_without_a_token_the_web_port_has_no_metrics(gateway: GatewayServer) -> None:
    assert gateway.get("/metrics").status_code == 404


def test_another_process_takes_over_from_a_killed_one_and_totals_stay(
    server: GatewayServer, account: SeededAccount
) -> None:
    total = "gateway_upstream_attempts_total{outcome=ok,provider=Up}"
    server.chat(key=account.api_key, **ASKED, provider={"only": ["up"]})
    before = wait_for(server, lambda found: total in found)[total]

    for pid in children(server.pid):
        os.kill(pid, signal.SIGKILL)
    after = wait_for(server, lambda found: found.get("gateway_web_processes{}") == 2)

    assert after[total] >= before


def test_a_provider_that_left_the_catalogue_has_no_endpoints(
    server: GatewayServer, orm_of: Callable[[GatewayServer], AbstractContextManager[None]]
) -> None:
    names = ["gateway_endpoints{provider=Down}", "gateway_endpoints{provider=Up}"]
    before = wait_for(server, lambda found: names[0] in found)
    assert [before[name] for name in names] == [1, 1]

    with orm_of(server):
        from routing.catalogue.models import Endpoint
        from routing.catalogue.version import bump_version

        with bump_version("default"):
            Endpoint.objects.filter(provider__slug="down").delete()

    wait_for(server, lambda found: [found.get(name) for name in names] == [0, 1])
