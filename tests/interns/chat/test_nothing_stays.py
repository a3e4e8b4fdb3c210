"""A turn is forgotten as soon as it has ended, however it ended, by a worker without a garbage
collector; and while it lasts it holds no connection to the database."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.interns.chat.conftest import OpenRoom, chat_settings
from tests.interns.chat.room import Room, events_of, finish_of, user
from tests.support.bed import Bed
from tests.support.gateways import StartGateway
from tests.support.remembering import FILE
from tests.support.scripted_agent import END, PERMISSION, SEVER, Gate, Refusal, content, question
from tests.support.server import GatewayServer

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def remembering(
    tmp_path_factory: pytest.TempPathFactory, stores: Bed, places: Path
) -> Iterator[GatewayServer]:
    folder = tmp_path_factory.mktemp("remembering")
    worker = "tests.support.remembering.RememberingWorker"
    with StartGateway(stores, folder) as starter:
        yield starter(
            WEB_CONCURRENCY="1",
            GUNICORN_CMD_ARGS=f"--worker-class {worker}",
            **{FILE: str(folder / "remembered.json")},
            **chat_settings(places, INTERN_TURN_SECONDS="1"),
        )


def turns(server: GatewayServer) -> int:
    told = json.loads(Path(server.env[FILE]).read_text(encoding="utf-8"))
    return int(told["turns"])


def looks(server: GatewayServer) -> int:
    told = json.loads(Path(server.env[FILE]).read_text(encoding="utf-8"))
    return int(told["looks"])


def ended(room: Room) -> None:
    assert finish_of(list(events_of(room.say()))) == "stop"


def answered(room: Room) -> None:
    room.agent.script(question(PERMISSION), END)
    list(events_of(room.say(session_id="s")))
    room.say(session_id="s")
    room.say(session_id="other")
    room.answer("s", "wrong")
    list(events_of(room.answer("s", "allow_once")))


def severed(room: Room) -> None:
    room.agent.script(content("a"), SEVER)
    list(events_of(room.say()))


def refused(room: Room) -> None:
    room.agent.script(Refusal(500, "x"))
    assert room.say().status_code == 502
    room.agent.path.rename(room.agent.path.with_suffix(".away"))
    assert room.say().status_code == 502
    room.agent.path.with_suffix(".away").rename(room.agent.path)
    room.post({"stream": True, "messages": user("")})


def said_nonsense(room: Room) -> None:
    room.agent.script({"type": "content"}, END)
    list(events_of(room.say()))


def took_too_long(room: Room) -> None:
    room.agent.script(Gate(), END)
    list(events_of(room.say()))


def left(room: Room) -> None:
    gate = Gate()
    room.agent.script(content("a"), gate, END)
    response = room.say()
    gate.wait_reached()
    response.close()
    room.wait_open(None)


ENDINGS = [ended, answered, severed, refused, said_nonsense, took_too_long, left]


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: ending.__name__)
def test_nothing_of_a_turn_stays(
    remembering: GatewayServer, open_room: OpenRoom, ending: Callable[[Room], None]
) -> None:
    before = turns(remembering)
    ending(open_room(remembering))

    until = looks(remembering) + 2
    remembering.wait_until(lambda: looks(remembering) >= until)
    assert turns(remembering) == before


def test_a_turn_under_way_is_seen(remembering: GatewayServer, open_room: OpenRoom) -> None:
    """Or the test above would say nothing."""
    gate = Gate()
    room = open_room(remembering)
    room.agent.script(gate, END)
    with room.say():
        gate.wait_reached()
        remembering.wait_until(lambda: turns(remembering) >= 2)


def test_streams_hold_no_connection(start_gateway: Any, places: Path, open_room: OpenRoom) -> None:
    server = start_gateway(**chat_settings(places, DATABASE_POOL_SIZE="1"))
    rooms = [open_room(server) for _ in range(4)]
    gates = [Gate() for _ in rooms]
    with ExitStack() as streams:
        for room, gate in zip(rooms, gates, strict=True):
            room.agent.script(gate, END)
            streams.enter_context(room.say())
            gate.wait_reached()

        assert server.get("/api/v1/interns", key=rooms[0].account.api_key).status_code == 200
        assert finish_of(list(events_of(open_room(server).say()))) == "stop"
