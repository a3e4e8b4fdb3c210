"""Callers at the gateways that the whole run shares. An account may be shared too: the desk knows
what it has spent. Tests that change something of it, or count what it has, have their own."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.asking import PERSONAS
from tests.conformance.deciding import DecisionsDesk, judging
from tests.conformance.desk import Desk, Serve, returning
from tests.conformance.pairs import Pair
from tests.conformance.web import WebDesk
from tests.conformance.wide import REGIONAL_HOSTS, wide_catalogue
from tests.support.bed import Bed
from tests.support.gateways import SeededAccount, StartGateway, seed_account
from tests.support.search_engine import SearchEngine, serve_search_engine
from tests.support.server import GatewayServer
from tests.support.speakers import SPEAKERS
from tests.support.web_site import WebSite, serve_web_site

# A provider that failed a moment ago is tried like any other; keys are read anew.
FORGETFUL = {"ROUTER_OUTAGE_WINDOW_SECONDS": "0.001", "API_KEY_CACHE_SECONDS": "0"}


@contextmanager
def serving(stores: Bed, folder: Path, catalogue: str, **settings: Any) -> Iterator[GatewayServer]:
    """A gateway with that catalogue, whose books are sound in the end."""
    with StartGateway(stores, folder) as starter:
        server = starter.with_catalogue(catalogue, **settings)
        yield server
        server.check_books()


@pytest.fixture(scope="module")
def audited_gateway(gateway: GatewayServer) -> Iterator[GatewayServer]:
    """Whatever a module's tests did, the books add up afterwards and nothing is held."""
    yield gateway
    gateway.check_books()


@pytest.fixture(scope="module")
def caller(audited_gateway: GatewayServer) -> SeededAccount:
    """The account that a module's tests share."""
    return seed_account(audited_gateway)


@pytest.fixture
def desk(
    audited_gateway: GatewayServer, simulator: SimulatedUpstream, caller: SeededAccount
) -> Desk:
    return returning(Desk(audited_gateway, simulator, caller))


@pytest.fixture
def own_desk(audited_gateway: GatewayServer, simulator: SimulatedUpstream) -> Desk:
    simulator.clear()
    return Desk(audited_gateway, simulator, seed_account(audited_gateway))


# --- The gateway that has everything --------------------------------------------------------------


@pytest.fixture(scope="session")
def wide_server(
    tmp_path_factory: pytest.TempPathFactory, stores: Bed, simulator: SimulatedUpstream
) -> Iterator[GatewayServer]:
    """A gateway with models for every wire kind, decisions and region, which is quick to fill a
    silence. It has a response cache and a moderation hook for those who ask for them."""
    settings = {
        "REGIONAL_HOSTS": REGIONAL_HOSTS,
        "ROUTER_KEEPALIVE_SECONDS": "0.1",
        "ROUTER_RESPONSE_CACHE_ENABLED": "true",
        "ROUTER_MODERATION_HOOK": "tests.support.moderating.reasons",
        "ROUTER_MODERATION_TIMEOUT": "0.5",
        "ROUTER_FETCH_PRIVATE_HOSTS": "localhost",
        "ROUTER_FREE_RPD_LOW": "20",
        "ROUTER_FREE_RPD_HIGH": "1000",
        "ROUTER_FREE_CREDIT_THRESHOLD": "10",
    }
    folder, catalogue = tmp_path_factory.mktemp("wide"), wide_catalogue(simulator.url)
    with serving(stores, folder, catalogue, **FORGETFUL, **settings) as server:
        yield server


@pytest.fixture(scope="session")
def wide_account(wide_server: GatewayServer) -> SeededAccount:
    return seed_account(wide_server, credits_usd="100")


@pytest.fixture
def own_wide_desk(wide_server: GatewayServer, simulator: SimulatedUpstream) -> Desk:
    simulator.clear()
    return Desk(wide_server, simulator, seed_account(wide_server))


@pytest.fixture(params=["openai", "anthropic", "responses"])
def kind(request: pytest.FixtureRequest) -> str:
    """Each wire kind in turn."""
    name: str = request.param
    return name


