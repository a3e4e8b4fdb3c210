"""Streams of message upstreams that stray from the order: the caller's never does (4.7)."""

from collections.abc import Iterable
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from tests.routing.formats.messages.stream_reader import Read, events_of
from tests.routing.formats.messages.streams import ending, stream
from tests.routing.formats.messages.test_passing import LAST, START, passed

Payload = dict[str, Any]
# By the upstream's number, so that a delta always fits the block it names.
KINDS: list[tuple[Payload, Payload]] = [
    ({"type": "text", "text": "", "citations": []}, {"type": "text_delta", "text": "é"}),
    (
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "t"},
    ),
    (
        {"type": "tool_use", "id": "t", "name": "f", "input": {}},
        {"type": "input_json_delta", "partial_json": "1"},
    ),
]
PING: Payload = {"type": "ping"}
END: list[Payload] = [LAST, {"type": "message_stop"}]


def begin(index: Any) -> Payload:
    block, _ = KINDS[index if type(index) is int and 0 <= index < len(KINDS) else 0]
    return {"type": "content_block_start", "index": index, "content_block": block}


def piece(index: Any) -> Payload:
    _, delta = KINDS[index if type(index) is int and 0 <= index < len(KINDS) else 0]
    return {"type": "content_block_delta", "index": index, "delta": delta}


def stop(index: Any) -> Payload:
    return {"type": "content_block_stop", "index": index}


def said(events: Iterable[Payload]) -> bytes:
    writer = stream()
    out = b"".join(passed(writer, event) for event in events)
    return out + writer.closing(ending())


def types(events: Iterable[Payload]) -> list[str]:
    return [event["type"] for event in events_of(said(events))]


def told(data: bytes) -> list[tuple[str, Any]]:
    events = [event for event in events_of(data) if event["type"].startswith("content_block")]
    return [(event["type"].removeprefix("content_block_"), event["index"]) for event in events]


indexes = st.sampled_from([0, 1, 2, 5, -1, None, "0", 1.0, True, [0]])
strays = st.one_of(
    st.sampled_from([START, PING, LAST, {"type": "message_start"}, {"type": "message_stop"}]),
    indexes.map(begin),
    indexes.map(piece),
    indexes.map(stop),
    st.sampled_from(
        [
            {"type": "content_block_start", "index": 0},
            {"type": "content_block_delta", "index": 0},
            {"type": "content_block_delta"},
            {"type": "error", "error": None},
        ]
    ),
)


@given(st.lists(strays, max_size=20))
def test_any_sequence_of_events_arrives_in_order(events: list[Payload]) -> None:
    read = Read(said(events))
    assert read.ended is not None
    assert read.pings


@st.composite
def well_formed(draw: st.DrawFn) -> list[Payload]:
    events = [START, PING]
    for index in range(draw(st.integers(0, 3))):
        block, delta = draw(st.sampled_from(KINDS))
        events.append({**begin(index), "content_block": block})
        for _ in range(draw(st.integers(0, 3))):
            events += [{**piece(index), "delta": delta}, *draw(st.sampled_from([[], [PING]]))]
        events.append(stop(index))
    return [*events, *END]


@given(well_formed(), st.booleans())
def test_what_keeps_the_order_goes_out_byte_for_byte(events: list[Payload], spaced: bool) -> None:
    writer = stream()
    for event in events:
        raw = orjson.dumps(event).replace(b'"index":', b'"index" : ' if spaced else b'"index":')
        out = passed(writer, raw)
        if (name := event["type"]).startswith("content_block_"):
            assert out == b"event: " + name.encode() + b"\ndata: " + raw + b"\n\n"


def test_a_start_that_is_missing_is_said() -> None:
    data = said([begin(0), piece(0), stop(0), *END])
    start, ping, *_ = events_of(data)
    assert (start["type"], ping["type"]) == ("message_start", "ping")
    assert (start["message"]["model"], start["message"]["provider"]) == ("acme/small", "Acme")
    assert Read(data).content[0]["text"] == "é"
    assert types([]) == ["message_start", "ping", "message_delta", "message_stop"]


def test_there_is_one_start() -> None:
    late = said([begin(0), START, piece(0), START, stop(0), *END])
    assert [event["type"] for event in events_of(late)].count("message_start") == 1
    # What it counted is not lost.
    assert Read(late).message["usage"]["own"] == "u"
    again = {"type": "message_start", "message": {"id": "msg_2", "usage": {"own": "v"}}}
    read = Read(said([START, again, *END]))
    assert (read.message["id"], read.message["usage"]["own"]) == ("msg_up", "u")


def test_events_before_the_start_go_after_it() -> None:
    early = {"type": "of_tomorrow", "x": 1}
    for events in ([early, PING, START], [early], [early, begin(0)]):
        assert types(events)[:3] == ["message_start", "ping", "of_tomorrow"]


def test_events_without_a_start_do_not_pile_up() -> None:
    writer = stream()
    out = [passed(writer, {"type": "of_tomorrow"}) for _ in range(102)]
    assert not any(out[:100])
    assert [event["type"] for event in events_of(out[100])][:3] == [
        "message_start",
        "ping",
        "of_tomorrow",
    ]
    assert len(events_of(out[100])) == 103
    assert len(events_of(out[101])) == 1


def test_blocks_are_counted_from_0() -> None:
    events = [START, begin(1), piece(1), stop(1), begin(0), piece(0), stop(0)]
    data = said(events)
    kinds = ["start", "delta", "stop"]
    assert told(data) == [(kind, index) for index in (0, 1) for kind in kinds]
    assert [block["type"] for block in Read(data).content] == ["thinking", "text"]


def test_unnumbered_blocks_are_numbered() -> None:
    events = [{**event, "index": None} for event in (begin(0), piece(0), stop(0))]
    for event in events:
        del event["index"]
    assert told(said([START, *events])) == [("start", 0), ("delta", 0), ("stop", 0)]


def test_one_block_is_open_at_a_time() -> None:
    events = [START, begin(0), begin(1), piece(0), piece(1), stop(0), stop(1)]
    expected = [("start", 0), ("stop", 0), ("start", 1), ("delta", 1), ("stop", 1)]
    assert told(said(events)) == expected
    assert told(said([START, begin(0), begin(0), piece(0)])) == [
        ("start", 0),
        ("stop", 0),
        ("start", 1),
        ("delta", 1),
        ("stop", 1),
    ]


def test_what_is_said_of_no_block_is_left_out() -> None:
    assert told(said([START, piece(0), stop(0), *END])) == []
    assert told(said([START, begin(0), stop(0), piece(0), stop(0), *END])) == [
        ("start", 0),
        ("stop", 0),
    ]


def test_a_block_that_was_left_open_is_ended() -> None:
    assert told(said([START, begin(0), piece(0), *END]))[-1] == ("stop", 0)
