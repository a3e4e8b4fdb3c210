"""Turns over real HTTP: the order of chunks, pauses and answers, steering, ends."""

import json

import pytest

from tests.interns.chat.room import Room, ending_of, events_of, finish_of, refusal_of, text_of
from tests.interns.chat.scripted_agent import (
    ELICITATION,
    END,
    MODEL,
    PERMISSION,
    SEVER,
    USAGE,
    Refusal,
    content,
    question,
)


def choices_of(*, finish: str | None = None, **delta: str) -> list[object]:
    return [{"index": 0, "delta": delta, "finish_reason": finish}]


def test_a_turn_from_the_first_chunk_to_the_last(room: Room) -> None:
    reasoning = {"type": "reasoning", "text": "Hm."}
    tool = {"type": "tool", "name": "x"}
    room.agent.script(MODEL, reasoning, content("Hel"), tool, content("lo"), END)

    response = room.say("Hello?")
    opening, *middle, finish, last, done = list(events_of(response))

    assert response.status_code == 200
    assert response.headers["Content-Type"].startswith("text/event-stream")
    head = {"id": opening["id"], "object": "chat.completion.chunk", "created": opening["created"]}
    choices = choices_of(role="assistant", content="")
    assert opening == head | {"model": "router/intern", "choices": choices}
    head |= {"model": "acme/small"}
    said = [{"reasoning": "Hm."}, {"content": "Hel"}, {"content": "lo"}]
    assert middle == [head | {"choices": choices_of(**delta)} for delta in said]
    assert finish == head | {"choices": choices_of(finish="stop")}
    (run,) = room.runs()
    session = run.session.session_id
    assert last == head | {"choices": [], "session_id": session, "usage": USAGE}
    assert done == "[DONE]"
    assert (run.state, run.ended_because, run.usage) == ("completed", "", USAGE)
    (told,) = room.agent.bodies
    assert told["text"] == "Hello?"
    assert (told["session_id"], told["approval_mode"]) == (session, "self-drive")


def test_a_session_goes_on_under_its_id(room: Room) -> None:
    ids = [list(events_of(room.say(session_id="mine ☂")))[-2]["session_id"] for _ in range(2)]
    assert ids == [told["session_id"] for told in room.agent.bodies] == ["mine ☂"] * 2


@pytest.mark.both
def test_a_pause_and_its_answer_are_one_run(room: Room) -> None:
    room.agent.script(MODEL, content("May I?"), question(PERMISSION), content("Done."), END)

    asked = list(events_of(room.say(session_id="s", approval_mode="manual")))

    *_, call, finish, last, done = asked
    (tool_call,) = call["choices"][0]["delta"]["tool_calls"]
    assert json.loads(tool_call["function"].pop("arguments")) == PERMISSION
    function = {"name": "router.provide_input"}
    assert tool_call == {"index": 0, "id": "call-1", "type": "function", "function": function}
    assert finish["choices"] == choices_of(finish="tool_calls")
    assert (last["choices"], last["session_id"], last["usage"]) == ([], "s", None)
    assert done == "[DONE]"
    assert room.runs()[0].state == "waiting"
    key = room.account.management_key
    events = room.server.get("/api/v1/notifications/events", key=key).json()["data"]
    assert "intern.waiting" in {event["kind"] for event in events}
    assert room.agent.bodies[0]["approval_mode"] == "manual"

    assert refusal_of(room.answer("s", "sure")) == (400, "bad_request", False)
    assert room.runs()[0].state == "waiting"
    answered = list(events_of(room.answer("s", "allow_once")))

    assert (text_of(answered), finish_of(answered)) == ("Done.", "stop")
    assert (answered[-2]["session_id"], answered[-2]["usage"]) == ("s", USAGE)
    assert answered[0]["id"] == asked[0]["id"]
    (run,) = room.runs()
    assert run.state == "completed"
    assert room.agent.answers == [{"id": "call-1", "answer": "allow_once"}]
    assert room.questions()[0].answered_with == "allow_once"


