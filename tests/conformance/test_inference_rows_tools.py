"""Rows 20 to 22: server tools that there are not, one that is run, and when a loop ends."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.conformance.desk import Desk, issue_paths, nano

CALL = {"tool_calls": [{"name": "datetime", "arguments": {}}]}
PARIS = {"type": "router:datetime", "parameters": {"timezone": "Europe/Paris"}}
NOW = {"type": "router:datetime"}


@pytest.mark.parametrize("kind", ["router:apply_patch", "router:nope"])
def test_tools_that_chat_does_not_have(desk: Desk, kind: str) -> None:
    error = desk.refused(400, "invalid_request", tools=[{"type": kind}])

    assert issue_paths(error) == ["tools.0.type"]


def test_a_tool_is_run_once_and_the_model_goes_on(desk: Desk) -> None:
    desk.upstream.script("gamma", CALL, {"text": "It is late."})

    answer = desk.ok(tools=[PARIS])

    (choice,) = answer["choices"]
    assert choice["finish_reason"] == "stop"
    assert choice["message"]["content"] == "It is late."
    assert "tool_calls" not in choice["message"]
    used = answer["usage"]["server_tool_use_details"]
    assert used == {"tool_calls_requested": 1, "tool_calls_executed": 1}
    desk.paid_nano(answer)
    first, second = desk.sent()
    (shown,) = first["tools"]
    assert (shown["type"], shown["function"]["name"]) == ("function", "datetime")
    assert [message["role"] for message in second["messages"]] == ["user", "assistant", "tool"]
    _is_told_the_time(second["messages"][-1], offset_of="Europe/Paris")


def _is_told_the_time(message: dict[str, Any], *, offset_of: str) -> None:
    import json
    from zoneinfo import ZoneInfo

    told = json.loads(message["content"])
    assert told["timezone"] == offset_of
    at = datetime.fromisoformat(told["datetime"])
    assert at.utcoffset() == datetime.now(ZoneInfo(offset_of)).utcoffset()
    assert abs(datetime.now(ZoneInfo(offset_of)) - at) < timedelta(seconds=60)


def test_the_same_as_a_stream(desk: Desk) -> None:
    desk.upstream.script("gamma", CALL, {"text": "It is late."})

    streamed = desk.stream(tools=[PARIS])

    assert streamed.text == "It is late."
    assert [block for block in streamed.blocks if block == "data: [DONE]"] == ["data: [DONE]"]
    finishes = [chunk["choices"][0]["finish_reason"] for chunk in streamed.chunks]
    assert finishes[-2:] == ["stop", None]
    assert set(finishes[:-2]) == {None}
    used = streamed.usage["server_tool_use_details"]
    assert used == {"tool_calls_requested": 1, "tool_calls_executed": 1}
    generation_id = streamed.response.headers["X-Generation-Id"]
    assert desk.charged_nano(generation_id) == nano(streamed.usage["cost"])


def test_no_conditions_are_none_at_all(desk: Desk) -> None:
    error = desk.refused(400, "invalid_request", tools=[NOW], stop_server_tools_when=[])

    assert issue_paths(error) == ["stop_server_tools_when"]


@pytest.mark.parametrize("stream", [False, True])
def test_one_step_then_a_turn_without_tools(desk: Desk, stream: bool) -> None:
    desk.upstream.script("gamma", CALL, repeat=True)
    condition = {"type": "step_count_is", "step_count": 1}
    asked: dict[str, Any] = {"tools": [NOW], "stop_server_tools_when": [condition]}

    usage = desk.stream(**asked).usage if stream else desk.ok(**asked)["usage"]

    used = usage["server_tool_use_details"]
    assert used == {"tool_calls_requested": 1, "tool_calls_executed": 1}
    first, last = desk.sent()
    assert "tools" in first
    assert "tools" not in last
    assert "tool_choice" not in last