@pytest.fixture
def wire_desk(
    wide_server: GatewayServer,
    simulator: SimulatedUpstream,
    wide_account: SeededAccount,
    kind: str,
) -> Desk:
    """A caller of the model that an upstream of that wire kind serves."""
    return returning(Desk(wide_server, simulator, wide_account, f"acme/over-{kind}"))


@pytest.fixture(params=SPEAKERS)
def pair(request: pytest.FixtureRequest, wire_desk: Desk, kind: str) -> Pair:
    """A caller of each format in turn, there."""
    return Pair(SPEAKERS[request.param], kind, wire_desk)


@pytest.fixture
def script(wire_desk: Desk, kind: str) -> Callable[..., None]:
    """`script(*steps)`: what that upstream says next."""
    return lambda *steps: wire_desk.upstream.script(f"{PERSONAS[kind]}-a", *steps)


@pytest.fixture
def own_wire_desk(own_wide_desk: Desk, kind: str) -> Desk:
    own_wide_desk.model = f"acme/over-{kind}"
    return own_wide_desk


@pytest.fixture
def deciding(
    wide_server: GatewayServer, simulator: SimulatedUpstream, wide_account: SeededAccount
) -> DecisionsDesk:
    """A caller of the model that an upstream of decisions serves."""
    return returning(judging(Desk(wide_server, simulator, wide_account)))


@pytest.fixture
def own_deciding(own_wide_desk: Desk) -> DecisionsDesk:
    return judging(own_wide_desk)


# --- The gateway with an operator's equipment -----------------------------------------------------


@dataclass(frozen=True)
class Equipped:
    """It searches and fetches, remembers failures and takes a fee for calls on own credentials. It
    has a list of models to choose from, commits soon to a stream, and has no shell."""

    server: GatewayServer
    engine: SearchEngine
    site: WebSite


@pytest.fixture(scope="session")
def equipped_gateway(
    tmp_path_factory: pytest.TempPathFactory, stores: Bed, simulator: SimulatedUpstream
) -> Iterator[Equipped]:
    settings = {
        "API_KEY_CACHE_SECONDS": "0",
        "BYOK_FEE_RATE": "0.05",
        "ROUTER_AUTO_MODELS": "router/fusion, acme/so*, gone/model",
        "ROUTER_FETCH_PRIVATE_HOSTS": "127.0.0.1",
        "ROUTER_OUTAGE_WINDOW_SECONDS": "30",
        "ROUTER_SEARCH_ENGINE": "searxng",
        "ROUTER_SEARCH_TIMEOUT": "0.5",
        "ROUTER_SHELL": "off",
        "ROUTER_STREAM_COMMIT_SECONDS": "0.2",
    }
    folder, catalogue = tmp_path_factory.mktemp("equipped_gateway"), wide_catalogue(simulator.url)
    with serve_search_engine() as engine, serve_web_site() as site:
        settings["ROUTER_SEARCH_URL"] = engine.url
        with serving(stores, folder, catalogue, **settings) as server:
            yield Equipped(server, engine, site)


@pytest.fixture
def equipped_desk(equipped_gateway: Equipped, simulator: SimulatedUpstream) -> Desk:
    simulator.clear()
    return Desk(equipped_gateway.server, simulator, seed_account(equipped_gateway.server))


@pytest.fixture
def web(equipped_gateway: Equipped, equipped_desk: Desk) -> WebDesk:
    equipped_gateway.engine.asked.clear()
    equipped_gateway.site.met.clear()
    return WebDesk(equipped_desk, equipped_gateway.engine, equipped_gateway.site)


@pytest.fixture(scope="module")
def serve(
    tmp_path_factory: pytest.TempPathFactory, stores: Bed, simulator: SimulatedUpstream
) -> Iterator[Serve]:
    """Desks on gateways with settings of these tests' own."""
    catalogue = wide_catalogue(simulator.url)
    with StartGateway(stores, tmp_path_factory.mktemp("own")) as starter:

        def desks(**settings: Any) -> Callable[[], Desk]:
            server = starter.with_catalogue(catalogue, API_KEY_CACHE_SECONDS="0", **settings)
            simulator.clear()
            return lambda: Desk(server, simulator, seed_account(server))

        yield desks
