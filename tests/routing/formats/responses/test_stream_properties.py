"""What holds for any answer, however its stream is cut."""

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.routing.formats.responses.answers import ending, read, stream, whole
from tests.routing.formats.responses.reader import Reader

Delta = dict[str, Any]
texts = st.text(min_size=1, max_size=30)
finishes = st.sampled_from(["stop", "length", "tool_calls", "content_filter"])


@st.composite
def pieces(draw: st.DrawFn, text: str) -> list[str]:
    """The text in pieces."""
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
    bounds = [0, *cuts, len(text)]
    return [text[a:b] for a, b in pairwise(bounds) if a < b]


@st.composite
def thoughts(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[Delta]]:
    """Reasoning details of one answer, and the deltas that say them."""
    said: list[dict[str, Any]] = []
    deltas: list[Delta] = []
    for index in range(draw(st.integers(0, 3))):
        given_id = draw(st.sampled_from([None, f"rs_{index}"]))
        common = {"index": index, "id": given_id, "format": "openai-responses-v1"}
        for kind, key in (("reasoning.summary", "summary"), ("reasoning.text", "text")):
            text = draw(st.none() | texts)
            if text is not None:
                said.append({"type": kind, key: text, **common})
                deltas += [
                    {"reasoning_details": [{"type": kind, key: piece, **common}]}
                    for piece in draw(pieces(text))
                ]
        for kind, key in (("reasoning.text", "signature"), ("reasoning.encrypted", "data")):
            if draw(st.booleans()):
                seal = {"type": kind, key: draw(texts), **common}
                said.append(seal)
                deltas.append({"reasoning_details": [seal]})
    return said, deltas


@st.composite
def calls(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[Delta]]:
    """Tool calls side by side: the calls, and their deltas shuffled together."""
    made: list[dict[str, Any]] = [
        {
            "id": f"c{index}",
            "type": "function",
            "function": {"name": draw(texts), "arguments": draw(st.text(max_size=30))},
        }
        for index in range(draw(st.integers(0, 3)))
    ]
    heads: list[Delta] = []
    waiting: list[list[Delta]] = []
    for index, call in enumerate(made):
        opening = {"name": call["function"]["name"], "arguments": ""}
        heads.append({"tool_calls": [{"index": index, **call, "function": opening}]})
        cut = draw(pieces(call["function"]["arguments"]))
        waiting.append([_fragment(index, piece) for piece in cut])
    deltas = heads
    while any(waiting):
        queue = draw(st.sampled_from([one for one in waiting if one]))
        deltas.append(queue.pop(0))
    return made, deltas


def _fragment(index: int, text: str) -> Delta:
    return {"tool_calls": [{"index": index, "function": {"arguments": text}}]}


@st.composite
def answers(draw: st.DrawFn) -> tuple[Delta, list[Delta]]:
    """A chat message and the deltas of its stream, in the order models speak."""
    details, deltas = draw(thoughts())
    content, refusal = draw(st.text(max_size=30)), draw(st.none() | texts)
    deltas += [{"content": piece} for piece in draw(pieces(content))]
    deltas += [{"refusal": piece} for piece in draw(pieces(refusal or ""))]
    made, call_deltas = draw(calls())
    message = {
        "content": content or None,
        "refusal": refusal,
        "reasoning_details": details,
        "tool_calls": made,
    }
    return message, deltas + call_deltas


def streamed(deltas: list[Delta], finish: str) -> Reader:
    writer = stream()
    said = writer.first() + b"".join(map(writer.delta, deltas))
    return Reader().read(read(said + writer.closing(ending(finish)), done=True))


@given(answers(), finishes)
def test_a_stream_says_what_the_whole_answer_says(
    answer: tuple[Delta, list[Delta]], finish: str
) -> None:
    message, deltas = answer
    reader = streamed(deltas, finish)
    expected = whole(message, end=ending(finish))
    assert {**reader.final, "completed_at": 0} == {**expected, "completed_at": 0}
    assert reader.items == expected["output"]


kinds_of_delta = st.sampled_from(["content", "refusal", "reasoning", "call", "details", "image"])


@st.composite
def tangles(draw: st.DrawFn) -> list[Delta]:
    """Deltas of every kind in any order; calls are named before their arguments come."""
    deltas: list[Delta] = []
    named = 0
    for kind in draw(st.lists(kinds_of_delta, max_size=20)):
        text = draw(texts)
        if kind == "image":
            url = {"url": f"data:image/png;base64,{named}"}
            deltas.append({"images": [{"type": "image_url", "image_url": url}]})
        elif kind == "details":
            index = draw(st.integers(0, 2))
            deltas.append({"reasoning_details": [_detail(draw, text, index)]})
        elif kind != "call":
            deltas.append({kind: text})
        elif named and draw(st.booleans()):
            deltas.append(_fragment(draw(st.integers(0, named - 1)), text))
        else:
            function = {"name": f"f{named}", "arguments": text}
            call = {"index": named, "id": f"c{named}", "type": "function", "function": function}
            deltas.append({"tool_calls": [call]})
            named += 1
    return deltas


def _detail(draw: st.DrawFn, text: str, index: int) -> dict[str, Any]:
    kind, key = draw(
        st.sampled_from(
            [
                ("reasoning.text", "text"),
                ("reasoning.text", "signature"),
                ("reasoning.summary", "summary"),
                ("reasoning.encrypted", "data"),
            ]
        )
    )
    return {"type": kind, key: text, "index": index}


def _joined(deltas: list[Delta], name: str) -> str:
    return "".join(delta.get(name, "") for delta in deltas)


def _said(items: list[dict[str, Any]], place: str, kind: str, key: str) -> str:
    parts = (part for item in items for part in item.get(place) or ())
    return "".join(part[key] for part in parts if part["type"] == kind)


@given(tangles(), finishes)
def test_nothing_is_lost_however_the_deltas_are_tangled(deltas: list[Delta], finish: str) -> None:
    reader = streamed(deltas, finish)
    items = reader.items
    details = [one for delta in deltas for one in delta.get("reasoning_details", ())]
    assert items == reader.final["output"]
    assert reader.closed == set(range(len(items)))
    assert _said(items, "content", "output_text", "text") == _joined(deltas, "content")
    assert _said(items, "content", "refusal", "refusal") == _joined(deltas, "refusal")
    summaries = "".join(one.get("summary", "") for one in details)
    assert _said(items, "summary", "summary_text", "text") == summaries
    seals = [one["signature"] for one in details if "signature" in one]
    assert [item["signature"] for item in items if "signature" in item] == seals
    sealed = [one["data"] for one in details if "data" in one]
    assert [item["encrypted_content"] for item in items if "encrypted_content" in item] == sealed
    thoughts_said = "".join(
        delta.get("reasoning", "") + "".join(one.get("text", "") for one in _details(delta))
        for delta in deltas
    )
    assert _said(items, "content", "reasoning_text", "text") == thoughts_said
    arguments: dict[str, str] = {}
    for call in (call for delta in deltas for call in delta.get("tool_calls", ())):
        index = f"c{call['index']}"
        arguments[index] = arguments.get(index, "") + call["function"]["arguments"]
    told = {i["call_id"]: i["arguments"] for i in items if i["type"] == "function_call"}
    assert told == arguments
    pictures = sum("images" in delta for delta in deltas)
    assert [item["type"] for item in items].count("image_generation_call") == pictures
    statuses = [item["status"] for item in items]
    assert set(statuses[:-1]) <= {"completed"}


def _details(delta: Delta) -> list[dict[str, Any]]:
    details: list[dict[str, Any]] = delta.get("reasoning_details", [])
    return details
