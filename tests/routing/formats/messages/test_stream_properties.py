"""What holds for any answer, however its stream is cut, and once it comes back as a prompt."""

from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.formats.caller import CompleteAnswer
from routing.formats.chat.request import parse_chat
from routing.formats.messages.thinking import SEAL_PREFIX, seal, unseal
from routing.formats.messages.write import build_answer, build_message_blocks
from tests.routing.formats.messages.bodies import TEXT, USER, chat_of, message_by, parse_fields
from tests.routing.formats.messages.stream_reader import Read, events_of
from tests.routing.formats.messages.streams import (
    SERVED,
    call,
    ending,
    native,
    stream,
    write_stream,
)

Delta = dict[str, Any]
# The gateway takes no NUL from a caller, so none can come back.
letters = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
texts = st.text(letters, min_size=1, max_size=8)
short = st.text(letters, max_size=4)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | short,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(short, inner),
    max_leaves=5,
)
objects = st.dictionaries(short, values, max_size=3)
# Whole objects, written in more than one way, and what models write when they fail.
arguments = st.one_of(
    objects.map(lambda value: orjson.dumps(value).decode()),
    objects.map(lambda value: orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()),
    st.text(st.sampled_from('{[" \\a1:,é\n'), max_size=12),
)
CLAUDE = "anthropic-claude-v1"
formats = st.sampled_from([CLAUDE, "openai-responses-v1", "google-gemini-v1", "unknown", None])
# Of each kind of reasoning the field that says it.
SAID = {"text": "text", "encrypted": "data", "summary": "summary", "of_tomorrow": "own"}


@st.composite
def pieces_of(draw: st.DrawFn, text: str) -> list[str]:
    """The text, cut anywhere."""
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=4)) | {0, len(text)})
    return [text[a:b] for a, b in pairwise(cuts)] or [""]


@st.composite
def calls(draw: st.DrawFn, most: int) -> tuple[list[str], list[list[Delta]]]:
    """The arguments of calls, and the deltas that bring each."""
    said = [draw(arguments) for _ in range(draw(st.integers(0, most)))]
    deltas = []
    for index, text in enumerate(said):
        first, *rest = draw(pieces_of(text))
        begun = call(index, first, id=f"id{index}", name=f"f{index}")
        deltas.append([begun, *(call(index, piece) for piece in rest)])
    return said, deltas


@st.composite
def interleaved_calls(draw: st.DrawFn) -> tuple[list[str], str, list[Delta]]:
    """Arguments by call, the whole text, and deltas of all of them in any mixture."""
    said, queues = draw(calls(4))
    text = draw(st.text(max_size=12))
    queues.append([{"content": piece} for piece in draw(pieces_of(text))])
    mixed: list[Delta] = []
    while waiting := [queue for queue in queues if queue]:
        mixed.append(draw(st.sampled_from(waiting)).pop(0))
    return said, text, mixed


def expected_arguments(arguments: str) -> str:
    """What does not begin an object is the text for a custom tool."""
    if arguments.lstrip()[:1] in ("", "{"):
        return arguments
    return orjson.dumps({"input": arguments}).decode()


@given(interleaved_calls(), st.integers(0, 30))
def test_whatever_comes_together_arrives_byte_for_byte(
    case: tuple[list[str], str, list[Delta]], end: int
) -> None:
    expected, text, deltas = case
    read = Read(write_stream(*deltas))
    blocks = zip(read.content, read.arguments, strict=True)
    told = {block["name"]: raw for block, raw in blocks if block["type"] == "tool_use"}
    assert told == {
        f"f{index}": expected_arguments(arguments) for index, arguments in enumerate(expected)
    }
    assert "".join(block.get("text", "") for block in read.content) == text
    # And it may end after any delta.
    assert Read(write_stream(*deltas[:end])).ended is not None
    writer = stream()
    broken = writer.write_opening() + b"".join(writer.delta(delta) for delta in deltas[:end])
    error = {"code": 502, "message": "m", "metadata": {"error_type": "provider_unavailable"}}
    assert Read(broken + writer.error(error, router_metadata=None)).error is not None


