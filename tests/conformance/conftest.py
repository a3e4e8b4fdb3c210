"""A caller of its own for every test, on the shared gateway."""

from collections.abc import Callable, Iterator

import pytest

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import Desk
from tests.support.gateways import SeededAccount
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
