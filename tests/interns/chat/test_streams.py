"""Turns over real HTTP: the order of chunks, pauses and answers, steering, ends."""

import json
from typing import Any

import pytest

from tests.interns.chat.room import Room, events_of, finish_of, refusal_of, text_of
from tests.support.scripted_agent import (
    ELICITATION,
    END,
    MODEL,
    PERMISSION,
    SEVER,
    USAGE,
    Gate,
    content,
    question,
)


def test_a_turn_from_the_first_chunk_to_the_last(room: Room) -> None:
    reasoning = {"type": "reasoning", "text": "Hm."}
    room.agent.script(
        MODEL, reasoning, content("Hel"), {"type": "tool", "name": "x"}, content("lo"), END
    )

    response = room.say("Hello?")
    chunks = list(events_of(response))

    assert response.status_code == 200
    assert response.headers["Content-Type"].startswith("text/event-stream")
    opening, *middle, finish, last, done = chunks
    head = {"id": opening["id"], "object": "chat.completion.chunk", "created": opening["created"]}
    delta = {"role": "assistant", "content": ""}
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    assert opening == head | {"model": "router/intern", "choices": [choice]}
    assert [chunk["choices"][0]["delta"] for chunk in middle] == [
        {"reasoning": "Hm."},
        {"content": "Hel"},
        {"content": "lo"},
    ]
    assert finish["choices"] == [{"index": 0, "delta": {}, "finish_reason": "stop"}]
    assert {chunk["id"] for chunk in chunks[:-1]} == {opening["id"]}
    assert {chunk["model"] for chunk in (*middle, finish, last)} == {"acme/small"}
    session = room.runs()[0].session.session_id
    assert last == head | {
        "model": "acme/small",
        "choices": [],
        "session_id": session,
        "usage": USAGE,
    }
    assert done == "[DONE]"
    (run,) = room.runs()
    assert (run.state, run.ended_because, run.usage) == ("completed", "", USAGE)
    (told,) = room.agent.told
    assert told["text"] == "Hello?"
    assert told["session_id"] == session
    assert told["approval_mode"] == "self-drive"


def test_a_session_goes_on_under_its_id(room: Room) -> None:
    ids = []
    for _ in range(2):
        chunks = list(events_of(room.say(session_id="mine ☂")))
        ids.append(chunks[-2]["session_id"])

    assert ids == ["mine ☂", "mine ☂"]
    assert [told["session_id"] for told in room.agent.told] == ["mine ☂", "mine ☂"]


def test_a_pause_and_its_answer_are_one_run(room: Room) -> None:
    room.agent.script(MODEL, content("May I?"), question(PERMISSION), content("Done."), END)

    asked = list(events_of(room.say(session_id="s", approval_mode="manual")))

    *_, call, finish, last, done = asked
    (tool_call,) = call["choices"][0]["delta"]["tool_calls"]
    assert json.loads(tool_call["function"].pop("arguments")) == PERMISSION
    assert tool_call == {
        "index": 0,
        "id": "call-1",
        "type": "function",
        "function": {"name": "router.provide_input"},
    }
    assert finish["choices"] == [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]
    assert (last["choices"], last["session_id"], last["usage"]) == ([], "s", None)
    assert done == "[DONE]"
    assert room.runs()[0].state == "waiting"
    assert room.agent.told[0]["approval_mode"] == "manual"

    answered = list(events_of(room.answer("s", "allow_once")))

    assert text_of(answered) == "Done."
    assert finish_of(answered) == "stop"
    assert answered[-2]["session_id"] == "s"
    assert answered[-2]["usage"] == USAGE
    assert answered[0]["id"] == asked[0]["id"]
    (run,) = room.runs()
    assert run.state == "completed"
    assert room.agent.answers == [{"id": "call-1", "answer": "allow_once"}]
    assert room.questions()[0].answered_with == "allow_once"


def test_an_answer_that_does_not_fit_leaves_the_question_open(room: Room) -> None:
    room.agent.script(question(ELICITATION), END)
    list(events_of(room.say(session_id="s")))
    before = room.questions()[0].deadline_at

    for wrong in ("red", '{"action": "accept", "content": {"colour": "green"}}', "{}"):
        assert refusal_of(room.answer("s", wrong)) == (400, "bad_request", False)
    assert room.questions()[0].deadline_at == before
    right = json.dumps({"action": "accept", "content": {"colour": "red", "count": 2}})
    chunks = list(events_of(room.answer("s", right)))

    assert finish_of(chunks) == "stop"
    assert room.agent.answers == [{"id": "call-1", "answer": right}]
    # What was filled in is kept nowhere.
    assert room.questions()[0].answered_with == "given"