@st.composite
def items(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Reasoning items as upstreams give them, each with a number of its own."""
    made: list[dict[str, Any]] = []
    for index in range(draw(st.integers(0, 4))):
        form, kind = draw(formats), draw(st.sampled_from(list(SAID)))
        own_id = f"rs_{index}" if form not in (CLAUDE, None) else None
        item = {"type": f"reasoning.{kind}", "index": index, "format": form, "id": own_id}
        item[SAID[kind]] = draw(values if kind == "of_tomorrow" else texts)
        if kind == "text" and (form == CLAUDE or draw(st.booleans())):
            item["signature"] = draw(texts)
        made.append(item)
    return made


@st.composite
def deltas_of(draw: st.DrawFn, item: dict[str, Any]) -> list[Delta]:
    """One item as a stream brings it: its words in pieces, its signature by itself."""
    name = SAID[item["type"].removeprefix("reasoning.")]
    common = {key: value for key, value in item.items() if key not in (name, "signature")}
    if name == "own":
        return [{"reasoning_details": [item]}]
    deltas: list[Delta] = []
    for piece in draw(pieces_of(item[name])):
        delta: Delta = {"reasoning_details": [{**common, name: piece}]}
        deltas.append({"reasoning": piece, **delta} if name != "data" else delta)
    if "signature" in item:
        deltas.append({"reasoning_details": [{**common, "signature": item["signature"]}]})
    return deltas


@given(st.data(), items(), calls(3), st.text(max_size=8), st.booleans())
def test_a_stream_says_what_the_whole_answer_says(
    data: st.DataObject,
    details: list[dict[str, Any]],
    called: tuple[list[str], list[list[Delta]]],
    text: str,
    silent: bool,
) -> None:
    made = [
        {"id": f"id{index}", "function": {"name": f"f{index}", "arguments": arguments}}
        for index, arguments in enumerate(called[0])
    ]
    message = {"content": text, "reasoning_details": details, "tool_calls": made}
    deltas = [delta for item in details for delta in data.draw(deltas_of(item))]
    deltas += [{"content": piece} for piece in data.draw(pieces_of(text)) if piece]
    deltas += [delta for said in called[1] for delta in said]
    thinking = {"type": "adaptive", "display": "omitted" if silent else None}
    streamed = Read(write_stream(*deltas, thinking=thinking)).content
    assert streamed == build_message_blocks(message, silent=silent)


keys = ("type", "text", "id", "index", "function", "name", "arguments", "signature", "data")
names = st.sampled_from([*keys, "usage"])
words = st.sampled_from(["reasoning.text", "reasoning.summary", "reasoning.encrypted", "text", "x"])
junk = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
    max_leaves=8,
)
FIELDS = ["content", "reasoning", "reasoning_details", "refusal", "tool_calls", "annotations"]
items_of_junk = st.dictionaries(names, junk, max_size=4)
spoken = junk | st.lists(items_of_junk, max_size=3)


@given(st.lists(st.dictionaries(st.sampled_from(FIELDS), spoken, max_size=3), max_size=5))
def test_no_upstream_can_make_a_stream_that_clients_cannot_read(deltas: list[Delta]) -> None:
    assert Read(write_stream(*deltas)).ended is not None
    for delta in deltas:
        build_message_blocks(delta, silent=False)


EVENTS = ["message_start", "content_block_start", "message_delta", "message_stop", "of_tomorrow"]


@given(st.lists(st.tuples(st.sampled_from(EVENTS), spoken), max_size=5), items_of_junk)
def test_no_message_upstream_can_either(
    events: list[tuple[str, Any]], usage: dict[str, Any]
) -> None:
    writer, out = stream(), b""
    for name, value in events:
        payload = {"type": name, "message": value, "delta": value, "usage": usage}
        out += writer.write_native(native(name, orjson.dumps(payload), payload))
    assert events_of(out + writer.write_ending(ending()))[-1]["type"] == "message_stop"
    message = {"content": [value for _, value in events], "usage": usage}
    whole = CompleteAnswer(
        SERVED, parse_fields(), {}, None, None, ending(native=native("", b"", message))
    )
    assert build_answer(whole)["usage"]["output_tokens"] == 5


def numberless(detail: dict[str, Any]) -> dict[str, Any]:
    """Without the number, which is its place in the list."""
    return {name: item for name, item in detail.items() if name != "index"}


@given(items(), st.booleans())
def test_reasoning_comes_back_as_it_was(details: list[dict[str, Any]], silent: bool) -> None:
    blocks = build_message_blocks({"reasoning_details": details}, silent=silent)
    [_, *replayed] = chat_of(USER, message_by("assistant", *blocks))
    back = replayed[0].get("reasoning_details", []) if replayed else []
    for before, after in zip(details, back, strict=True):
        # Claude's own signature holds the words.
        hidden = silent and before["format"] == CLAUDE and "text" in before
        assert numberless(after) == numberless({**before, "text": ""} if hidden else before)
    parse_chat({"messages": [USER, *replayed]}, session_header=None)


@given(texts, objects)
def test_text_and_calls_come_back_as_they_were(text: str, given_input: dict[str, Any]) -> None:
    called = {"id": "a", "function": {"name": "f", "arguments": '{"x":1}'}}
    blocks = build_message_blocks({"content": text, "tool_calls": [called]}, silent=False)
    blocks[1]["input"] = given_input
    [_, turn] = chat_of(USER, message_by("assistant", *blocks))
    assert turn["content"] == text
    assert build_message_blocks(turn, silent=False) == blocks


def test_plain_reasoning_stays_plain() -> None:
    [block] = build_message_blocks({"reasoning": "hm"}, silent=False)
    assert block == {"type": "thinking", "thinking": "hm", "signature": ""}
    [_, turn] = chat_of(USER, message_by("assistant", block))
    detail = {"type": "reasoning.text", "text": "hm", "index": 0, "id": None, "format": None}
    assert turn["reasoning_details"] == [detail]


def test_message_upstreams_never_see_what_they_did_not_sign() -> None:
    foreign = {"type": "reasoning.encrypted", "data": "x", "format": "openai-responses-v1"}
    blocks = build_message_blocks({"reasoning": "hm", "reasoning_details": [foreign]}, silent=False)
    claudes = {"type": "thinking", "thinking": "t", "signature": "c2ln"}
    request = parse_fields(messages=[USER, message_by("assistant", *blocks, claudes, TEXT)])
    assert request.original is not None
    assert request.original["messages"][1]["content"] == [claudes, TEXT]
    assert len(request.body["messages"][1]["reasoning_details"]) == 3


@pytest.mark.parametrize(
    "text",
    [
        *(SEAL_PREFIX, SEAL_PREFIX + "!", SEAL_PREFIX + "eA==", SEAL_PREFIX + "é"),
        seal({"type": "reasoning.text", "text": 5}),
        seal({"type": "reasoning.summary"}),
        seal([1]),  # type: ignore[arg-type] # What a client may make of it.
    ],
)
def test_a_seal_that_a_client_broke_is_no_item(text: str) -> None:
    assert unseal(text) is None
    thinking = {"type": "thinking", "thinking": "hm", "signature": text}
    broken = [thinking, {"type": "redacted_thinking", "data": text}]
    details = chat_of(USER, message_by("assistant", *broken))[1]["reasoning_details"]
    assert [detail.get("text") for detail in details] == ["hm", None]
    assert "signature" not in details[0]
