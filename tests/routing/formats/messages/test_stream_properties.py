"""What holds for any deltas in any order."""

from itertools import pairwise
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from routing.formats.caller import Whole
from routing.formats.messages.answer import blocks_of_message, whole_answer
from routing.formats.messages.completeness import ObjectScanner
from tests.routing.formats.messages.bodies import accepted
from tests.routing.formats.messages.stream_reader import Read, events_of
from tests.routing.formats.messages.streams import SERVED, call, ending, native, stream, written

# The gateway takes no NUL from a caller, so none can come back.
letters = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
texts = st.text(letters, min_size=1, max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(letters, max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(letters, max_size=3), inner)
    ),
    max_leaves=5,
)
objects = st.dictionaries(st.text(letters, max_size=4), values, max_size=3)
# Whole objects, written in more than one way, and what models write when they fail.
arguments = st.one_of(
    objects.map(lambda value: orjson.dumps(value).decode()),
    objects.map(lambda value: orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()),
    st.text(st.sampled_from('{[" \\a1:,é\n'), max_size=12),
)
CLAUDE = "anthropic-claude-v1"
FORMATS = [CLAUDE, "openai-responses-v1", "google-gemini-v1", "unknown", None]
formats = st.sampled_from(FORMATS)


@st.composite
def pieces_of(draw: st.DrawFn, text: str) -> list[str]:
    """The text, cut anywhere."""
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=4)) | {0, len(text)})
    return [text[a:b] for a, b in pairwise(cuts)] or [""]


@st.composite
def one_call(draw: st.DrawFn, index: int) -> tuple[str, list[dict[str, Any]]]:
    """The arguments of a call and the deltas that bring them."""
    text = draw(arguments)
    first, *rest = draw(pieces_of(text))
    deltas = [call(index, first, id=f"id{index}", name=f"f{index}")]
    return text, deltas + [call(index, piece) for piece in rest]


@st.composite
def interleaved(draw: st.DrawFn) -> tuple[list[str], str, list[dict[str, Any]]]:
    """Arguments by call, the whole text, and deltas of all of them in any mixture."""
    calls = [draw(one_call(index)) for index in range(draw(st.integers(0, 4)))]
    text = draw(st.text(max_size=12))
    said = [{"content": piece} for piece in draw(pieces_of(text))]
    queues = [list(deltas) for _, deltas in calls] + [said]
    mixed: list[dict[str, Any]] = []
    while waiting := [queue for queue in queues if queue]:
        mixed.append(draw(st.sampled_from(waiting)).pop(0))
    return [arguments for arguments, _ in calls], text, mixed


def shown(arguments: str) -> str:
    """What does not begin an object is the text for a custom tool."""
    if arguments.lstrip()[:1] in ("", "{"):
        return arguments
    return orjson.dumps({"input": arguments}).decode()


@given(interleaved())
def test_whatever_comes_together_arrives_byte_for_byte(
    case: tuple[list[str], str, list[dict[str, Any]]],
) -> None:
    expected, text, deltas = case
    read = Read(written(*deltas))
    told = {
        block["name"]: raw
        for block, raw in zip(read.content, read.arguments, strict=True)
        if block["type"] == "tool_use"
    }
    assert told == {f"f{index}": shown(arguments) for index, arguments in enumerate(expected)}
    assert "".join(block.get("text", "") for block in read.content) == text
    assert read.ended is not None


