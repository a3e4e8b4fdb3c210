"""A turn is forgotten as soon as it has ended, however it ended, by a worker without a garbage
collector. While it lasts it holds no connection to the database."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.interns.chat.conftest import OpenRoom, chat_settings
from tests.interns.chat.room import Room, ending_of, user
from tests.interns.chat.scripted_agent import END, SEVER, Gate, Refusal, content
from tests.support.bed import Bed
from tests.support.gateways import StartGateway
from tests.support.remembering import FILE
from tests.support.server import GatewayServer

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def remembering_gateway(
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


def read_count(server: GatewayServer, what: str) -> int:
    """How many `turns` the worker remembers, or `looks` it took for them."""
    return int(json.loads(Path(server.env[FILE]).read_text(encoding="utf-8"))[what])


def end_turn(room: Room) -> None:
    assert ending_of(room.say()) == "stop"


def answer_question(room: Room) -> None:
    room.pause()
    room.say(session_id="s")
    room.say(session_id="other")
    room.answer("s", "wrong")
    assert ending_of(room.answer("s", "allow_once")) == "stop"


def sever_stream(room: Room) -> None:
    room.agent.script(content("a"), SEVER)
    assert ending_of(room.say()) == "error"


def meet_refusals(room: Room) -> None:
    room.agent.script(Refusal(500, "x"))
    assert room.say().status_code == 502
    away = room.agent.path.rename(room.agent.path.with_suffix(".away"))
    assert room.say().status_code == 502
    away.rename(room.agent.path)
    assert room.post({"stream": True, "messages": user("")}).status_code == 400


def take_too_long(room: Room) -> None:
    room.agent.script(Gate(), END)
    assert ending_of(room.say()) == "error"


def leave_stream(room: Room) -> None:
    response, _ = room.hold(content("a"))
    response.close()
    room.wait_open(None)


ENDINGS = [
    end_turn,
    answer_question,
    sever_stream,
    meet_refusals,
    take_too_long,
    leave_stream,
]


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: ending.__name__)
def test_nothing_of_a_turn_stays(
    remembering_gateway: GatewayServer, open_room: OpenRoom, ending: Callable[[Room], None]
) -> None:
    before = read_count(remembering_gateway, "turns")
    ending(open_room(remembering_gateway))
    until = read_count(remembering_gateway, "looks") + 2
    remembering_gateway.wait_until(lambda: read_count(remembering_gateway, "looks") >= until)
    assert read_count(remembering_gateway, "turns") == before


def test_a_turn_under_way_is_seen(remembering_gateway: GatewayServer, open_room: OpenRoom) -> None:
    """Or the test above would say nothing."""
    running, _ = open_room(remembering_gateway).hold()
    with running:
        remembering_gateway.wait_until(lambda: read_count(remembering_gateway, "turns") >= 2)


def test_streams_hold_no_connection(start_gateway: Any, places: Path, open_room: OpenRoom) -> None:
    server = start_gateway(**chat_settings(places, DATABASE_POOL_SIZE="1"))
    with ExitStack() as streams:
        for _ in range(4):
            room = open_room(server)
            streams.enter_context(room.hold()[0])
        assert server.get("/api/v1/interns", key=room.account.api_key).status_code == 200
        assert ending_of(open_room(server).say()) == "stop"
