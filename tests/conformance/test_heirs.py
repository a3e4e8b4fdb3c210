"""Subagents that call functions of the caller's: they wait for the results, and go on."""

import json
from typing import Any

import pytest

from tests.conformance.asking import RESPONSES, ok, post
from tests.conformance.desk import Desk
from tests.conformance.test_tools_that_ask_models import MODEL, OTHER, price, used

ASKED = {"role": "user", "content": "Where is order 1?"}
LOOKUP = {
    "type": "function",
    "name": "lookup",
    "parameters": {"type": "object", "properties": {"id": {"type": "string"}}},
}
AGENT = {
    "type": "router:subagent",
    "parameters": {
        "model": OTHER,
        "inherit_functions": True,
        "tools": [{"type": "router:datetime"}],
    },
}


@pytest.fixture
def desk(own_wide_desk: Desk) -> Desk:
    own_wide_desk.model = MODEL
    return own_wide_desk


def said(desk: Desk, *, stream: bool, items: list[Any]) -> dict[str, Any]:
    """The response object at the end."""
    asked: dict[str, Any] = {"input": items, "tools": [LOOKUP, AGENT], "stream": stream}
    if not stream:
        answer: dict[str, Any] = ok(desk, RESPONSES, **asked)
        return answer
    told = post(desk, RESPONSES, **asked).text
    events = [json.loads(line[6:]) for line in told.splitlines() if line.startswith("data: {")]
    (last,) = [each["response"] for each in events if each["type"] == "response.completed"]
    done = [each["item"] for each in events if each["type"] == "response.output_item.done"]
    assert sorted(map(json.dumps, done)) == sorted(map(json.dumps, last["output"]))
    return dict(last)


def makes(*calls: tuple[str, dict[str, Any]], usage: dict[str, int]) -> dict[str, Any]:
    made = [{"name": name, "arguments": arguments} for name, arguments in calls]
    return {"tool_calls": made, "usage": usage}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_an_agent_waits_for_a_function_and_goes_on(desk: Desk, stream: bool) -> None:
    task = ("subagent", {"task": "Find order 1"})
    turns = [used(100, 10), used(30, 3), used(200, 20), used(40, 4), used(300, 30)]
    desk.upstream.script(
        "chat-a",
        makes(task, usage=turns[0]),
        makes(("subagent", {"task": "Go on"}), usage=turns[2]),
        {"text": "It has shipped.", "usage": turns[4]},
    )
    desk.upstream.script(
        "messages-a",
        makes(("datetime", {}), ("lookup", {"id": "1"}), ("lookup", {"id": "2"}), usage=turns[1]),
        {"text": "Shipped.", "usage": turns[3]},
    )

    first = said(desk, stream=stream, items=[ASKED])

    waiting, *called = first["output"]
    assert (waiting["type"], waiting["status"]) == ("router:subagent", "in_progress")
    assert waiting["task"] == "Find order 1"
    assert [each["arguments"] for each in called] == ['{"id":"1"}', '{"id":"2"}']
    assert {each["subagent_id"] for each in called} == {waiting["call_id"]}
    assert [len(each.get("subagent_items", ())) for each in called] == [1, 0]
    assert desk.total_usage_nano() == price(*turns[:2])

    outputs = [
        {"type": "function_call_output", "call_id": each["call_id"], "output": "shipped"}
        for each in called
    ]
    history = [ASKED, *first["output"], *outputs]
    second = said(desk, stream=stream, items=history)

    done, message = second["output"]
    assert (done["status"], done["output"]) == ("completed", "Shipped.")
    assert message["content"][0]["text"] == "It has shipped."
    assert desk.total_usage_nano() == price(*turns)
    went_on = json.dumps(desk.sent("messages-a")[1]["messages"])
    assert went_on.count("shipped") == 2
    assert all(each["call_id"] in went_on for each in called)
    assert "datetime" in went_on
    told = desk.sent("chat-a")[1]
    assert told["tool_choice"] == {"type": "function", "function": {"name": "subagent"}}

    desk.upstream.script("chat-a", {"text": "Good."})
    third = said(desk, stream=stream, items=[*history, *second["output"], ASKED])
    (last,) = third["output"]
    assert last["content"][0]["text"] == "Good."
    assert "lookup" not in json.dumps(desk.sent("chat-a")[-1]["messages"])
