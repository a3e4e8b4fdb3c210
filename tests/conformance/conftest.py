"""A caller of its own for every test, on the shared gateway."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.deciding import DecisionsDesk
from tests.conformance.desk import Desk, Serve
from tests.conformance.web import WebDesk, with_search_prices
from tests.support.bed import Bed
from tests.support.catalogue import DECISIONS, THREE_WIRES, rewritten
from tests.support.gateways import SeededAccount, StartGateway, seed_account
from tests.support.search_engine import serve_search_engine
from tests.support.server import GatewayServer
from tests.support.web_site import serve_web_site


@pytest.fixture(scope="module")
def audited(gateway: GatewayServer) -> Iterator[GatewayServer]:
    """Whatever a module's tests did, the books add up afterwards and nothing is held."""
    yield gateway
    audit = gateway.manage("audit_ledger")
    assert audit["mismatches"] == []
    assert audit["open_holds"] == 0


@pytest.fixture(scope="session")
def wires_server(
    tmp_path_factory: pytest.TempPathFactory, stores: Bed, simulator: SimulatedUpstream
) -> Iterator[GatewayServer]:
    """A gateway with a model for each wire kind, quick to fill a silence, with a response cache and
    a moderation hook for those who ask for them."""
    folder = tmp_path_factory.mktemp("wires")
    file = folder / "catalogue.yaml"
    file.write_text(rewritten(simulator.url, source=THREE_WIRES), encoding="utf-8")
    with StartGateway(stores, folder) as starter:
        server = starter.build(
            ROUTER_KEEPALIVE_SECONDS="0.1",
            ROUTER_RESPONSE_CACHE_ENABLED="true",
            ROUTER_MODERATION_HOOK="tests.support.moderating.reasons",
            ROUTER_MODERATION_TIMEOUT="0.5",
        )
        server.manage("load_catalogue", str(file))
        server.start()
        yield server
        audit = server.manage("audit_ledger")
        assert audit["mismatches"] == []
        assert audit["open_holds"] == 0


@pytest.fixture(scope="session")
def deciding_server(
    tmp_path_factory: pytest.TempPathFactory, stores: Bed, simulator: SimulatedUpstream
) -> Iterator[GatewayServer]:
    """A gateway whose models answer decisions in each of the ways."""
    folder = tmp_path_factory.mktemp("deciding")
    file = folder / "catalogue.yaml"
    file.write_text(rewritten(simulator.url, source=DECISIONS), encoding="utf-8")
    with StartGateway(stores, folder) as starter:
        server = starter.build(ROUTER_OUTAGE_WINDOW_SECONDS="0.001", API_KEY_CACHE_SECONDS="0")
        server.manage("load_catalogue", str(file))
        server.start()
        yield server
        audit = server.manage("audit_ledger")
        assert audit["mismatches"] == []
        assert audit["open_holds"] == 0


@pytest.fixture(scope="module")
def serve_deciding(
    tmp_path_factory: pytest.TempPathFactory, stores: Bed, simulator: SimulatedUpstream
) -> Iterator[Callable[..., DecisionsDesk]]:
    """Desks on gateways with settings of their own."""
    folder = tmp_path_factory.mktemp("settings")
    file = folder / "catalogue.yaml"
    file.write_text(rewritten(simulator.url, source=DECISIONS), encoding="utf-8")
    with StartGateway(stores, folder) as starter:

        def desk(**settings: Any) -> DecisionsDesk:
            server = starter.build(API_KEY_CACHE_SECONDS="0", **settings)
            server.manage("load_catalogue", str(file))
            server.start()
            simulator.clear()
            return DecisionsDesk(server, simulator, seed_account(server), "typesafe/jev-1.13")

        yield desk


@pytest.fixture
def deciding(deciding_server: GatewayServer, simulator: SimulatedUpstream) -> DecisionsDesk:
    """A caller of the model that an upstream of decisions serves."""
    simulator.clear()
    return DecisionsDesk(
        deciding_server, simulator, seed_account(deciding_server), "typesafe/jev-1.13"
    )


@pytest.fixture(params=["openai", "anthropic", "responses"])
def kind(request: pytest.FixtureRequest) -> str:
    """Each wire kind in turn."""
    name: str = request.param
    return name


@pytest.fixture
def wire_desk(wires_server: GatewayServer, simulator: SimulatedUpstream, kind: str) -> Desk:
    """A caller of the model that an upstream of that wire kind serves."""
    simulator.clear()
    model = f"acme/over-{kind}"
    return Desk(wires_server, simulator, seed_account(wires_server), model)


@pytest.fixture
def desk(
    audited: GatewayServer, simulator: SimulatedUpstream, account: Callable[..., SeededAccount]
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


@pytest.fixture(scope="session")
def web_desks(
    tmp_path_factory: pytest.TempPathFactory, stores: Bed, simulator: SimulatedUpstream
) -> Iterator[Callable[[], WebDesk]]:
    """Desks on a gateway that searches and fetches."""
    folder = tmp_path_factory.mktemp("web")
    with (
        serve_search_engine() as engine,
        serve_web_site() as site,
        StartGateway(stores, folder) as starter,
    ):
        server = starter.build(
            ROUTER_SEARCH_ENGINE="searxng",
            ROUTER_SEARCH_URL=engine.url,
            ROUTER_SEARCH_TIMEOUT="1",
            ROUTER_FETCH_PRIVATE_HOSTS="127.0.0.1",
            ROUTER_KEEPALIVE_SECONDS="0.1",
        )
        server.manage("load_catalogue", str(with_search_prices(folder, simulator.url)))
        server.start()

        def desks() -> WebDesk:
            simulator.clear()
            engine.asked.clear()
            site.met.clear()
            return WebDesk(Desk(server, simulator, seed_account(server)), engine, site)

        yield desks
        audit = server.manage("audit_ledger")
        assert audit["mismatches"] == []
        assert audit["open_holds"] == 0


@pytest.fixture
def web(web_desks: Callable[[], WebDesk]) -> WebDesk:
    return web_desks()
