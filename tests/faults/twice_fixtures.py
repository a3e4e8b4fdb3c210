"""A gateway of two processes, shared by the modules that send the same thing twice."""

from collections.abc import Iterator

import pytest

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import Desk
from tests.faults import bench
from tests.faults.conftest import start_loaded
from tests.faults.twice import MODEL, PATIENT, Twice
from tests.support.bed import Bed
from tests.support.gateways import StartGateway, seed_account
from tests.support.server import GatewayServer


@pytest.fixture(scope="session")
def twice_gateway(
    tmp_path_factory: pytest.TempPathFactory, stores: Bed, simulator: SimulatedUpstream
) -> Iterator[GatewayServer]:
    folder = tmp_path_factory.mktemp("twice")
    first = bench.provider("first", f"{simulator.url}/first/v1", zdr=True)
    with StartGateway(stores, folder) as starter:
        server = start_loaded(starter, bench.as_yaml([first], [MODEL]), **PATIENT)
        yield server
        server.check_books()


@pytest.fixture
def twice(twice_gateway: GatewayServer, simulator: SimulatedUpstream) -> Twice:
    simulator.clear()
    return Twice(
        Desk(
            twice_gateway, simulator, seed_account(twice_gateway, credits_usd="1000"), "plain/first"
        )
    )
