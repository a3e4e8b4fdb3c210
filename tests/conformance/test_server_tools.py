"""Loops of server tools: three caller formats against three wire kinds, whole and streamed."""

import json
from typing import Any

import pytest

from tests.conformance.desk import Desk, exact
from tests.conformance.pairs import HELLO, Pair
from tests.conformance.test_three_by_three import COMPLETION_NANO, PROMPT_NANO
from tests.support.speakers import SPEAKERS, Said, read_stream

pytestmark = pytest.mark.thorough

STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
LOOK = {"name": "datetime", "arguments": {}}
BERN = {"name": "weather", "arguments": {"city": "Bern"}}
WEATHER = {
    "name": "weather",
    "description": "Tells the weather.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}
NO_BASH = {"environment": {"type": "container_reference", "container_id": "c1"}}
DATETIME = {"type": "router:datetime"}


def usage(prompt: int, completion: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": completion}


@pytest.fixture(params=SPEAKERS)
def pair(request: pytest.FixtureRequest, wire_desk: Desk, kind: str) -> Pair:
    return Pair(SPEAKERS[request.param], kind, wire_desk)


def answer_to(
    pair: Pair, history: Any = None, *, stream: bool, own: Any = (), **options: Any
) -> tuple[Said, Any]:
    """What is said, and the whole answer or the values of the stream's events; `own` are functions
    of the caller's beside the clock."""
    functions: dict[str, Any] = {"tools": list(own)} if own else {}
    body = pair.body(history, stream=stream, **functions, **options)
    body["tools"] = [DATETIME, *body.get("tools", [])]
    key = pair.desk.account.api_key
    response = pair.desk.server.post(pair.speaker.path, key=key, json=body)
    assert response.status_code == 200, response.text
    if stream:
        streamed = read_stream(response)
        assert streamed.done, streamed.events[-2:]
        said, raw = pair.speaker.heard_stream(streamed), streamed.values
    else:
        raw = exact(response)
        said = pair.speaker.heard(raw)
    assert said.failure is None
    assert said.cost_nano == pair.desk.charged_nano(response.headers["X-Generation-Id"])
    return said, raw


@STREAMED
def test_a_loop_is_one_answer_with_one_bill(pair: Pair, stream: bool) -> None:
    pair.script(
        {"text": "Let me look. ", "tool_calls": [LOOK], "usage": usage(100, 10)},
        {"tool_calls": [LOOK, LOOK], "usage": usage(200, 20)},
        {"text": "It is late.", "usage": usage(300, 30)},
    )

    said, _ = answer_to(pair, stream=stream)

    assert (said.text, said.finish, said.calls) == ("Let me look. It is late.", "stop", [])
    assert said.usage is not None
    assert said.usage[:2] == (600, 60)
    assert said.cost_nano == 600 * PROMPT_NANO + 60 * COMPLETION_NANO
    assert _activities(pair, said) == ["datetime"] * 3
    assert len(pair.sent()) == 3


@STREAMED
def test_in_a_mixed_turn_only_the_callers_own_calls_are_told(pair: Pair, stream: bool) -> None:
    pair.script({"tool_calls": [BERN, LOOK]})

    said, _ = answer_to(pair, stream=stream, own=[WEATHER])

    assert said.finish == "tool_calls"
    (call,) = said.calls
    assert (call.name, json.loads(call.arguments)) == ("weather", {"city": "Bern"})
    assert len(pair.sent()) == 1
    assert _activities(pair, said) == ["datetime"]
    history = [*pair.speaker.user(HELLO), *said.native, *pair.speaker.results({call.id: "Warm"})]
    pair.script({"text": "Warm, I hear."})
    assert answer_to(pair, history, stream=stream, own=[WEATHER])[0].text == "Warm, I hear."


def _kinds(pair: Pair, said: Said) -> list[str]:
    """What an answer consists of, in order."""
    parts = said.native[0]["content"] if pair.speaker.name == "messages" else said.native
    return [part["type"] for part in parts]


def _activities(pair: Pair, said: Said) -> list[str]:
    """The server tools that the answer tells of, as its format does."""
    native = said.native
    if pair.speaker.name == "chat":
        details = native[0].get("reasoning_details") or []
        told = [item for item in details if item["type"] == "reasoning.server_tool_call"]
        assert all("timezone" in item["result"] for item in told)
        return [item["tool_name"].removeprefix("router:") for item in told]
    if pair.speaker.name == "messages":
        blocks = native[0]["content"]
        return [block["name"] for block in blocks if block["type"] == "server_tool_use"]
    told = [item for item in native if item["type"].startswith("router:")]
    assert all(item["status"] == "completed" and item["timezone"] == "UTC" for item in told)
    return [item["type"].removeprefix("router:") for item in told]


def test_streamed_and_whole_loops_agree(pair: Pair) -> None:
    steps = [
        {"reasoning": "Hm.", "text": "One. ", "tool_calls": [LOOK]},
        {"reasoning": "Hm, hm.", "text": "Two. ", "tool_calls": [LOOK, LOOK]},
        {"reasoning": "Yes.", "text": "Three.", "tool_calls": [BERN, LOOK]},
    ]
    heard = []
    for stream in (False, True):
        pair.script(*steps)
        said, _ = answer_to(pair, stream=stream, own=[WEATHER], effort="low")
        heard.append(said)

    whole, streamed = heard
    assert whole.text == streamed.text == "One. Two. Three."
    assert whole.reasoning == streamed.reasoning
    assert (whole.finish, whole.usage) == (streamed.finish, streamed.usage)
    assert whole.finish == "tool_calls"
    assert [call.name for call in whole.calls] == [call.name for call in streamed.calls]
    assert _activities(pair, whole) == _activities(pair, streamed) == ["datetime"] * 4
    if pair.speaker.name != "chat":
        order, as_streamed = (_kinds(pair, said) for said in heard)
        assert order == as_streamed
        assert order[-1] in ("tool_use", "function_call")


@STREAMED
def test_what_was_answered_may_be_sent_back(pair: Pair, stream: bool) -> None:
    pair.script({"text": "Hm. ", "tool_calls": [LOOK]}, {"text": "Late."}, {"text": "Later."})
    said, _ = answer_to(pair, stream=stream)

    history = [*pair.speaker.user(HELLO), *said.native, *pair.speaker.user("And now?")]
    again, _ = answer_to(pair, history, stream=stream)

    assert again.text == "Later."


@pytest.mark.parametrize(
    ("speaker", "beside"),
    [
        ("messages", {"type": "bash_20250124", "name": "bash"}),
        ("messages", {"type": "web_search_20250305", "name": "web_search"}),
        ("messages", {"type": "router:bash", "parameters": NO_BASH}),
        ("messages", {"type": "router:shell", "parameters": {"engine": "native"}}),
        ("responses", {"type": "web_search"}),
        ("responses", {"type": "local_shell"}),
        ("responses", {"type": "shell"}),
        ("responses", {"type": "apply_patch"}),
        ("responses", {"type": "router:bash", "parameters": NO_BASH}),
        ("responses", {"type": "namespace", "name": "n", "description": "d", "tools": [DATETIME]}),
        ("chat", {"type": "router:bash", "parameters": NO_BASH}),
        ("chat", {"type": "web_search"}),
    ],
)
def test_what_cannot_be_run_is_refused(
    wire_desk: Desk, kind: str, speaker: str, beside: dict[str, Any]
) -> None:
    pair = Pair(SPEAKERS[speaker], kind, wire_desk)
    body = pair.body() | {"tools": [DATETIME, beside]}

    response = wire_desk.server.post(pair.speaker.path, key=wire_desk.account.api_key, json=body)

    assert response.status_code == 400, response.text
    assert pair.speaker.told(exact(response))[2].startswith("server tool not available: ")
    assert wire_desk.upstream.requests() == []


@STREAMED
def test_the_last_turn_has_no_tools_and_what_it_calls_all_the_same_is_dropped(
    pair: Pair, stream: bool
) -> None:
    pair.script({"text": "On. ", "tool_calls": [LOOK]}, repeat=True)
    condition = {"type": "step_count_is", "step_count": 2}

    said, _ = answer_to(pair, stream=stream, stop_server_tools_when=[condition])

    assert (said.text, said.calls, said.finish) == ("On. " * 3, [], "stop")
    assert _activities(pair, said) == ["datetime"] * 2
    *others, last = pair.sent()
    assert len(others) == 2
    assert all(body["tools"] for body in others)
    if pair.kind == "anthropic":
        assert last["tool_choice"] == {"type": "none"}
    else:
        assert not {"tools", "tool_choice"} & last.keys()


@STREAMED
def test_a_later_turn_falls_back_to_another_endpoint_of_the_model(pair: Pair, stream: bool) -> None:
    persona = pair.persona.removesuffix("-a")
    pair.script({"text": "Hm. ", "tool_calls": [LOOK], "usage": usage(100, 10)}, {"fault": "500"})
    pair.desk.upstream.script(f"{persona}-b", {"text": "Late.", "usage": usage(200, 20)})

    said, _ = answer_to(
        pair,
        stream=stream,
        model=f"acme/both-{pair.kind}",
        provider={"order": [f"{persona}-a", f"{persona}-b"]},
    )

    assert (said.text, said.finish) == ("Hm. Late.", "stop")
    assert said.cost_nano == 300 * PROMPT_NANO + 30 * COMPLETION_NANO
    assert len(pair.sent()) == 3
