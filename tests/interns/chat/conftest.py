"""A gateway whose interns are scripted, and rooms on it."""

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.bed import Bed
from tests.support.gateways import StartGateway, seed_account
from tests.support.server import GatewayServer

if TYPE_CHECKING:
    # Models can be imported once Django is set up, which is later than this file is read.
    from tests.interns.chat.room import Orm, Room

PLACES = "SCRIPTED_INTERN_PLACES"
DRIVER = "tests.interns.chat.scripted_agent.PointedDriver"
Serve = Callable[..., GatewayServer]
OpenRoom = Callable[..., "Room"]
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def places() -> Iterator[Path]:
    """Where drivers of gateways look for runtimes, whose sockets need short names."""
    folder = Path(tempfile.mkdtemp(prefix="gateway-i-"))
    os.environ[PLACES] = str(folder)
    yield folder
    del os.environ[PLACES]
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def chat_gateway(
    tmp_path_factory: pytest.TempPathFactory, stores: Bed, places: Path
) -> Iterator[GatewayServer]:
    with StartGateway(stores, tmp_path_factory.mktemp("chat")) as starter:
        yield starter(**chat_settings(places))


@pytest.fixture(scope="session")
def strict_gateway(
    tmp_path_factory: pytest.TempPathFactory, stores: Bed, places: Path
) -> Iterator[GatewayServer]:
    """One with low bounds and other names."""
    strict = {
        "RATE_INTERN_TURNS": "2",
        "ROUTER_MAX_CONCURRENCY": "1",
        "ROUTER_BODY_TIMEOUT": "0.5",
        "INTERN_DOMAIN": "Agents.Example",
    }
    with StartGateway(stores, tmp_path_factory.mktemp("strict")) as starter:
        yield starter(**chat_settings(places, **strict))


def chat_settings(places: Path, **more: str) -> dict[str, str]:
    quick = {"INTERN_KEEPALIVE_SECONDS": "0.05"}
    return {"INTERN_RUNTIME": DRIVER, PLACES: str(places), **quick, **more}


@pytest.fixture
def open_room(chat_gateway: GatewayServer, places: Path, orm_of: "Orm") -> Iterator[OpenRoom]:
    """`open_room(server=…, status=…)`: an intern of an account of its own."""
    from tests.interns.chat.room import Room, make_intern, place
    from tests.interns.chat.scripted_agent import ScriptedAgent

    agents: list[ScriptedAgent] = []

    def open_one(server: GatewayServer | None = None, **fields: Any) -> "Room":
        server = server or chat_gateway
        account = fields.pop("account", None) or seed_account(server)
        number = next(_numbers)
        agent = ScriptedAgent(places / f"a{number}.sock")
        agents.append(agent)
        with orm_of(server):
            intern = make_intern(account, name=f"intern-{number}", **fields)
        place(places, intern.pk, agent)
        return Room(server, account, agent, intern.pk, orm_of)

    yield open_one
    for agent in agents:
        agent.stop()


@pytest.fixture
def room(open_room: OpenRoom) -> "Room":
    return open_room()