@st.composite
def items(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Reasoning items as upstreams give them, each with a number of its own."""
    made: list[dict[str, Any]] = []
    for index in range(draw(st.integers(0, 4))):
        form = draw(formats)
        foreign = form not in (CLAUDE, None)
        common = {"index": index, "format": form, "id": f"rs_{index}" if foreign else None}
        kind = draw(st.sampled_from(["text", "encrypted", "summary", "other"]))
        if kind == "text":
            item: dict[str, Any] = {"type": "reasoning.text", "text": draw(texts), **common}
            if form == CLAUDE or draw(st.booleans()):
                item["signature"] = draw(texts)
        elif kind == "encrypted":
            item = {"type": "reasoning.encrypted", "data": draw(texts), **common}
        elif kind == "summary":
            item = {"type": "reasoning.summary", "summary": draw(texts), **common}
        else:
            item = {"type": "reasoning.of_tomorrow", "own": draw(values), **common}
        made.append(item)
    return made


@st.composite
def deltas_of(draw: st.DrawFn, item: dict[str, Any]) -> list[dict[str, Any]]:
    """One item as a stream brings it: its words in pieces, its signature by itself."""
    name = {"reasoning.text": "text", "reasoning.summary": "summary"}.get(item["type"], "data")
    common = {key: value for key, value in item.items() if key not in (name, "signature")}
    if name not in item:
        return [{"reasoning_details": [item]}]
    deltas: list[dict[str, Any]] = []
    for piece in draw(pieces_of(item[name])):
        delta: dict[str, Any] = {"reasoning_details": [{**common, name: piece}]}
        deltas.append({"reasoning": piece, **delta} if name != "data" else delta)
    if "signature" in item:
        deltas.append({"reasoning_details": [{**common, "signature": item["signature"]}]})
    return deltas


@given(st.data(), items(), st.text(max_size=8), st.booleans())
def test_a_stream_says_what_the_whole_answer_says(
    data: st.DataObject, details: list[dict[str, Any]], text: str, silent: bool
) -> None:
    calls = [data.draw(one_call(index)) for index in range(data.draw(st.integers(0, 3)))]
    message = {
        "content": text,
        "reasoning_details": details,
        "tool_calls": [
            {"id": f"id{index}", "function": {"name": f"f{index}", "arguments": arguments}}
            for index, (arguments, _) in enumerate(calls)
        ],
    }
    deltas = [delta for item in details for delta in data.draw(deltas_of(item))]
    deltas += [{"content": piece} for piece in data.draw(pieces_of(text)) if piece]
    deltas += [delta for _, said in calls for delta in said]
    thinking = {"type": "adaptive", "display": "omitted" if silent else None}
    streamed = Read(written(*deltas, thinking=thinking)).content
    assert streamed == blocks_of_message(message, silent=silent)


@given(interleaved(), st.integers(0, 30))
def test_a_stream_may_end_after_any_delta(
    case: tuple[list[str], str, list[dict[str, Any]]], end: int
) -> None:
    _, _, deltas = case
    said = written(*deltas[:end])
    assert Read(said).ended is not None
    writer = stream()
    broken = writer.first() + b"".join(writer.delta(delta) for delta in deltas[:end])
    error = {"code": 502, "message": "m", "metadata": {"error_type": "provider_unavailable"}}
    assert Read(broken + writer.error(error, router_metadata=None)).error is not None


names = st.sampled_from(
    ["type", "text", "id", "index", "function", "name", "arguments", "signature", "data", "usage"]
)
words = st.sampled_from(["reasoning.text", "reasoning.summary", "reasoning.encrypted", "text", "x"])
junk = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
    max_leaves=8,
)
FIELDS = ["content", "reasoning", "reasoning_details", "refusal", "tool_calls", "annotations"]
items_of_junk = st.dictionaries(names, junk, max_size=4)
spoken = st.one_of(junk, st.lists(items_of_junk, max_size=3))


@given(st.lists(st.dictionaries(st.sampled_from(FIELDS), spoken, max_size=3), max_size=5))
def test_no_upstream_can_make_a_stream_that_clients_cannot_read(
    deltas: list[dict[str, Any]],
) -> None:
    assert Read(written(*deltas, end=ending("stop"))).ended is not None
    for delta in deltas:
        blocks_of_message(delta, silent=False)


EVENTS = ["message_start", "content_block_start", "message_delta", "message_stop", "of_tomorrow"]


@given(st.lists(st.tuples(st.sampled_from(EVENTS), spoken), max_size=5), items_of_junk)
def test_no_message_upstream_can_either(
    events: list[tuple[str, Any]], usage: dict[str, Any]
) -> None:
    writer = stream()
    said = b""
    for name, value in events:
        payload = {"type": name, "message": value, "delta": value, "usage": usage}
        said += writer.passed(native(name, orjson.dumps(payload), payload))
    assert events_of(said + writer.closing(ending()))[-1]["type"] == "message_stop"
    message = {"content": [value for _, value in events], "usage": usage}
    whole = Whole(SERVED, accepted(), {}, None, None, ending(native=native("", b"", message)))
    assert whole_answer(whole)["usage"]["output_tokens"] == 5


@given(st.data(), objects, st.text(max_size=6))
def test_an_object_is_complete_at_its_last_brace(
    data: st.DataObject, value: dict[str, Any], after: str
) -> None:
    text = orjson.dumps(value).decode()
    scanner = ObjectScanner()
    for piece in data.draw(pieces_of(text[:-1])):
        scanner.feed(piece)
        assert not scanner.complete
    scanner.feed("}" + after)
    assert scanner.complete
