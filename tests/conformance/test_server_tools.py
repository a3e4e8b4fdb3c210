"""Loops of server tools: three caller formats against three wire kinds, whole and streamed."""

import json
from typing import Any

import pytest

from tests.conformance.pairs import HELLO, Pair
from tests.conformance.test_three_by_three import CITY as WEATHER
from tests.conformance.test_three_by_three import COMPLETION_NANO, PROMPT_NANO, STREAMED
from tests.support.speakers import Said

pytestmark = [pytest.mark.thorough, pytest.mark.grid]

LOOK = {"name": "datetime", "arguments": {}}
BERN = {"name": "weather", "arguments": {"city": "Bern"}}
CLOCK: dict[str, Any] = {"server_tools": [{"type": "router:datetime"}]}


def usage(prompt: int, completion: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": completion}


def clocks_told(pair: Pair, said: Said) -> int:
    """How many looks at the clock the answer tells of, as its format does."""
    native = said.native
    if pair.speaker.name == "chat":
        details = native[0].get("reasoning_details") or []
        told = [item for item in details if item["type"] == "reasoning.server_tool_call"]
        assert all("timezone" in item["result"] for item in told)
        return [item["tool_name"] for item in told].count("router:datetime")
    if pair.speaker.name == "messages":
        blocks = native[0]["content"]
        used = [block["name"] for block in blocks if block["type"] == "server_tool_use"]
        return used.count("datetime")
    told = [item for item in native if item["type"] == "router:datetime"]
    assert all(item["status"] == "completed" and item["timezone"] == "UTC" for item in told)
    return len(told)


@STREAMED
def test_a_loop_is_one_answer_with_one_bill(pair: Pair, stream: bool) -> None:
    pair.script(
        {"text": "Let me look. ", "tool_calls": [LOOK], "usage": usage(100, 10)},
        {"tool_calls": [LOOK, LOOK], "usage": usage(200, 20)},
        {"text": "It is late.", "usage": usage(300, 30)},
        {"text": "Later."},
    )

    said = pair.ask(stream=stream, **CLOCK)

    assert (said.text, said.finish, said.calls) == ("Let me look. It is late.", "stop", [])
    assert said.usage is not None
    assert said.usage[:2] == (600, 60)
    assert said.cost_nano == 600 * PROMPT_NANO + 60 * COMPLETION_NANO
    assert clocks_told(pair, said) == 3
    assert len(pair.sent()) == 3
    # What was answered may be sent back.
    history = [*pair.speaker.user(HELLO), *said.native, *pair.speaker.user("And now?")]
    assert pair.ask(history, stream=stream, **CLOCK).text == "Later."


@STREAMED
def test_in_a_mixed_turn_only_the_callers_own_calls_are_told(pair: Pair, stream: bool) -> None:
    pair.script({"tool_calls": [BERN, LOOK]})

    said = pair.ask(stream=stream, tools=[WEATHER], **CLOCK)

    assert said.finish == "tool_calls"
    (call,) = said.calls
    assert (call.name, json.loads(call.arguments)) == ("weather", {"city": "Bern"})
    assert len(pair.sent()) == 1
    assert clocks_told(pair, said) == 1
    history = [*pair.speaker.user(HELLO), *said.native, *pair.speaker.results({call.id: "Warm"})]
    pair.script({"text": "Warm, I hear."})
    assert pair.ask(history, stream=stream, tools=[WEATHER], **CLOCK).text == "Warm, I hear."


@STREAMED
def test_a_later_turn_falls_back_to_another_endpoint_of_the_model(pair: Pair, stream: bool) -> None:
    persona = pair.persona.removesuffix("-a")
    pair.script({"text": "Hm. ", "tool_calls": [LOOK], "usage": usage(100, 10)}, {"fault": "500"})
    pair.desk.upstream.script(f"{persona}-b", {"text": "Late.", "usage": usage(200, 20)})
    order = {"order": [f"{persona}-a", f"{persona}-b"]}

    said = pair.ask(stream=stream, model=f"acme/both-{pair.kind}", provider=order, **CLOCK)

    assert (said.text, said.finish) == ("Hm. Late.", "stop")
    assert said.cost_nano == 300 * PROMPT_NANO + 30 * COMPLETION_NANO
    assert len(pair.sent()) == 3
