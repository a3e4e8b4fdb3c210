"""Bodies of chats: what is refused and where it says so, and what is fine."""

from typing import Any

import pytest

from tests.interns.chat.room import Room, answering, events_of, finish_of, refusal_of, user

STREAMED = {"stream": True, "messages": user()}
TOOL = answering("call-1", "allow_once")
MANY = "x" * 32_001

# What is wrong with the body, and the path that is told.
BODIES: dict[str, tuple[Any, str]] = {
    "no body": (None, "stream"),
    "no stream": ({"messages": user()}, "stream"),
    "stream false": (STREAMED | {"stream": False}, "stream"),
    "stream a word": (STREAMED | {"stream": "true"}, "stream"),
    "no messages": ({"stream": True}, "messages"),
    "messages empty": (STREAMED | {"messages": []}, "messages"),
    "messages an object": (STREAMED | {"messages": {}}, "messages"),
    "a role of none": (STREAMED | {"messages": [{"role": "bot"}]}, "messages.0.role"),
    "no content": (STREAMED | {"messages": [{"role": "user"}]}, "messages.0.content"),
    "a picture": (
        STREAMED | {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        "messages.0.content.0.type",
    ),
    "nothing said": (STREAMED | {"messages": user("")}, "messages.0.content"),
    "too much said": (STREAMED | {"messages": user(MANY)}, "messages.0.content"),
    "last an answer": (
        STREAMED | {"messages": [{"role": "assistant", "content": None}]},
        "messages.0.role",
    ),
    "last instructions": (
        STREAMED | {"messages": [{"role": "system", "content": "x"}]},
        "messages.0.role",
    ),
    "session empty": (STREAMED | {"session_id": ""}, "session_id"),
    "session long": (STREAMED | {"session_id": "s" * 257}, "session_id"),
    "session a number": (STREAMED | {"session_id": 7}, "session_id"),
    "approval of none": (STREAMED | {"approval_mode": "ask"}, "approval_mode"),
    "model empty": (STREAMED | {"model": ""}, "model"),
    "model long": (STREAMED | {"model": "m" * 257}, "model"),
    "answer without session": ({"stream": True, "messages": TOOL}, "session_id"),
    "answer without call": (
        {"stream": True, "session_id": "s", "messages": [{"role": "tool", "content": "x"}]},
        "messages.0.tool_call_id",
    ),
    "answer with empty call": (
        {"stream": True, "session_id": "s", "messages": answering("", "x")},
        "messages.2.tool_call_id",
    ),
    "answer with long call": (
        {"stream": True, "session_id": "s", "messages": answering("c" * 129, "x")},
        "messages.2.tool_call_id",
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_wrong_body(room: Room, name: str) -> None:
    body, path = BODIES[name]

    response = room.post(body)

    assert refusal_of(response) == (400, "bad_request", False)
    error = response.json()["error"]
    assert error["message"].startswith("Invalid chat request (")
    assert path in [issue["path"] for issue in error["metadata"]["issues"]]
    assert room.runs() == []


def test_bodies_at_their_bounds_are_fine(room: Room) -> None:
    body = {
        "stream": True,
        "model": "m" * 256,
        "session_id": "s" * 256,
        "temperature": "ignored",
        "messages": [
            {"role": "developer", "content": [{"type": "text", "text": "a"}]},
            {"role": "assistant", "content": None},
            {"role": "user", "content": [{"type": "text", "text": "x" * 32_000}]},
        ],
    }

    assert finish_of(list(events_of(room.post(body)))) == "stop"
    assert len(room.agent.told[0]["text"]) == 32_000


def test_the_header_names_the_session_where_the_body_does_not(room: Room) -> None:
    header = {"x-session-id": "from-header"}
    first = room.post(STREAMED, headers=header)
    both = room.post(STREAMED | {"session_id": "from-body"}, headers=header)
    long = room.post(STREAMED, headers={"x-session-id": "s" * 257})

    assert list(events_of(first))[-2]["session_id"] == "from-header"
    assert list(events_of(both))[-2]["session_id"] == "from-body"
    assert refusal_of(long) == (400, "bad_request", False)


@pytest.mark.parametrize("raw", [b"{bad", b"[]", b'"x"', b"\xff"])
def test_what_is_no_object(room: Room, raw: bytes) -> None:
    response = room.server.post(
        room.path,
        key=room.account.api_key,
        data=raw,
        headers={"Content-Type": "application/json"},
    )

    assert refusal_of(response) == (400, "bad_request", False)
