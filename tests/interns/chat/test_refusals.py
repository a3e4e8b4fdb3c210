"""Every refusal of a chat before its stream, by status, reason and whether to try again."""

import json
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
import requests

from accounts.models import Account, ApiKey, Membership
from accounts.services.keys import create_key
from interns.models import ChatInteraction
from routing.simulator.testing import Wire
from tests.interns.chat.conftest import OpenRoom, chat_settings
from tests.interns.chat.room import Room, events_of, finish_of, refusal_of, user
from tests.support.gateways import seed_account
from tests.support.scripted_agent import END, PERMISSION, Gate, Refusal, question
from tests.support.windows import within_one

STREAMED = {"stream": True, "messages": user()}


def test_sizes_and_media_types(room: Room) -> None:
    large = room.post(STREAMED | {"x": "y" * 1_048_577})
    text = room.server.post(
        room.path, key=room.account.api_key, data=b"{}", headers={"Content-Type": "text/plain"}
    )

    assert refusal_of(large) == (413, "payload_too_large", False)
    assert refusal_of(text) == (415, "unsupported_media_type", False)


def test_who_may_not_talk(room: Room, open_room: OpenRoom) -> None:
    management = room.post(STREAMED, key=room.account.management_key)
    nobody = room.server.post(room.path, json=STREAMED)
    stranger = room.post(STREAMED, key=seed_account(room.server).api_key)

    for response in (management, nobody):
        assert refusal_of(response) == (401, None, None)
        assert response.json()["error"]["message"] == "Invalid or missing API key"
    assert refusal_of(stranger) == (404, "not_found", False)
    assert stranger.json()["error"]["message"] == "Intern not found"


@pytest.mark.parametrize(
    "name", ["none", "", "6b1f4a52-0c1d-4f7e-9a53-2f0e8d7c9b41", "%00", "a" * 300]
)
def test_interns_of_nobody(room: Room, name: str) -> None:
    path = f"/api/v1/interns/{name or 'x'}/chat/completions"

    response = room.server.post(path, key=room.account.api_key, json=STREAMED)

    assert refusal_of(response) == (404, "not_found", False)


def test_an_interns_own_key_may_not_answer_its_own_questions(room: Room) -> None:
    with room.rows():
        account = Account.objects.get(pk=room.account.account_id)
        keys = {}
        for name, intern_id in (("own", room.intern_id), ("others", uuid4())):
            key, keys[name] = create_key(
                account=account, name=name, workspace=account.workspaces.first()
            )
            ApiKey.objects.filter(pk=key.pk).update(intern_id=intern_id)

    assert refusal_of(room.post(STREAMED, key=keys["own"])) == (403, None, None)
    assert refusal_of(room.post(STREAMED, key=keys["others"])) == (404, "not_found", False)


def test_outside_the_programme_there_are_no_interns(room: Room) -> None:
    with room.rows():
        Account.objects.filter(pk=room.account.account_id).update(interns_enabled=False)

    room.server.wait_until(lambda: room.post(STREAMED).status_code == 404)
    assert refusal_of(room.post(None)) == (404, "not_found", False)


def test_a_creator_who_left(room: Room) -> None:
    with room.rows():
        creator = ApiKey.objects.get(hash=room.account.api_key_hash).creator_id
        Membership.objects.filter(user=creator).delete()

    room.server.wait_until(lambda: room.post(STREAMED).status_code == 403)
    assert refusal_of(room.post(STREAMED)) == (403, None, None)


@pytest.mark.parametrize(
    "status", ["awaiting_slack_install", "stopped", "failed", "destroy_failed"]
)
def test_interns_that_do_not_run(open_room: OpenRoom, status: str) -> None:
    room = open_room(status=status)

    response = room.say()

    assert refusal_of(response) == (409, "intern_not_ready", True)
    assert response.json()["error"]["message"] == "This intern is not running."


def test_an_intern_that_is_being_suspended(room: Room) -> None:
    room.set_intern(
        lease_id=uuid4(),
        lease_kind="suspend",
        lease_expires_at=datetime.now(UTC) + timedelta(minutes=1),
        operation_id=uuid4(),
    )

    assert refusal_of(room.say()) == (409, "intern_not_ready", True)


