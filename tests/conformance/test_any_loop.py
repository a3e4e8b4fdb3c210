"""Any loop of server tools with a scripted upstream, over HTTP, whole and streamed."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conformance.desk import Desk, nano

pytestmark = pytest.mark.both
PROMPT_NANO, COMPLETION_NANO = 1_000, 2_000
OWN = {"type": "function", "function": {"name": "own", "parameters": {"type": "object"}}}
TOOLS = [{"type": "router:datetime"}, OWN, {"type": "router:experimental__search_models"}]
SERVER = ("datetime", "search_models")

names = st.sampled_from([*SERVER, *SERVER, *SERVER, "own"])
turns = st.lists(
    st.fixed_dictionaries(
        {
            "calls": st.lists(names, max_size=3),
            "text": st.sampled_from(["", "Well. ", "Hm, so. "]),
            "prompt": st.integers(1, 1000),
            "completion": st.integers(1, 100),
        }
    ),
    min_size=1,
    max_size=6,
)


def step(turn: dict[str, Any]) -> dict[str, Any]:
    made = {
        "text": turn["text"],
        "usage": {"prompt_tokens": turn["prompt"], "completion_tokens": turn["completion"]},
    }
    if turn["calls"]:
        made["tool_calls"] = [{"name": name, "arguments": {"query": "a"}} for name in turn["calls"]]
    return made


def expected(given_turns: list[dict[str, Any]], cap: int) -> tuple[list[dict[str, Any]], int]:
    """The turns that are made, by the rules as they are written, and the steps that are run."""
    made, asked, ran = [], 0, 0
    for turn in given_turns:
        made.append(turn)
        calls = [name for name in turn["calls"] if name in SERVER]
        if asked >= cap or not calls:
            break
        ran += min(len(calls), cap - ran)
        asked += len(calls)
        if "own" in turn["calls"]:
            break
    return made, ran


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(given_turns=turns, cap=st.integers(1, 6))
def test_any_loop(desk: Desk, given_turns: list[dict[str, Any]], cap: int) -> None:
    last = {"calls": [], "text": "The end.", "prompt": 1, "completion": 1}
    script = [*given_turns, last]
    made, ran = expected(script, cap)
    heard = []
    for stream in (False, True):
        desk.upstream.clear()
        desk.upstream.script("gamma", *(step(turn) for turn in script))
        if stream:
            streamed = desk.stream(tools=TOOLS, max_tool_calls=cap)
            text, usage = streamed.text, streamed.usage
            finish = streamed.chunks[-2]["choices"][0]["finish_reason"]
            assert desk.charged_nano(streamed.response.headers["X-Generation-Id"]) == nano(
                usage["cost"]
            )
        else:
            answer = desk.ok(tools=TOOLS, max_tool_calls=cap)
            text = answer["choices"][0]["message"]["content"] or ""
            usage, finish = answer["usage"], answer["choices"][0]["finish_reason"]
            desk.paid_nano(answer)
        heard.append((text, finish, usage))
        _check_what_was_sent(desk.sent(), made)

    whole, streamed_too = heard
    assert whole == streamed_too
    text, finish, usage = whole
    assert text == "".join(turn["text"] for turn in made)
    assert usage["prompt_tokens"] == sum(turn["prompt"] for turn in made)
    assert usage["completion_tokens"] == sum(turn["completion"] for turn in made)
    assert nano(usage["cost"]) == (
        usage["prompt_tokens"] * PROMPT_NANO + usage["completion_tokens"] * COMPLETION_NANO
    )
    assert usage["server_tool_use_details"]["tool_calls_executed"] == ran <= cap


def _check_what_was_sent(sent: list[dict[str, Any]], made: list[dict[str, Any]]) -> None:
    """Each turn's calls and their results, once and in order, and nothing after the last."""
    assert len(sent) == len(made)
    for number, body in enumerate(sent):
        said = body["messages"][1:]
        wanted: list[tuple[str, list[str]]] = []
        for turn in made[:number]:
            calls = [name for name in turn["calls"] if name in SERVER]
            wanted += [("assistant", calls), *(("tool", []) for _ in calls)]
        told = [
            (m["role"], [call["function"]["name"] for call in m.get("tool_calls", ())])
            for m in said
        ]
        assert told == wanted
        ids = [call["id"] for m in said for call in m.get("tool_calls", ())]
        assert ids == [m["tool_call_id"] for m in said if m["role"] == "tool"]