def test_a_runtime_that_is_not_convinced_keeps_its_question(room: Room) -> None:
    from tests.support.scripted_agent import Refusal

    room.agent.script(question(PERMISSION), Refusal(400, "bad_request"), END)
    list(events_of(room.say(session_id="s")))

    assert refusal_of(room.answer("s", "allow_once")) == (400, "bad_request", False)
    assert room.questions()[0].state == "pending"
    assert finish_of(list(events_of(room.answer("s", "reject_once")))) == "stop"


def test_more_text_goes_into_the_running_turn(room: Room) -> None:
    gate = Gate()
    room.agent.script(content("a"), gate, END)
    with room.say(session_id="s") as response:
        gate.wait_reached()

        steered = room.say("and this", session_id="s")

        assert steered.status_code == 202
        assert steered.json() == {"session_id": "s", "status": "steered"}
        gate.open()
        assert finish_of(list(events_of(response))) == "stop"
    assert [text for _, text in room.agent.steered] == ["and this"]
    assert len(room.runs()) == 1


def test_text_into_a_waiting_turn_is_steering_too(room: Room) -> None:
    room.agent.script(question(PERMISSION), END)
    list(events_of(room.say(session_id="s")))

    assert room.say("hurry", session_id="s").status_code == 202
    assert room.runs()[0].state == "waiting"


def test_text_for_a_run_the_runtime_lost_begins_a_new_one(room: Room) -> None:
    room.agent.script(question(PERMISSION), END)
    list(events_of(room.say(session_id="s")))
    for run in room.agent.runs:
        run.over.set()

    chunks = list(events_of(room.say("again", session_id="s")))

    assert text_of(chunks) == "Hello"
    assert [run.state for run in room.runs()] == ["cancelled", "completed"]
    assert refusal_of(room.answer("s", "allow_once")) == (410, "run_ended", False)


def test_silence_is_filled(room: Room) -> None:
    gate = Gate()
    room.agent.script(gate, END)
    with room.say() as response:
        chunks = events_of(response)
        next(chunks)
        assert next(chunks) == ": keepalive"
        assert next(chunks) == ": keepalive"
        gate.open()
        assert finish_of([each for each in chunks if each != ": keepalive"]) == "stop"


def test_a_failed_turn_is_told_in_the_stream(room: Room) -> None:
    failed = {"type": "failed", "reason": "turn_failed", "message": "No model.", "retryable": True}
    room.agent.script(content("a"), failed | {"usage": USAGE})

    chunks = list(events_of(room.say(session_id="s")))

    *_, finish, last, done = chunks
    assert finish["choices"] == [{"index": 0, "delta": {}, "finish_reason": "error"}]
    metadata = {"reason": "turn_failed", "retryable": True}
    assert finish["error"] == {"code": 502, "message": "No model.", "metadata": metadata}
    assert finish["model"] == "router/intern"
    assert (last["session_id"], last["usage"], done) == ("s", USAGE, "[DONE]")
    assert room.runs()[0].ended_because == "turn_failed"


def test_a_severed_stream_says_so(room: Room) -> None:
    room.agent.script(content("a"), SEVER)

    *_, finish, last, done = list(events_of(room.say()))

    metadata = {"reason": "stream_severed", "retryable": True}
    assert finish["error"]["code"] == 502
    assert finish["error"]["metadata"] == metadata
    assert (last["usage"], done) == (None, "[DONE]")
    assert room.runs()[0].ended_because == "stream_severed"


@pytest.mark.parametrize(
    "event",
    [
        {"type": "question", "id": "", "question": PERMISSION},
        {"type": "question", "id": "c", "question": {"kind": "permission", "options": []}},
        {"type": "end", "usage": {"prompt_tokens": -1}},
        {"type": "content"},
        {"type": 7},
    ],
)
def test_what_is_no_event_fails_the_turn(room: Room, event: dict[str, Any]) -> None:
    room.agent.script(event, END)

    chunks = list(events_of(room.say()))

    assert finish_of(chunks) == "error"
    assert chunks[-3]["error"]["metadata"]["reason"] == "turn_failed"
    assert chunks[-1] == "[DONE]"
    room.wait_open(None)