def test_one_turn_at_a_time(room: Room) -> None:
    gate = Gate()
    room.agent.script(gate, END)
    with room.say(session_id="s") as running:
        gate.wait_reached()

        for response in (
            room.say(session_id="other"),
            room.say(),
            room.answer("s", "allow_once"),
        ):
            assert refusal_of(response) == (409, "busy", True)
            assert response.headers["Retry-After"] == "5"
        gate.open()
        assert finish_of(list(events_of(running))) == "stop"


def test_a_waiting_turn_is_one_too(room: Room) -> None:
    room.agent.script(question(PERMISSION), END)
    list(events_of(room.say(session_id="s")))

    assert refusal_of(room.say(session_id="other")) == (409, "busy", True)
    assert refusal_of(room.say()) == (409, "busy", True)


def test_questions_nobody_asked(room: Room) -> None:
    room.agent.script(question(PERMISSION), END)
    list(events_of(room.say(session_id="s")))

    for response in (room.answer("s", "x", call_id="call-2"), room.answer("other", "allow_once")):
        assert refusal_of(response) == (404, "interaction_unknown", False)
        message = response.json()["error"]["message"]
        assert message == "No pending question has this tool_call_id."
    assert finish_of(list(events_of(room.answer("s", "allow_once")))) == "stop"


def test_a_question_is_answered_once(room: Room) -> None:
    room.agent.script(question(PERMISSION), END)
    list(events_of(room.say(session_id="s")))
    list(events_of(room.answer("s", "allow_once")))

    response = room.answer("s", "allow_once")

    assert refusal_of(response) == (409, "interaction_not_pending", False)
    message = response.json()["error"]["message"]
    assert message == "That question is no longer waiting for an answer."


def test_a_question_waits_for_so_long(room: Room) -> None:
    room.agent.script(question(PERMISSION), END)
    list(events_of(room.say(session_id="s")))
    asked = room.questions()[0]
    assert asked.deadline_at - asked.asked_at == timedelta(minutes=5)
    with room.rows():
        ChatInteraction.objects.update(deadline_at=datetime.now(UTC))

    for _ in range(2):
        response = room.answer("s", "allow_once")
        assert refusal_of(response) == (409, "interaction_not_pending", False)
    (run,) = room.runs()
    assert (run.state, run.ended_because) == ("cancelled", "timeout")
    assert room.questions()[0].state == "expired"
    # The runtime is told before the next turn begins.
    assert finish_of(list(events_of(room.say()))) == "stop"
    assert room.agent.cancelled == [str(run.pk)]


def test_a_run_that_was_ended(room: Room) -> None:
    from interns.chat.ending import end_runs
    from tests.support.scripted_agent import PointedDriver

    room.agent.script(question(PERMISSION), END)
    list(events_of(room.say(session_id="s")))
    with room.rows():
        assert end_runs(room.intern_id, driver=PointedDriver()) == 1
        assert end_runs(room.intern_id, driver=PointedDriver()) == 0

    assert refusal_of(room.answer("s", "allow_once")) == (410, "run_ended", False)


# What the runtime does at the head of a turn, and what its caller is told.
HEADS: dict[str, tuple[Any, int, str, bool]] = {
    "busy": (Refusal(409, "busy"), 409, "busy", True),
    "full": (Refusal(503, "whatever"), 503, "busy", True),
    "not taken": (Refusal(400, "bad_request"), 502, "intern_rejected", False),
    "unknown": (Refusal(418, "teapot"), 502, "intern_rejected", False),
    "a fault to try again": (Refusal(500, "x", retryable=True), 502, "turn_failed", True),
    "a fault for good": (Refusal(500, "turn_failed"), 502, "turn_failed", False),
}


@pytest.mark.parametrize("name", HEADS)
def test_what_the_runtime_refuses(room: Room, name: str) -> None:
    refusal, *told = HEADS[name]
    room.agent.script(refusal)

    assert list(refusal_of(room.say())) == told
    assert room.runs()[0].ended_because == told[1]
    assert finish_of(list(events_of(room.say()))) == "stop"


