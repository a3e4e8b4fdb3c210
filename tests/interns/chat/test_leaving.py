"""Streams that do not run to their end: callers who leave, interns that are suspended, processes
that die. Nothing of a run is left afterwards, in rows or in runtimes."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import requests

from interns.chat.run_cleanup import delete_old_runs, end_runs, expire_runs
from interns.models import ChatInteraction, ChatRun, ChatSession
from tests.interns.chat.conftest import OpenRoom, chat_settings
from tests.interns.chat.room import Room, ending_of, events_of, finish_of, refusal_of, text_of
from tests.interns.chat.scripted_agent import (
    END,
    PERMISSION,
    SEVER,
    Gate,
    PointedDriver,
    content,
    question,
)
from tests.support.bed import Bed
from tests.support.gateways import StartGateway
from tests.support.server import GatewayServer

pytestmark = pytest.mark.thorough
NOT_WAITING = (409, "interaction_not_pending", False)
BUSY = (409, "busy", True)


@pytest.fixture(scope="module")
def other(
    tmp_path_factory: pytest.TempPathFactory, stores: Bed, chat_gateway: GatewayServer, places: Path
) -> Iterator[GatewayServer]:
    """A second process on the database of the first."""
    url = chat_gateway.env["DATABASE_URL"]
    with StartGateway(stores, tmp_path_factory.mktemp("other")) as starter:
        yield starter(database_url=url, **chat_settings(places))


def error_of(response: requests.Response) -> dict[str, Any]:
    chunks = list(events_of(response))
    assert finish_of(chunks) == "error"
    assert chunks[-1] == "[DONE]"
    (error,) = [each["error"] for each in chunks if isinstance(each, dict) and "error" in each]
    return error


def test_who_leaves_a_stream_ends_its_run(room: Room) -> None:
    response, _ = room.hold(content("a"))
    (run,) = room.agent.runs
    response.close()
    assert run.over.wait(60)
    room.wait_open(None)
    (row,) = room.runs()
    assert (row.state, row.ended_because) == ("cancelled", "client_closed_request")
    assert run.id in room.agent.cancelled
    assert ending_of(room.say()) == "stop"


def test_who_leaves_after_the_question_does_not_but_who_leaves_its_answer_does(room: Room) -> None:
    gate = Gate()
    room.agent.script(question(PERMISSION), gate, END)
    response = room.say(session_id="s")
    assert "[DONE]" in events_of(response)
    response.close()
    response = room.answer("s", "allow_once")
    gate.wait_reached()
    response.close()
    room.wait_open(None)
    assert refusal_of(room.answer("s", "allow_once")) == NOT_WAITING


@pytest.mark.parametrize("then", [END, SEVER])
def test_an_intern_is_suspended_in_the_middle(room: Room, then: Any) -> None:
    """Also where the connection is lost meanwhile: everybody knows why."""
    response, gate = room.hold(content("a"), then=then, session_id="s")
    with room.rows():
        if then == SEVER:
            ended = {"state": "cancelled", "ended_because": "run_ended"}
            ChatRun.objects.filter(intern_id=room.intern_id).update(
                **ended, ended_at=datetime.now(UTC)
            )
            gate.open()
        else:
            assert end_runs(room.intern_id, driver=PointedDriver()) == 1
    error = error_of(response)
    assert (error["code"], room.runs()[0].ended_because) == (410, "run_ended")
    assert error["metadata"] == {"reason": "run_ended", "retryable": False}


def test_a_killed_process_frees_its_intern_and_one_that_stops_tells_its_callers(
    start_gateway: Any, places: Any, open_room: OpenRoom
) -> None:
    server = start_gateway(**chat_settings(places))
    room = open_room(server)
    # A response that nobody holds is closed, and its caller has left before the kill.
    kept, _ = room.hold()
    (run,) = room.agent.runs
    server.kill()
    # The runtime notices by itself; the row's lease runs out.
    assert run.over.wait(60)
    server.start()
    assert refusal_of(room.say()) == BUSY
    with room.rows():
        ChatRun.objects.update(lease_expires_at=datetime.now(UTC))
    assert ending_of(room.say()) == "stop"
    assert [row.ended_because for row in room.runs()] == ["stream_severed", ""]
    kept.close()
    assert room.agent.cancelled == [run.id]

    response, _ = room.hold(content("a"))
    stopping = threading.Thread(target=server.stop)
    stopping.start()
    error = error_of(response)
    stopping.join()
    assert error["metadata"] == {"reason": "stream_severed", "retryable": True}
    assert room.agent.runs[-1].over.wait(60)
    assert room.runs()[-1].ended_because == "stream_severed"


def test_beat_ends_what_nobody_has(room: Room) -> None:
    room.pause()
    deadline = room.questions()[0].deadline_at
    # Other tests' runs are in the same tables.
    before = deadline - timedelta(seconds=1)
    for moment, state in ((before, "waiting"), (deadline, "cancelled"), (deadline, "cancelled")):
        with room.rows():
            expire_runs(moment, driver=PointedDriver())
        assert room.runs()[0].state == state
    (run,) = room.runs()
    assert run.ended_because == "timeout"
    assert room.agent.cancelled == [str(run.pk)]
    assert refusal_of(room.answer("s", "allow_once")) == NOT_WAITING


def test_old_runs_are_forgotten(room: Room) -> None:
    room.pause()
    assert ending_of(room.answer("s", "allow_once")) == "stop"
    assert ending_of(room.say(session_id="s")) == "stop"
    with room.rows():
        first, _ = ChatRun.objects.filter(intern_id=room.intern_id).order_by("started_at")
        old = datetime.now(UTC) - timedelta(days=31)
        ChatRun.objects.filter(pk=first.pk).update(ended_at=old)
        assert delete_old_runs(datetime.now(UTC)) == 1
        assert not ChatInteraction.objects.filter(run=first).exists()
        assert ChatSession.objects.filter(intern_id=room.intern_id).count() == 1
    assert refusal_of(room.answer("s", "allow_once")) == (404, "interaction_unknown", False)


def at_once(rooms: list[Room]) -> list[requests.Response]:
    """What each is told that begins a turn at the same moment."""
    answers: list[requests.Response] = []
    start = threading.Barrier(len(rooms))

    def ask(room: Room) -> None:
        start.wait()
        answers.append(room.say())

    threads = [threading.Thread(target=ask, args=(room,)) for room in rooms]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def test_two_processes_give_one_turn(other: GatewayServer, open_room: OpenRoom) -> None:
    """Many callers at once, at two processes: each time exactly one begins."""
    room = open_room()
    second = Room(other, room.account, room.agent, room.intern_id, room.orm)
    for _ in range(3):
        gate = Gate()
        room.agent.script(gate, END)
        answers = at_once([room, second] * 4)
        (stream,) = [answer for answer in answers if answer.status_code == 200]
        lost = [answer for answer in answers if answer.status_code != 200]
        assert [refusal_of(answer) for answer in lost] == [BUSY] * 7
        gate.open()
        assert ending_of(stream) == "stop"
    assert len(room.agent.runs) == 3


def test_one_process_asks_and_another_is_answered(
    other: GatewayServer, open_room: OpenRoom
) -> None:
    room = open_room()
    second = Room(other, room.account, room.agent, room.intern_id, room.orm)
    gate = Gate()
    room.pause(content("yes"), gate)
    with second.answer("s", "allow_once") as response:
        gate.wait_reached()
        assert room.say("more", session_id="s").status_code == 202
        assert refusal_of(room.answer("s", "allow_once")) == BUSY
        gate.open()
        assert text_of(list(events_of(response))) == "yes"
