"""A gateway whose keys are read for every request, and guardrails over its API."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import CHAT, Desk
from tests.support.bed import Bed
from tests.support.catalogue import THREE_WIRES, rewritten
from tests.support.gateways import StartGateway, seed_account
from tests.support.server import GatewayServer, as_json

GUARDRAILS = "/api/v1/guardrails"
EUROPE = "eu.gateway.test"
US = "us.gateway.test"


@pytest.fixture(scope="module")
def desks(
    tmp_path_factory: pytest.TempPathFactory, stores: Bed, simulator: SimulatedUpstream
) -> Iterator[Callable[[], Desk]]:
    folder = tmp_path_factory.mktemp("guarded")
    with StartGateway(stores, folder) as starter:
        server = _started(starter, simulator, folder)
        yield lambda: Desk(server, simulator, seed_account(server), "acme/small")
        audit = server.manage("audit_ledger")
        assert audit["mismatches"] == []
        assert audit["open_holds"] == 0


@pytest.fixture
def desk(desks: Callable[[], Desk], simulator: SimulatedUpstream) -> Desk:
    simulator.clear()
    return desks()


def catalogue_text(simulator: SimulatedUpstream) -> str:
    """The conformance catalogue, a model for each wire kind, and one with a European endpoint."""
    plain = yaml.safe_load(rewritten(simulator.url))
    wires = yaml.safe_load(rewritten(simulator.url, source=THREE_WIRES))
    models = {each["id"]: each for each in plain["models"]}
    solo = models["acme/solo"]
    (endpoint,) = solo["endpoints"]
    solo["endpoints"] = [endpoint, {**endpoint, "tag": "gamma/eu", "region": "europe"}]
    whole = {
        "providers": plain["providers"] + wires["providers"],
        "models": plain["models"] + wires["models"],
    }
    text: str = yaml.safe_dump(whole, sort_keys=False)
    return text


def _started(starter: StartGateway, simulator: SimulatedUpstream, folder: Path) -> GatewayServer:
    file = folder / "catalogue.yaml"
    file.write_text(catalogue_text(simulator), encoding="utf-8")
    server = starter.build(API_KEY_CACHE_SECONDS="0", REGIONAL_HOSTS=f"{EUROPE}=europe,{US}=us")
    server.manage("load_catalogue", str(file))
    server.start()
    return server


def manage(desk: Desk, method: str, path: str = "", body: Any = None) -> requests.Response:
    options = {} if body is None else {"json": body}
    key = desk.account.management_key
    return desk.server.request(method, GUARDRAILS + path, key=key, **options)


def told(response: requests.Response, status: int = 200) -> Any:
    assert response.status_code == status, response.text
    return as_json(response)


def made(desk: Desk, **said: Any) -> str:
    """A new guardrail's id."""
    answer = told(manage(desk, "POST", body={"name": "g", **said}), 201)
    its_id: str = answer["data"]["id"]
    return its_id


def governed(desk: Desk, **said: Any) -> str:
    """A guardrail of the desk's own key."""
    its_id = made(desk, **said)
    body = {"key_hashes": [desk.account.api_key_hash]}
    answer = told(manage(desk, "POST", f"/{its_id}/assignments/keys", body))
    assert answer == {"assigned_count": 1}
    return its_id


def default_id(desk: Desk) -> str:
    """The id of the default guardrail of the desk's workspace."""
    path = f"/api/v1/workspaces/{desk.account.workspace_id}"
    answer = told(desk.server.get(path, key=desk.account.management_key))
    its_id: str = answer["data"]["default_guardrail_id"]
    return its_id


def chat_at(desk: Desk, host: str, **body: Any) -> requests.Response:
    """A chat request to the gateway by this host name."""
    given = {"model": desk.model, "messages": [{"role": "user", "content": "Hello"}], **body}
    return desk.server.post(CHAT, key=desk.account.api_key, json=given, headers={"Host": host})