# Likewise for an answer; whether the question is still open then.
ANSWERS: dict[str, tuple[Any, int, str, bool]] = {
    "not pending": (Refusal(409, "interaction_not_pending"), 409, "interaction_not_pending", False),
    "unknown": (Refusal(404, "interaction_unknown"), 404, "interaction_unknown", False),
    "attached": (Refusal(409, "attachment_failed"), 409, "attachment_failed", False),
    "said too much": (Refusal(410, "attachment_failed"), 410, "attachment_failed", False),
    "ended": (Refusal(410, "run_ended"), 410, "run_ended", False),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_what_the_runtime_says_to_an_answer(room: Room, name: str) -> None:
    refusal, *told = ANSWERS[name]
    room.agent.script(question(PERMISSION), refusal, END)
    list(events_of(room.say(session_id="s")))

    assert list(refusal_of(room.answer("s", "allow_once"))) == told
    assert room.runs()[0].state == "cancelled"
    room.wait_open(None)


def test_a_runtime_that_is_not_there(room: Room) -> None:
    room.agent.script(question(PERMISSION), END)
    list(events_of(room.say(session_id="s")))
    away = room.agent.path.with_suffix(".away")
    room.agent.path.rename(away)

    assert refusal_of(room.answer("s", "allow_once")) == (502, "intern_unreachable", True)
    assert refusal_of(room.say(session_id="s")) == (502, "intern_unreachable", True)
    assert room.questions()[0].state == "pending"
    away.rename(room.agent.path)
    assert finish_of(list(events_of(room.answer("s", "allow_once")))) == "stop"
    room.agent.path.rename(away)
    assert refusal_of(room.say()) == (502, "intern_unreachable", True)
    away.rename(room.agent.path)
    room.wait_open(None)


def test_turns_a_minute(start_gateway: Any, places: Any, open_room: OpenRoom) -> None:
    server = start_gateway(**chat_settings(places, RATE_INTERN_TURNS="2"))

    def third() -> requests.Response:
        room = open_room(server)
        second = open_room(server, account=room.account)
        room.agent.script(question(PERMISSION), END)
        list(events_of(room.say(session_id="s")))
        # None of these is a turn of its own.
        assert room.say(session_id="s").status_code == 202
        assert refusal_of(room.say()) == (409, "busy", True)
        assert finish_of(list(events_of(room.answer("s", "allow_once")))) == "stop"
        assert finish_of(list(events_of(second.say()))) == "stop"
        response = room.say()
        assert response.status_code == 429
        return response

    response = within_one(60, third)

    assert refusal_of(response) == (429, "rate_limited", True)
    message = response.json()["error"]["message"]
    assert message == "Too many intern turns. Please wait a moment."
    assert response.headers["Retry-After"] == "60"
    assert response.headers["X-RateLimit-Limit"] == "2"
    assert finish_of(list(events_of(open_room(server).say()))) == "stop"


def test_a_full_gateway(start_gateway: Any, places: Any, open_room: OpenRoom) -> None:
    server = start_gateway(**chat_settings(places, ROUTER_MAX_CONCURRENCY="1"))
    room, other = open_room(server), open_room(server)
    gate = Gate()
    room.agent.script(gate, END)
    with room.say() as running:
        gate.wait_reached()
        response = other.say()
        gate.open()
        list(events_of(running))

    assert refusal_of(response) == (503, "busy", True)
    assert response.headers["Retry-After"] == "5"
    server.wait_until(lambda: other.say().status_code == 200)


def test_a_regional_host(start_gateway: Any, places: Any, open_room: OpenRoom) -> None:
    regions = {"REGIONAL_HOSTS": "eu.example.test=europe"}
    room = open_room(start_gateway(**chat_settings(places, **regions)))

    response = room.post(None, key="nonsense", headers={"Host": "eu.example.test"})

    assert refusal_of(response) == (403, None, None)


def test_a_body_that_does_not_come(start_gateway: Any, places: Any, open_room: OpenRoom) -> None:
    room = open_room(start_gateway(**chat_settings(places, ROUTER_BODY_TIMEOUT="0.2")))
    head = (
        f"POST {room.path} HTTP/1.1\r\nHost: gateway\r\nContent-Length: 9\r\n"
        f"Authorization: Bearer {room.account.api_key}\r\n\r\n"
    )

    with closing(Wire(int(room.server.env["PORT"]))) as wire:
        wire.send(head.encode())
        status, headers = wire.head()
        error = json.loads(wire.body(headers))["error"]

    assert status == error["code"] == 408
    assert error["metadata"] == {"reason": "timeout", "retryable": True}


def test_only_posts(room: Room) -> None:
    response = room.server.get(room.path, key=room.account.api_key)

    assert response.status_code == 405