@pytest.mark.both
def test_a_wrong_answer_then_a_right_one(room: Room) -> None:
    room.pause(asked=ELICITATION)
    before = room.questions()[0].deadline_at
    for wrong in ("red", '{"action": "accept", "content": {"colour": "green"}}', "{}"):
        assert refusal_of(room.answer("s", wrong)) == (400, "bad_request", False)
    assert room.runs()[0].state == "waiting"
    assert room.questions()[0].deadline_at == before
    right = json.dumps({"action": "accept", "content": {"colour": "red", "count": 2}})
    assert ending_of(room.answer("s", right)) == "stop"
    assert room.agent.answers == [{"id": "call-1", "answer": right}]
    # What was filled in is kept nowhere.
    assert room.questions()[0].answered_with == "given"


def test_a_runtime_that_is_not_convinced_keeps_its_question(room: Room) -> None:
    room.pause(Refusal(400, "bad_request"))
    assert refusal_of(room.answer("s", "allow_once")) == (400, "bad_request", False)
    assert room.questions()[0].state == "pending"
    assert ending_of(room.answer("s", "reject_once")) == "stop"


def test_more_text_goes_into_the_running_turn(room: Room) -> None:
    running, gate = room.hold(content("a"), session_id="s")
    with running:
        steered = room.say("and this", session_id="s")
        assert steered.status_code == 202
        assert steered.json() == {"session_id": "s", "status": "steered"}
        gate.open()
        assert ending_of(running) == "stop"
    assert [text for _, text in room.agent.steered] == ["and this"]
    assert len(room.runs()) == 1


def test_text_for_a_run_the_runtime_lost_begins_a_new_one(room: Room) -> None:
    room.pause()
    # While it waits, text goes into it as well.
    assert room.say("hurry", session_id="s").status_code == 202
    assert room.runs()[0].state == "waiting"
    for run in room.agent.runs:
        run.over.set()
    assert text_of(list(events_of(room.say("again", session_id="s")))) == "Hello"
    assert [run.state for run in room.runs()] == ["cancelled", "completed"]
    assert refusal_of(room.answer("s", "allow_once")) == (410, "run_ended", False)


def test_a_failed_turn_is_told_in_the_stream(room: Room) -> None:
    failed = {"type": "failed", "reason": "turn_failed", "message": "No model.", "retryable": True}
    room.agent.script(content("a"), failed | {"usage": USAGE})
    *_, finish, last, done = list(events_of(room.say(session_id="s")))
    assert finish["choices"] == choices_of(finish="error")
    metadata = {"reason": "turn_failed", "retryable": True}
    assert finish["error"] == {"code": 502, "message": "No model.", "metadata": metadata}
    assert finish["model"] == "router/intern"
    assert (last["session_id"], last["usage"], done) == ("s", USAGE, "[DONE]")
    assert room.runs()[0].ended_because == "turn_failed"


def test_a_severed_stream_says_so(room: Room) -> None:
    room.agent.script(content("a"), SEVER)
    *_, finish, last, done = list(events_of(room.say()))
    metadata = {"reason": "stream_severed", "retryable": True}
    assert (finish["error"]["code"], finish["error"]["metadata"]) == (502, metadata)
    assert (last["usage"], done) == (None, "[DONE]")
    assert room.runs()[0].ended_because == "stream_severed"


def test_what_is_no_event_fails_the_turn(room: Room) -> None:
    for event in (
        {"type": "question", "id": "", "question": PERMISSION},
        {"type": "question", "id": "c", "question": {"kind": "permission", "options": []}},
        {"type": "end", "usage": {"prompt_tokens": -1}},
        {"type": "content"},
        {"type": 7},
    ):
        room.agent.script(event, END)
        *_, finish, _, done = list(events_of(room.say()))
        assert finish["choices"] == choices_of(finish="error"), event
        assert finish["error"]["metadata"]["reason"] == "turn_failed", event
        assert done == "[DONE]"
        room.wait_open(None)
