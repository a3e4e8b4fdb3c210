"""What holds for any answer, however its stream is cut."""

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.routing.formats.responses.answers import ending, read, stream, write_answer
from tests.routing.formats.responses.reader import Reader

Delta = dict[str, Any]
texts = st.text(min_size=1, max_size=30)
finishes = st.sampled_from(["stop", "length", "tool_calls", "content_filter"])
# Kinds of reasoning, and the field that says it.
WORDS = [("reasoning.summary", "summary"), ("reasoning.text", "text")]
SEALS = [("reasoning.text", "signature"), ("reasoning.encrypted", "data")]


@st.composite
def pieces(draw: st.DrawFn, text: str) -> list[str]:
    """The text in pieces."""
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
    return [text[a:b] for a, b in pairwise([0, *cuts, len(text)]) if a < b]


@st.composite
def thoughts(draw: st.DrawFn) -> tuple[list[Delta], list[Delta]]:
    """Reasoning details of one answer, and the deltas that say them."""
    said: list[Delta] = []
    parts: list[Delta] = []
    for index in range(draw(st.integers(0, 3))):
        given_id = draw(st.sampled_from([None, f"rs_{index}"]))
        common = {"index": index, "id": given_id, "format": "openai-responses-v1"}
        for kind, key in WORDS:
            text = draw(st.none() | texts)
            if text is not None:
                said.append({"type": kind, key: text, **common})
                parts += [{"type": kind, key: piece, **common} for piece in draw(pieces(text))]
        for kind, key in SEALS:
            if draw(st.booleans()):
                seal = {"type": kind, key: draw(texts), **common}
                said.append(seal)
                parts.append(seal)
    return said, [{"reasoning_details": [part]} for part in parts]


def fragment(index: int, text: str) -> Delta:
    return {"tool_calls": [{"index": index, "function": {"arguments": text}}]}


def call_start(index: int, name: str, arguments: str) -> Delta:
    function = {"name": name, "arguments": arguments}
    return {"index": index, "id": f"c{index}", "type": "function", "function": function}


@st.composite
def calls(draw: st.DrawFn) -> tuple[list[Delta], list[Delta]]:
    """Tool calls side by side: the calls, and their deltas shuffled together."""
    made = [
        call_start(index, draw(texts), draw(st.text(max_size=30)))
        for index in range(draw(st.integers(0, 3)))
    ]
    names = [call["function"]["name"] for call in made]
    deltas: list[Delta] = [
        {"tool_calls": [call_start(at, name, "")]} for at, name in enumerate(names)
    ]
    cuts = [draw(pieces(call["function"]["arguments"])) for call in made]
    waiting = [[fragment(at, piece) for piece in cut] for at, cut in enumerate(cuts)]
    while any(waiting):
        deltas.append(draw(st.sampled_from([one for one in waiting if one])).pop(0))
    return [{name: call[name] for name in ("id", "type", "function")} for call in made], deltas


@st.composite
def answers(draw: st.DrawFn) -> tuple[Delta, list[Delta]]:
    """A chat message and the deltas of its stream, in the order models speak."""
    details, deltas = draw(thoughts())
    content, refusal = draw(st.text(max_size=30)), draw(st.none() | texts)
    deltas += [{"content": piece} for piece in draw(pieces(content))]
    deltas += [{"refusal": piece} for piece in draw(pieces(refusal or ""))]
    made, call_deltas = draw(calls())
    message = {"content": content or None, "refusal": refusal}
    return {**message, "reasoning_details": details, "tool_calls": made}, deltas + call_deltas


def read_stream_of(deltas: list[Delta], finish: str) -> Reader:
    writer = stream()
    said = writer.write_opening() + b"".join(map(writer.delta, deltas))
    return Reader().read(read(said + writer.write_ending(ending(finish)), done=True))


@given(answers(), finishes)
def test_a_stream_says_what_the_whole_answer_says(
    answer: tuple[Delta, list[Delta]], finish: str
) -> None:
    message, deltas = answer
    reader = read_stream_of(deltas, finish)
    expected = write_answer(message, end=ending(finish))
    assert {**reader.final, "completed_at": 0} == {**expected, "completed_at": 0}
    assert reader.items == expected["output"]


@st.composite
def tangles(draw: st.DrawFn) -> list[Delta]:
    """Deltas of every kind in any order; calls are named before their arguments come."""
    deltas: list[Delta] = []
    named = 0
    kinds = ["content", "refusal", "reasoning", "call", "details", "image"]
    for kind in draw(st.lists(st.sampled_from(kinds), max_size=20)):
        text = draw(texts)
        if kind == "image":
            url = {"url": f"data:image/png;base64,{named}"}
            deltas.append({"images": [{"type": "image_url", "image_url": url}]})
        elif kind == "details":
            told, key = draw(st.sampled_from([*WORDS, *SEALS]))
            detail = {"type": told, key: text, "index": draw(st.integers(0, 2))}
            deltas.append({"reasoning_details": [detail]})
        elif kind != "call":
            deltas.append({kind: text})
        elif named and draw(st.booleans()):
            deltas.append(fragment(draw(st.integers(0, named - 1)), text))
        else:
            deltas.append({"tool_calls": [call_start(named, f"f{named}", text)]})
            named += 1
    return deltas


def said_in(items: list[Delta], place: str, kind: str, key: str) -> str:
    parts = (part for item in items for part in item.get(place) or ())
    return "".join(part[key] for part in parts if part["type"] == kind)


@given(tangles(), finishes)
def test_nothing_is_lost_however_the_deltas_are_tangled(deltas: list[Delta], finish: str) -> None:
    reader = read_stream_of(deltas, finish)
    items = reader.items
    details = [one for delta in deltas for one in delta.get("reasoning_details", ())]
    assert items == reader.final["output"]
    assert reader.closed == set(range(len(items)))
    for kind, key in (("content", "text"), ("refusal", "refusal")):
        told = {"content": "output_text"}.get(kind, kind)
        joined = "".join(delta.get(kind, "") for delta in deltas)
        assert said_in(items, "content", told, key) == joined
    summaries = "".join(one.get("summary", "") for one in details)
    assert said_in(items, "summary", "summary_text", "text") == summaries
    for key, name in (("signature", "signature"), ("data", "encrypted_content")):
        seals = [one[key] for one in details if key in one]
        assert [item[name] for item in items if name in item] == seals
    thoughts_said = "".join(
        delta.get("reasoning", "")
        + "".join(one.get("text", "") for one in delta.get("reasoning_details", ()))
        for delta in deltas
    )
    assert said_in(items, "content", "reasoning_text", "text") == thoughts_said
    arguments: dict[str, str] = {}
    for call in (call for delta in deltas for call in delta.get("tool_calls", ())):
        index = f"c{call['index']}"
        arguments[index] = arguments.get(index, "") + call["function"]["arguments"]
    told_calls = {i["call_id"]: i["arguments"] for i in items if i["type"] == "function_call"}
    assert told_calls == arguments
    pictures = sum("images" in delta for delta in deltas)
    assert [item["type"] for item in items].count("image_generation_call") == pictures
    assert {item["status"] for item in items[:-1]} <= {"completed"}
