"""A model that calls the clock where it is offered one, and says what it was told."""

import json
from typing import Any

CLOCK = {"type": "function", "function": {"name": "datetime", "parameters": {"type": "object"}}}
ASKED: list[dict[str, Any]] = [{"role": "user", "content": "What time is it?"}]


def message(answer: tuple[int, dict[str, str], bytes]) -> Any:
    status, _, body = answer
    assert status == 200
    return json.loads(body)["choices"][0]["message"]


def test_it_calls_the_clock_and_says_what_that_said(chat):
    called = message(chat(model="clock", messages=ASKED, tools=[CLOCK]))
    (call,) = called["tool_calls"]
    assert call["function"]["name"] == "datetime"

    told = {"role": "tool", "tool_call_id": call["id"], "content": "noon"}
    said = message(chat(model="clock", messages=[*ASKED, called, told], tools=[CLOCK]))

    assert said["content"] == "Simulated answer by the clock: noon"


def test_without_a_clock_and_for_other_models_all_is_as_ever(chat):
    plain = "Simulated answer to: What time is it?"
    assert message(chat(model="clock", messages=ASKED))["content"] == plain
    assert message(chat(model="small", messages=ASKED, tools=[CLOCK]))["content"] == plain
