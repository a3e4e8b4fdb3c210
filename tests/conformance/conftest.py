"""A caller of its own for every test, on the shared gateway."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import Desk, Serve
from tests.support.bed import Bed
from tests.support.catalogue import rewritten
from tests.support.gateways import SeededAccount, StartGateway, seed_account
from tests.support.server import GatewayServer


@pytest.fixture(scope="module")
def audited(gateway: GatewayServer) -> Iterator[GatewayServer]:
    """Whatever a module's tests did, the books add up afterwards and nothing is held."""
    yield gateway
    audit = gateway.manage("audit_ledger")
    assert audit["mismatches"] == []
    assert audit["open_holds"] == 0


@pytest.fixture
def desk(
    audited: GatewayServer,
    simulator: SimulatedUpstream,
    account: Callable[..., SeededAccount],
) -> Desk:
    simulator.clear()
    return Desk(audited, simulator, account())


@pytest.fixture(scope="module")
def serve(
    tmp_path_factory: pytest.TempPathFactory, stores: Bed, simulator: SimulatedUpstream
) -> Iterator[Serve]:
    """Desks on a gateway of these tests' own: one that others use remembers their failures."""
    folder = tmp_path_factory.mktemp("own")
    catalogue = folder / "catalogue.yaml"
    catalogue.write_text(rewritten(simulator.url), encoding="utf-8")
    with StartGateway(stores, folder) as starter:

        def desks(**settings: Any) -> Callable[[], Desk]:
            server = starter.build(**settings)
            server.manage("load_catalogue", str(catalogue))
            server.start()
            return lambda: Desk(server, simulator, seed_account(server), "acme/small")

        yield desks
