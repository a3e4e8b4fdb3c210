"""Rows 59 to 63 of the management reference's section 19."""

import json
from datetime import UTC, datetime

import pytest

from interns.models import ChatInteraction
from tests.interns.chat.conftest import OpenRoom
from tests.interns.chat.room import Room, events_of, finish_of, refusal_of, user
from tests.support.scripted_agent import END, PERMISSION, question

pytestmark = pytest.mark.both


def test_chat_without_stream(room: Room) -> None:
    response = room.post({"messages": user()})

    assert refusal_of(response) == (400, "bad_request", False)


def test_chat_on_a_stopped_intern(open_room: OpenRoom) -> None:
    room = open_room(status="stopped")

    assert refusal_of(room.say()) == (409, "intern_not_ready", True)


def test_a_question_ends_the_stream(room: Room) -> None:
    room.agent.script(question(PERMISSION), END)

    *_, call, finish, last, done = list(events_of(room.say()))

    (told,) = call["choices"][0]["delta"]["tool_calls"]
    assert told["function"]["name"] == "router.provide_input"
    assert json.loads(told["function"]["arguments"])["options"] == PERMISSION["options"]
    assert finish["choices"][0]["finish_reason"] == "tool_calls"
    assert last["choices"] == []
    assert last["session_id"] == room.runs()[0].session.session_id
    assert last["usage"] is None
    assert done == "[DONE]"


def test_a_wrong_option_then_a_right_one(room: Room) -> None:
    room.agent.script(question(PERMISSION), END)
    session = list(events_of(room.say()))[-2]["session_id"]

    assert refusal_of(room.answer(session, "sure")) == (400, "bad_request", False)
    assert room.runs()[0].state == "waiting"
    chunks = list(events_of(room.answer(session, "allow_once")))

    assert finish_of(chunks) == "stop"
    assert chunks[-2]["session_id"] == session
    assert room.agent.answers == [{"id": "call-1", "answer": "allow_once"}]


def test_a_reply_after_the_deadline(room: Room) -> None:
    room.agent.script(question(PERMISSION), END)
    list(events_of(room.say(session_id="s")))
    with room.rows():
        ChatInteraction.objects.filter(run__intern_id=room.intern_id).update(
            deadline_at=datetime.now(UTC)
        )

    response = room.answer("s", "allow_once")

    assert refusal_of(response) == (409, "interaction_not_pending", False)
    assert room.agent.answers == []
