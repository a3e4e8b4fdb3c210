"""A gateway with short limits, in front of every fault there is."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import Desk
from tests.faults import bench
from tests.support.bed import Bed
from tests.support.gateways import StartGateway, seed_account
from tests.support.server import GatewayServer

CONNECT_S = 0.5
# An event of 5 MB takes a busy machine a good part of this.
FIRST_BYTE_S = 1.5
IDLE_S = 1.5
KEEP_ALIVE_S = 0.1
SHORT_LIMITS = {
    "ROUTER_CONNECT_TIMEOUT": str(CONNECT_S),
    "ROUTER_FIRST_BYTE_TIMEOUT": str(FIRST_BYTE_S),
    "ROUTER_IDLE_TIMEOUT": str(IDLE_S),
    "ROUTER_KEEPALIVE_SECONDS": str(KEEP_ALIVE_S),
    "ROUTER_STREAM_COMMIT_SECONDS": "0.2",
    # A model that failed a moment ago is tried like any other.
    "ROUTER_OUTAGE_WINDOW_SECONDS": "0.001",
    # Failures are what these tests are made of: they must not use up the budget for retries.
    "ROUTER_RETRY_FLOOR": "100000",
}
Open = Callable[..., Desk]
GatewayWith = Callable[..., GatewayServer]


def start_loaded(starter: StartGateway, catalogue: str, **env: str) -> GatewayServer:
    """A running gateway with short limits and this catalogue."""
    options: dict[str, Any] = SHORT_LIMITS | env
    return starter.with_catalogue(catalogue, **options)


@pytest.fixture(scope="module")
def gateway_with(
    tmp_path_factory: pytest.TempPathFactory, stores: Bed, simulator: SimulatedUpstream
) -> Iterator[GatewayWith]:
    """`gateway_with(models, SETTING="1")`: a running gateway of the module's own with these models.
    The providers are the simulated personas, or those given."""
    folder = tmp_path_factory.mktemp("module")

    def start_models(
        models: list[dict[str, Any]], *, providers: list[dict[str, Any]] | None = None, **env: str
    ) -> GatewayServer:
        known = bench.personas(simulator) if providers is None else providers
        return start_loaded(starter, bench.as_yaml(known, models), **env)

    with StartGateway(stores, folder) as starter:
        yield start_models


@pytest.fixture(scope="session")
def fault_gateway(
    tmp_path_factory: pytest.TempPathFactory, stores: Bed, simulator: SimulatedUpstream
) -> Iterator[GatewayServer]:
    folder = tmp_path_factory.mktemp("faults")
    models = bench.fault_models(simulator) + bench.plain_models()
    catalogue = bench.as_yaml(bench.personas(simulator), models)
    with StartGateway(stores, folder) as starter:
        yield start_loaded(starter, catalogue, LOG_FORMAT="json")


@pytest.fixture(scope="module")
def audited_gateway(fault_gateway: GatewayServer) -> Iterator[GatewayServer]:
    """Whatever a module's faults did, the books add up afterwards and nothing is held."""
    yield fault_gateway
    fault_gateway.check_books()


@pytest.fixture
def desk(audited_gateway: GatewayServer, simulator: SimulatedUpstream) -> Desk:
    """A fresh account with much credit; the upstream's log and scripts are empty."""
    simulator.clear()
    return Desk(
        audited_gateway, simulator, seed_account(audited_gateway, credits_usd="1000"), "plain/first"
    )


@pytest.fixture
def desk_of(audited_gateway: GatewayServer, simulator: SimulatedUpstream, tmp_path: Path) -> Open:
    """`desk_of(models)`: a desk on the shared gateway, at the first of these models, which it now
    serves too. Their names are no other test's, nor is what it remembers of their endpoints."""

    def open_(models: list[dict[str, Any]]) -> Desk:
        simulator.clear()
        file = tmp_path / "more.yaml"
        file.write_text(bench.as_yaml(bench.personas(simulator), models), encoding="utf-8")
        audited_gateway.manage("load_catalogue", str(file))
        account = seed_account(audited_gateway, credits_usd="1000")
        name = str(models[0]["id"])
        path = f"/api/v1/models/{name}/endpoints"
        # A process that has just begun is none yet of those that the command would wait for.
        audited_gateway.wait_until(
            lambda: audited_gateway.get(path, key=account.api_key).status_code == 200
        )
        return Desk(audited_gateway, simulator, account, name)

    return open_


@pytest.fixture
def desk_on(start_gateway: StartGateway, simulator: SimulatedUpstream, tmp_path: Path) -> Open:
    """`desk_on(models, SETTING="1")`: a desk on a gateway of the test's own, at the first model.
    The providers are the simulated personas, or those given."""

    def open_(
        models: list[dict[str, Any]], *, providers: list[dict[str, Any]] | None = None, **env: str
    ) -> Desk:
        simulator.clear()
        known = bench.personas(simulator) if providers is None else providers
        server = start_loaded(start_gateway, bench.as_yaml(known, models), **env)
        account = seed_account(server, credits_usd="1000")
        return Desk(server, simulator, account, str(models[0]["id"]))

    return open_
