"""The alerts and the dashboard that are shipped, as a real Prometheus reads them."""

import json
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from gateway.metrics.families import FAMILIES
from routing.simulator.testing import SimulatedUpstream
from tests.gateway.metrics.test_metrics_page import import_families
from tests.support import processes
from tests.support.bed import Bed
from tests.support.catalogue import FAILOVER
from tests.support.gateways import StartGateway, seed_account
from tests.support.manage import PROJECT
from tests.support.server import GatewayServer

DEPLOY = PROJECT / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
DASHBOARD = DEPLOY / "grafana" / "dashboard.json"
needs_prometheus = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="the Debian package prometheus is not installed"
)
_VARIABLES = {"$__rate_interval": "30s", "$workspace": ".*", "$model": ".*"}
# What a plain gateway has nothing of: all is well with it, or nobody used it.
_QUIET = re.compile(
    "gateway_(retries|repeats|tool_calls|cache_hits|cache_saved|guard_checks|decisions|beat"
    "|account_low_credit|ledger_audit|interns >|tasks_total|queue_worked|task_duration"
    "|statistics_age)"
)


def list_queries(title: str = "") -> list[str]:
    """Those of the dashboard, or of the one panel whose title begins so."""
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    chosen = (panel for panel in panels if panel["title"].startswith(title))
    return [each["expr"] for panel in chosen for each in panel.get("targets", ())]


def fill_in(query: str) -> str:
    """A query of the dashboard with its variables as they are at first."""
    for name, value in _VARIABLES.items():
        query = query.replace(name, value)
    return query


def list_rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_alerts_and_dashboard_ask_for_metrics_that_there_are() -> None:
    import_families()
    asked = " ".join([*list_queries(), *(rule["expr"] for rule in list_rules())])

    names = {
        re.sub("_(bucket|sum|count)$", "", name) if "seconds_" in name or "size_" in name else name
        for name in re.findall(r"gateway_\w+", asked)
    }

    assert names <= FAMILIES.keys()
    # Nothing is measured that nobody is shown.
    assert FAMILIES.keys() - names == set()


def test_each_alert_is_tried() -> None:
    tests = yaml.safe_load((ALERTS.with_name("alerts.test.yml")).read_text(encoding="utf-8"))
    tried = {
        check["alertname"]
        for test in tests["tests"]
        for check in test["alert_rule_test"]
        if check["exp_alerts"]
    }

    assert tried == {rule["alert"] for rule in list_rules()}


@needs_prometheus
def test_alerts_fire_when_they_should() -> None:
    command = ["promtool", "test", "rules", "alerts.test.yml"]
    done = subprocess.run(command, cwd=ALERTS.parent, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr


class Prometheus:
    """One that scrapes a gateway so often, with the alerts that are shipped."""

    def __init__(self, folder: Path, target: str, *, every: str) -> None:
        folder.mkdir()
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._url = f"http://127.0.0.1:{free.getsockname()[1]}"
        config = yaml.safe_load(ALERTS.with_name("prometheus.yml").read_text(encoding="utf-8"))
        config["global"] = {"scrape_interval": every, "evaluation_interval": "1s"}
        config["rule_files"] = [str(ALERTS)]
        config["scrape_configs"][0]["static_configs"] = [{"targets": [target]}]
        file = folder / "prometheus.yml"
        file.write_text(yaml.safe_dump(config), encoding="utf-8")
        self._process = processes.spawn(
            [
                "prometheus",
                f"--config.file={file}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={self._url.removeprefix('http://')}",
            ],
            log=folder / "prometheus.log",
            env={"PATH": "/usr/bin:/bin"},
            cwd=PROJECT,
        )

    def get(self, path: str, **parameters: str) -> Any:
        """The data of an answer; None while there is none."""
        try:
            answer = requests.get(f"{self._url}/api/v1/{path}", params=parameters, timeout=10)
        except requests.ConnectionError:
            return None
        body = answer.json() if "json" in answer.headers.get("Content-Type", "") else {}
        assert body.get("status") == "success" or answer.status_code == 503, (parameters, body)
        return body.get("data")

    def finds_down(self, provider: str) -> bool:
        """Whether the alert about it fires."""
        alerts = (self.get("alerts") or {}).get("alerts", [])
        labels = [each["labels"] for each in alerts if each["state"] == "firing"]
        down = [each["provider"] for each in labels if each["alertname"] == "ProviderDown"]
        return provider in down

    def stop(self) -> None:
        processes.kill(self._process)


def list_empty_queries(prometheus: Prometheus) -> list[str]:
    """Those of the dashboard without an answer, but for what a plain gateway has nothing of."""
    empty = []
    for query in list_queries():
        found = prometheus.get("query", query=fill_in(query))
        if not (found and found["result"]) and not _QUIET.search(query):
            empty.append(query)
    return empty


@pytest.fixture
def server(tmp_path: Path, stores: Bed, simulator: SimulatedUpstream) -> Iterator[GatewayServer]:
    with StartGateway(stores, tmp_path) as start:
        yield start.with_catalogue(FAILOVER.format(url=simulator.url), worker=True)


@needs_prometheus
def test_prometheus_answers_every_query_and_sees_a_provider_die(
    server: GatewayServer, tmp_path: Path
) -> None:
    account = seed_account(server)
    url = (Path(server.env["GATEWAY_HOME"]) / "run" / "metrics" / "url").read_text()
    body = {"model": "acme/small", "messages": [{"role": "user", "content": "Hello"}]}
    target = url.split("/")[2]
    prometheus = Prometheus(tmp_path / "prometheus", target, every="1s")
    # Alerts need no scrapes as frequent as those that are shipped.
    seldom = Prometheus(tmp_path / "seldom", target, every="15s")
    try:
        # Rates need two numbers of a series, so each kind of request comes again and again.
        until = time.monotonic() + 60
        while (empty := list_empty_queries(prometheus)) or not seldom.finds_down("Down"):
            assert time.monotonic() < until, empty
            order = {"order": ["down", "up"]}
            assert server.chat(key=account.api_key, **body, provider=order).status_code == 200
            streamed = server.chat(key=account.api_key, **body, stream=True, provider=order)
            assert "[DONE]" in streamed.text
            server.chat(key=account.api_key, **(body | {"model": "no/such"}))
            server.chat(key=account.api_key, **body, provider={"only": ["down"]})
            time.sleep(0.5)

        assert prometheus.finds_down("Down")
        assert not prometheus.finds_down("Up")
        assert not seldom.finds_down("Up")
        # Who was hit, and what was paid meanwhile.
        for title, labels in (
            ("Who is hit", {"workspace": account.workspace_id, "provider": "Down"}),
            ("Charge per hour by workspace", {"workspace": account.workspace_id}),
            ("Cost per hour by provider", {"provider": "Up"}),
        ):
            (query,) = list_queries(title)
            found = prometheus.get("query", query=fill_in(query))["result"]
            assert any(labels.items() <= each["metric"].items() for each in found), title
    finally:
        prometheus.stop()
        seldom.stop()
