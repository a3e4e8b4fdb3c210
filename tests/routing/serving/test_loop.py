"""The loop by itself: steps, conditions, what is sent back and what is told; and which calls of
tools can be carried out."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.formats.caller import ToolActivity
from routing.formats.chat.answer import merge_pieces
from routing.formats.chat.request import ChatRequest, parse_chat
from routing.metering.cost import NO_COST
from routing.metering.usage import Usage
from routing.serving.answer.relays import Recorder
from routing.serving.request.loop import CALLS_PER_TURN_MAX, STEPS_MAX, Loop, with_tools
from routing.serving.request.tool_call_checks import StreamedCalls, are_well_formed
from routing.tools.interface import Result
from routing.tools.toolbox import Toolbox

FUNCTION = {"type": "function", "function": {"name": "own", "parameters": {"type": "object"}}}
TOOLS: list[dict[str, Any]] = [{"type": "router:datetime"}, FUNCTION]


def request(**fields: Any) -> ChatRequest:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "tools": TOOLS, **fields}
    return parse_chat(body, session_header=None)


def tool_call(id: str, name: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}}


def says(number: int, names: list[str], text: str | None = None) -> dict[str, Any]:
    calls = [tool_call(f"call_{number}_{place}", name) for place, name in enumerate(names)]
    return {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}


@dataclass
class Played:
    """A loop that was played to its end: what was sent each time, what was run."""

    loop: Loop
    sent: list[ChatRequest] = field(default_factory=list)
    ran: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    finish: str = ""


def play(chat: ChatRequest, *turns: dict[str, Any], tokens: int = 10) -> Played:
    """What comes of a model that says these turns, and the last of them for ever."""
    toolbox = Toolbox(chat.body["tools"])
    played = Played(Loop(chat, toolbox))
    loop, asked = played.loop, with_tools(chat, toolbox)
    for number in range(200):
        played.sent.append(asked)
        turn = turns[min(number, len(turns) - 1)]
        calls = [{**c, "id": f"{c['id']}_{number}"} for c in turn.get("tool_calls", ())]
        message = {**turn, **({"tool_calls": calls} if calls else {})}
        finish = "tool_calls" if calls else "stop"
        loop.tally.add_turn(Usage(tokens, 1), NO_COST, is_own=False, is_free=False)
        pending = loop.take(message, finish=finish)
        if pending:
            played.ran += [call.id for call in pending if call.refused is None]
            played.refused += [call.id for call in pending if call.refused is not None]
            loop.add_results([Result(f"result of {call.id}") for call in pending])
        if not pending or not loop.goes_on:
            played.finish = loop.finish(finish)
            return played
        asked = loop.next_request(asked)
    raise AssertionError("it does not end")


CALLS = says(0, ["datetime"])


def test_a_model_that_always_calls_is_stopped_at_thirty_steps() -> None:
    played = play(request(), CALLS)
    assert len(played.ran) == STEPS_MAX == 30
    assert [chat.tools_off for chat in played.sent] == [False] * 30 + [True]
    assert (played.sent[-1].body["tool_choice"], played.finish) == ("none", "stop")


def test_calls_beyond_the_last_step_are_told_that_they_were_not_run() -> None:
    played = play(request(max_tool_calls=2), says(0, ["datetime"] * 5))
    assert (len(played.ran), len(played.refused)) == (2, 3)
    assert (played.loop.requested, played.loop.executed) == (5, 2)
    assert [m["role"] for m in played.sent[1].body["messages"]].count("tool") == 5


@pytest.mark.parametrize(
    ("condition", "turns_made"),
    [
        ({"type": "step_count_is", "step_count": 1}, 2),
        ({"type": "step_count_is", "step_count": 3}, 4),
        ({"type": "has_tool_call", "tool_name": "router:datetime"}, 2),
        ({"type": "has_tool_call", "tool_name": "datetime"}, 2),
        ({"type": "max_tokens_used", "max_tokens": 22}, 3),
        ({"type": "max_tokens_used", "max_tokens": 23}, 4),
        ({"type": "max_cost", "max_cost_in_dollars": 0}, 2),
        ({"type": "finish_reason_is", "reason": "tool_calls"}, 2),
    ],
)
def test_a_condition_lets_what_is_pending_run_and_then_one_turn(condition, turns_made) -> None:
    other = {"type": "has_tool_call", "tool_name": "nobody"}
    played = play(request(stop_server_tools_when=[other, condition]), CALLS)
    assert (len(played.sent), len(played.ran)) == (turns_made, turns_made - 1)
    assert played.sent[-1].tools_off


def test_conditions_take_the_place_of_the_thirty_steps_and_a_turn_has_a_bound_of_its_own() -> None:
    late, soon = ([{"type": "step_count_is", "step_count": steps}] for steps in (45, 1))
    many = says(0, ["datetime"] * 99)
    assert len(play(request(stop_server_tools_when=late, max_tool_calls=3), CALLS).ran) == 45
    assert len(play(request(stop_server_tools_when=soon), many).ran) == CALLS_PER_TURN_MAX


@pytest.mark.parametrize("choice", ["required", {"type": "router:datetime"}])
def test_a_forced_choice_holds_once(choice) -> None:
    played = play(request(tool_choice=choice), CALLS, says(1, [], "Late."))
    named = {"type": "function", "function": {"name": "datetime"}}
    first = "required" if choice == "required" else named
    assert [chat.body["tool_choice"] for chat in played.sent] == [first, "auto"]


@pytest.mark.parametrize("finish", ["length", "content_filter", "error"])
def test_calls_of_an_answer_that_broke_off_are_not_run(finish) -> None:
    loop = Loop(request(), Toolbox(TOOLS))
    assert loop.take(says(0, ["datetime"], "Hm"), finish=finish) == []
    assert (loop.requested, loop.executed, loop.finish(finish)) == (1, 0, finish)


def test_two_calls_with_one_id_are_told_apart() -> None:
    said = {"role": "assistant", "content": None, "tool_calls": [tool_call("c", "datetime")] * 2}
    one, other = Loop(request(), Toolbox(TOOLS)).take(said, finish="tool_calls")
    assert one.id != other.id


NAMES = st.lists(st.sampled_from(["datetime", "datetime", "own"]), max_size=4)
TURNS = st.lists(st.tuples(NAMES, st.none() | st.text(max_size=5)), min_size=1, max_size=40)


@settings(max_examples=200)
@given(TURNS, st.none() | st.integers(1, 30))
def test_any_loop(turns: list[tuple[list[str], str | None]], steps: int | None) -> None:
    """There are never more steps than the cap, and every call is answered once, right behind the
    turn that made it. What the caller reads keeps its order; the size of what is asked is what it
    is."""
    asked = request(**({} if steps is None else {"max_tool_calls": steps}))
    said = [says(number, names, text) for number, (names, text) in enumerate(turns)]

    played = play(asked, *said)

    loop, last = played.loop, played.sent[-1]
    assert loop.executed == len(played.ran) <= (steps or STEPS_MAX)
    assert loop.requested == len(played.ran) + len(played.refused)
    assert loop.turns == len(played.sent)
    _answers_follow_their_calls(last.body["messages"])
    fresh = parse_chat({**last.body}, session_header=None)
    sizes = (
        (each.text_bytes, each.prompt_text_chars, each.message_count) for each in (last, fresh)
    )
    assert len(set(sizes)) == 1
    whole = merge_pieces(loop.pieces, hides_reasoning=False)
    heard = [said[min(n, len(said) - 1)]["content"] or "" for n in range(loop.turns)]
    assert (whole["content"] or "") == "".join(heard)
    told = [d["tool_call_id"] for d in whole.get("reasoning_details", ())]
    assert told == [piece.call_id for piece in loop.pieces if isinstance(piece, ToolActivity)]
    assert sorted(told) == sorted(played.ran + played.refused)
    names = [call["function"]["name"] for call in whole.get("tool_calls", ())]
    assert set(names) <= {"own"}
    assert (played.finish == "tool_calls") == bool(names)


def _answers_follow_their_calls(messages: list[dict[str, Any]]) -> None:
    open_calls: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] == open_calls.pop(0)
            assert message["content"] == f"result of {message['tool_call_id']}"
        else:
            assert open_calls == []
            open_calls = [call["id"] for call in message.get("tool_calls", ())]
    assert open_calls == []


SHORT = st.text(min_size=1, max_size=4)
PIECES = st.lists(
    st.fixed_dictionaries({"content": SHORT}) | st.fixed_dictionaries({"reasoning": SHORT}),
    max_size=6,
)


@given(PIECES, st.lists(st.lists(st.text(max_size=3), max_size=3), max_size=3), st.booleans())
def test_a_recorded_stream_is_the_message_it_tells(pieces, calls, numbered) -> None:
    recorder = Recorder()
    for piece in pieces:
        recorder.add(piece)
    for place, fragments in enumerate(calls):
        index = {"index": place} if numbered else {}
        head = {"type": "function", "function": {"name": "f", "arguments": ""}}
        recorder.add({"tool_calls": [{**index, "id": f"c{place}", **head}]})
        for text in fragments:
            recorder.add({"tool_calls": [{**index, "function": {"arguments": text}}]})

    message = recorder.message

    assert (message.get("content") or "") == "".join(p.get("content", "") for p in pieces)
    made = [(c["id"], c["function"]["arguments"]) for c in message.get("tool_calls", ())]
    assert made == [(f"c{n}", "".join(texts)) for n, texts in enumerate(calls)]


# --- Calls that can be carried out ----------------------------------------------------------------


def call(name: Any = "look", arguments: Any = "{}") -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}


WHOLE: list[tuple[Any, bool | None]] = [
    (None, None),
    ([], None),
    ("text", None),
    *(([call(arguments=good)], True) for good in ("{}", '{"a": [1, 2]}', "")),
    ([call(), call(name="other")], True),
    *(([call(arguments=bad)], False) for bad in ('{"a": ', " ", "nothing", None, "[1]", {"a": 1})),
    *(([call(name=bad)], False) for bad in ("", None)),
    ([call(), call(arguments="{")], False),
    ([{"id": "c1"}], False),
    (["call"], False),
]


@pytest.mark.parametrize(("calls", "good"), WHOLE, ids=str)
def test_of_an_answer_in_one_piece(calls: Any, good: bool | None) -> None:
    assert are_well_formed(calls) is good


def are_calls_good(*deltas: Any) -> bool | None:
    calls = StreamedCalls()
    for delta in deltas:
        calls.add(delta)
    return calls.good


def piece(index: int, name: str | None = None, arguments: str | None = None) -> dict[str, Any]:
    said = {"name": name, "arguments": arguments}
    return {"index": index, "function": {k: v for k, v in said.items() if v is not None}}


def test_of_a_stream_piece_by_piece() -> None:
    assert are_calls_good() is None
    assert are_calls_good(
        [piece(0, "look", "")], [piece(0, arguments='{"a"')], [piece(0, None, ":1}")]
    )
    assert are_calls_good([piece(0, "look", '{"a"')]) is False
    assert are_calls_good([piece(0, "look", "")], [piece(0, None, "")]) is True
    assert are_calls_good([piece(0, "look")]) is False
    assert are_calls_good([piece(0, "look", "")], [piece(0, None, "no object")]) is False
    assert are_calls_good([piece(0, arguments="{}")]) is False
    assert are_calls_good([piece(0, "a", "{}")], [piece(1, "b", "{")]) is False
    two, end = [piece(0, "a", "{"), piece(1, "b", "{")], piece(1, None, "}")
    assert are_calls_good(two, [end]) is False
    assert are_calls_good(two, [end, piece(0, None, "}")])


def test_of_a_stream_that_numbers_no_calls() -> None:
    assert are_calls_good([call()], [call("other", '{"b": 2}')])
    assert are_calls_good([call()], [call("other", "{")]) is False


@pytest.mark.parametrize("odd", [None, "text", {}, [None], ["text"], [{"index": 0}], [5]])
def test_whatever_an_upstream_puts_there(odd: Any) -> None:
    assert are_calls_good(odd) in (None, False)


def test_too_much_to_look_at_is_not_judged() -> None:
    assert are_calls_good(*([piece(0, "look", "x" * 100_000)] for _ in range(12))) is None
    assert are_well_formed([call(arguments="x" * 2_000_000)]) is None
