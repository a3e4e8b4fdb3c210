"""Refusals of turns and answers, by status, reason and whether to try again."""

import json
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import requests

from interns.chat.run_cleanup import end_runs
from interns.models import ChatInteraction
from routing.simulator.testing import RawConnection
from tests.interns.chat.conftest import OpenRoom
from tests.interns.chat.room import Room, ending_of, refusal_of
from tests.interns.chat.scripted_agent import END, PERMISSION, PointedDriver, Refusal, question
from tests.support.server import GatewayServer
from tests.support.windows import within_one

BUSY = (409, "busy", True)
NOT_WAITING = (409, "interaction_not_pending", False)


def test_one_turn_at_a_time(room: Room) -> None:
    running, gate = room.hold(session_id="s")
    with running:
        for response in (room.say(session_id="other"), room.say(), room.answer("s", "allow_once")):
            assert refusal_of(response) == BUSY
            assert response.headers["Retry-After"] == "5"
        gate.open()
        assert ending_of(running) == "stop"


def test_only_a_question_that_was_asked_is_answered_and_once(room: Room) -> None:
    room.pause()
    # A waiting turn is one too.
    assert refusal_of(room.say(session_id="other")) == refusal_of(room.say()) == BUSY
    for response in (room.answer("s", "x", call_id="call-2"), room.answer("other", "allow_once")):
        assert refusal_of(response) == (404, "interaction_unknown", False)
        message = response.json()["error"]["message"]
        assert message == "No pending question has this tool_call_id."
    assert ending_of(room.answer("s", "allow_once")) == "stop"
    response = room.answer("s", "allow_once")
    assert refusal_of(response) == NOT_WAITING
    message = response.json()["error"]["message"]
    assert message == "That question is no longer waiting for an answer."


@pytest.mark.both
def test_a_reply_after_the_deadline(room: Room) -> None:
    room.pause()
    asked = room.questions()[0]
    assert asked.deadline_at - asked.asked_at == timedelta(minutes=5)
    with room.rows():
        ChatInteraction.objects.filter(pk=asked.pk).update(deadline_at=datetime.now(UTC))
    for _ in range(2):
        assert refusal_of(room.answer("s", "allow_once")) == NOT_WAITING
    (run,) = room.runs()
    assert (run.state, run.ended_because) == ("cancelled", "timeout")
    assert room.questions()[0].state == "expired"
    # The runtime is told before the next turn begins.
    assert ending_of(room.say()) == "stop"
    assert (room.agent.cancelled, room.agent.answers) == ([str(run.pk)], [])


def test_a_run_that_was_ended(room: Room) -> None:
    room.pause()
    with room.rows():
        assert end_runs(room.intern_id, driver=PointedDriver()) == 1
        assert end_runs(room.intern_id, driver=PointedDriver()) == 0
    assert refusal_of(room.answer("s", "allow_once")) == (410, "run_ended", False)


def test_what_the_runtime_refuses_at_the_head_of_a_turn(room: Room) -> None:
    for number, (refusal, *told) in enumerate(
        [
            (Refusal(409, "busy"), 409, "busy", True),
            (Refusal(503, "whatever"), 503, "busy", True),
            (Refusal(400, "bad_request"), 502, "intern_rejected", False),
            (Refusal(418, "teapot"), 502, "intern_rejected", False),
            (Refusal(500, "x", retryable=True), 502, "turn_failed", True),
            (Refusal(500, "turn_failed"), 502, "turn_failed", False),
        ]
    ):
        room.agent.script(refusal)
        assert list(refusal_of(room.say())) == told, refusal
        assert room.runs()[number].ended_because == told[1], refusal
    assert ending_of(room.say()) == "stop"


def test_what_the_runtime_refuses_of_an_answer_ends_the_run(room: Room) -> None:
    for number, (refusal, *told) in enumerate(
        [
            (Refusal(409, "interaction_not_pending"), *NOT_WAITING),
            (Refusal(404, "interaction_unknown"), 404, "interaction_unknown", False),
            (Refusal(409, "attachment_failed"), 409, "attachment_failed", False),
            (Refusal(410, "attachment_failed"), 410, "attachment_failed", False),
            (Refusal(410, "run_ended"), 410, "run_ended", False),
        ]
    ):
        call_id = f"call-{number}"
        room.agent.script(question(PERMISSION, id=call_id), refusal, END)
        assert ending_of(room.say(session_id="s")) == "tool_calls"
        assert list(refusal_of(room.answer("s", "allow_once", call_id=call_id))) == told, refusal
        assert room.runs()[number].state == "cancelled", refusal
        room.wait_open(None)


def test_a_runtime_that_is_not_there(room: Room) -> None:
    room.pause()
    away = room.agent.path.with_suffix(".away")
    room.agent.path.rename(away)
    unreachable = (502, "intern_unreachable", True)
    assert refusal_of(room.answer("s", "allow_once")) == unreachable
    assert refusal_of(room.say(session_id="s")) == unreachable
    assert room.questions()[0].state == "pending"
    away.rename(room.agent.path)
    assert ending_of(room.answer("s", "allow_once")) == "stop"
    room.agent.path.rename(away)
    assert refusal_of(room.say()) == unreachable
    away.rename(room.agent.path)
    room.wait_open(None)


def test_turns_a_minute(strict_gateway: GatewayServer, open_room: OpenRoom) -> None:
    def third() -> requests.Response:
        room = open_room(strict_gateway)
        second = open_room(strict_gateway, account=room.account)
        room.pause()
        # None of these is a turn of its own.
        assert room.say(session_id="s").status_code == 202
        assert refusal_of(room.say()) == BUSY
        assert ending_of(room.answer("s", "allow_once")) == "stop"
        assert ending_of(second.say()) == "stop"
        return room.say()

    response = within_one(60, third)

    assert refusal_of(response) == (429, "rate_limited", True)
    message = response.json()["error"]["message"]
    assert message == "Too many intern turns. Please wait a moment."
    headers = {"Retry-After": "60", "X-RateLimit-Limit": "2"}
    assert headers.items() <= response.headers.items()
    assert ending_of(open_room(strict_gateway).say()) == "stop"


def test_a_full_gateway(strict_gateway: GatewayServer, open_room: OpenRoom) -> None:
    running, gate = open_room(strict_gateway).hold()
    response = open_room(strict_gateway).say()
    gate.open()
    assert ending_of(running) == "stop"
    assert refusal_of(response) == (503, "busy", True)
    assert response.headers["Retry-After"] == "5"
    strict_gateway.wait_until(lambda: open_room(strict_gateway).say().status_code == 200)


def test_a_body_that_does_not_come(strict_gateway: GatewayServer, open_room: OpenRoom) -> None:
    room = open_room(strict_gateway)
    head = (
        f"POST {room.path} HTTP/1.1\r\nHost: gateway\r\nContent-Length: 9\r\n"
        f"Authorization: Bearer {room.account.api_key}\r\n\r\n"
    )
    with closing(RawConnection(int(room.server.env["PORT"]))) as wire:
        wire.send(head.encode())
        status, headers = wire.head()
        error: Any = json.loads(wire.body(headers))["error"]
    assert status == error["code"] == 408
    assert error["metadata"] == {"reason": "timeout", "retryable": True}
