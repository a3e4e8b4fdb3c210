"""Streams of upstreams that speak messages themselves: handed on as they came, and put in order
where they stray from it (4.7)."""

from collections.abc import Iterable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.formats.caller import CompleteAnswer
from routing.formats.messages.format import MessagesStream
from routing.formats.messages.write import build_answer
from tests.routing.formats.messages.bodies import parse_fields
from tests.routing.formats.messages.stream_reader import Read, events_of
from tests.routing.formats.messages.streams import SERVED, USAGE, ending, native, stream

Payload = dict[str, Any]
MESSAGE: Payload = {
    "id": "msg_up",
    "type": "message",
    "role": "assistant",
    "model": "claude-x",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {"input_tokens": 5, "output_tokens": 1, "cache_read_input_tokens": 3, "own": "u"},
    "own": {"a": 1},
}
START: Payload = {"type": "message_start", "message": MESSAGE}
BLOCK = b'{"type":"content_block_start", "index":0, "content_block":{"type":"text","text":""}}'
PIECE = b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\\u00e9"}}'
STOP = b'{"type":"content_block_stop","index":0 }'
LAST: Payload = {
    "type": "message_delta",
    "delta": {"stop_reason": "pause_turn", "stop_sequence": None, "own": 1},
    "usage": {"output_tokens": 5, "cache_creation_input_tokens": 2, "server_tool_use": {"x": 1}},
    "context_management": {"applied_edits": []},
}
PING: Payload = {"type": "ping"}
END: list[Payload] = [LAST, {"type": "message_stop"}]


def pass_event(writer: MessagesStream, payload: bytes | Payload) -> bytes:
    raw = payload if isinstance(payload, bytes) else orjson.dumps(payload)
    value = orjson.loads(raw)
    return writer.write_native(native(value["type"], raw, value))


def begin_stream(message: Payload | None = None) -> MessagesStream:
    writer = stream()
    pass_event(writer, {**START, "message": {**MESSAGE, **(message or {})}})
    return writer


def write_all(events: Iterable[Payload]) -> bytes:
    writer = stream()
    out = b"".join(pass_event(writer, event) for event in events)
    return out + writer.write_ending(ending())


def test_the_start_gets_the_gateways_fields_and_keeps_its_own() -> None:
    start, ping = events_of(pass_event(stream(), START))
    message, usage = start["message"], start["message"]["usage"]
    ours = {"model": "acme/small", "provider": "Acme", "stop_details": None, "container": None}
    assert {name: message[name] for name in MESSAGE | ours} == MESSAGE | ours | {"usage": usage}
    assert (usage["input_tokens"], usage["own"], usage["inference_geo"]) == (5, "u", None)
    assert ping == PING
    empty = pass_event(stream(), {"type": "message_start"})
    assert events_of(empty)[0]["message"]["id"].startswith("msg_")


def test_the_end_is_said_with_the_upstreams_reason_and_the_charge() -> None:
    writer = stream()
    out = b"".join(pass_event(writer, each) for each in (START, PING, BLOCK, PIECE, STOP))
    assert pass_event(writer, LAST) == pass_event(writer, {"type": "message_stop"}) == b""
    closing = writer.write_ending(ending("stop", "pause_turn", router_metadata={"m": 1}))
    read = Read(out + closing)
    assert read.content == [{"type": "text", "text": "é"}]
    assert (read.pings, read.ended) == (1, {"type": "message_stop", "router_metadata": {"m": 1}})
    last = events_of(closing)[0]
    assert last["delta"] == {**LAST["delta"], "stop_details": None, "container": None}
    assert last["context_management"] == {"applied_edits": []}
    known = {
        "input_tokens": 5,
        "output_tokens": 5,
        "own": "u",
        "cache_read_input_tokens": 3,
        "cache_creation_input_tokens": 2,
        "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0, "x": 1},
        "cost": USAGE["cost"],
    }
    assert {name: last["usage"][name] for name in known} == known


@pytest.mark.parametrize(
    ("caller", "reason"),
    [
        (None, "tool_use"),
        ({"type": "direct"}, "tool_use"),
        ({"type": "code_execution_20250825", "tool_id": "s"}, "end_turn"),
    ],
)
def test_a_turn_that_ends_with_calls_says_so(caller: Any, reason: str) -> None:
    """Code that the provider runs has had its own calls answered."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}, "caller": caller}
    ended = {"stop_reason": "end_turn"}
    message = {"type": "message", "content": [call], "usage": {}, **ended}
    end = ending("tool_calls", "end_turn", native=native("", b"", message))
    assert (
        build_answer(CompleteAnswer(SERVED, parse_fields(), {}, None, None, end))["stop_reason"]
        == reason
    )
    block = {"type": "content_block_start", "index": 0, "content_block": call}
    for writer, events in ((begin_stream(), [block]), (begin_stream({"content": [call]}), [])):
        for event in (*events, {**LAST, "delta": ended}):
            pass_event(writer, event)
        last = events_of(writer.write_ending(ending("tool_calls", "end_turn")))[-2]
        assert last["delta"]["stop_reason"] == reason


def test_blocks_that_came_with_the_start_are_told_as_blocks() -> None:
    caller = {"type": "code_execution_20250825", "tool_id": "srv_1"}
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "x", "citations": []},
        {"type": "tool_use", "id": "t", "name": "f", "input": {"a": [1.0]}, "caller": caller},
        {"type": "of_tomorrow", "y": 1},
    ]
    more = {"content": content, "stop_reason": "tool_use", "container": {"id": "c"}}
    writer = stream()
    out = pass_event(writer, {**START, "message": {**MESSAGE, **more}})
    read = Read(out + pass_event(writer, {"type": "message_stop"}) + writer.write_ending(ending()))
    assert {name: read.message[name] for name in more} == more


@pytest.mark.parametrize(
    ("block", "field", "nothing"),
    [
        ({"type": "text", "text": "x"}, "citations", []),
        ({"type": "tool_use", "id": "t", "name": "f"}, "input", {}),
    ],
)
def test_a_block_has_no_null_where_clients_refuse_it(
    block: dict[str, Any], field: str, nothing: Any
) -> None:
    writer = stream()
    block = {**block, field: None}
    begun = {"type": "content_block_start", "index": 0, "content_block": block, "own": 1}
    events = events_of(pass_event(writer, {**START, "message": {"content": [block]}}))
    events += events_of(pass_event(writer, begun))
    starts = [event for event in events if event["type"] == "content_block_start"]
    assert [each["content_block"][field] for each in starts] == [nothing, nothing]
    assert starts[1]["own"] == 1


def test_counts_that_were_not_charged_give_way() -> None:
    writer = begin_stream()
    pass_event(writer, {**LAST, "usage": {"output_tokens": 10**9, "own": "late"}})
    usage = events_of(writer.write_ending(ending()))[0]["usage"]
    assert (usage["output_tokens"], usage["own"]) == (5, "late")


def test_a_later_ping_goes_through() -> None:
    writer = begin_stream()
    assert pass_event(writer, PING) == b""
    assert events_of(pass_event(writer, PING)) == [PING]


def test_odd_events_cannot_break_the_frames() -> None:
    writer = begin_stream()
    pass_event(writer, BLOCK)
    assert events_of(pass_event(writer, PIECE.replace(b",", b",\n"))) == [orjson.loads(PIECE)]
    assert pass_event(writer, b'{"type":"a\\nevent: b"}') == b""
    assert pass_event(writer, {"type": "error", "error": {}}) == b""


def test_a_stream_that_never_told_why_it_ended_is_closed_all_the_same() -> None:
    delta, stopped = events_of(begin_stream().write_ending(ending("length", "length")))
    assert delta["delta"]["stop_reason"] == "max_tokens"
    assert stopped == {"type": "message_stop"}


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


def kind_of(index: Any) -> tuple[Payload, Payload]:
    return KINDS[index if type(index) is int and 0 <= index < len(KINDS) else 0]


def begin(index: Any) -> Payload:
    return {"type": "content_block_start", "index": index, "content_block": kind_of(index)[0]}


def piece(index: Any) -> Payload:
    return {"type": "content_block_delta", "index": index, "delta": kind_of(index)[1]}


def stop(index: Any) -> Payload:
    return {"type": "content_block_stop", "index": index}


def types(data: bytes) -> list[str]:
    return [event["type"] for event in events_of(data)]


def block_words(*events: Payload) -> str:
    """What is said of blocks, each event in a word."""
    found = [
        each for each in events_of(write_all(events)) if each["type"].startswith("content_block")
    ]
    return " ".join(
        f"{each['type'].removeprefix('content_block_')}{each['index']}" for each in found
    )


indexes = st.sampled_from([0, 1, 2, 5, -1, None, "0", 1.0, True, [0]])
strays = st.one_of(
    st.sampled_from([START, PING, LAST, {"type": "message_start"}, {"type": "message_stop"}]),
    *(indexes.map(make) for make in (begin, piece, stop)),
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
    read = Read(write_all(events))
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
        out = pass_event(writer, raw)
        if (name := event["type"]).startswith("content_block_"):
            assert out == b"event: " + name.encode() + b"\ndata: " + raw + b"\n\n"


def test_a_start_that_is_missing_is_said() -> None:
    data = write_all([begin(0), piece(0), stop(0), *END])
    assert types(data)[:2] == ["message_start", "ping"]
    message = Read(data).message
    assert (message["model"], message["provider"]) == ("acme/small", "Acme")
    assert message["content"][0]["text"] == "é"
    assert types(write_all([])) == ["message_start", "ping", "message_delta", "message_stop"]


def test_there_is_one_start() -> None:
    late = write_all([begin(0), START, piece(0), START, stop(0), *END])
    assert types(late).count("message_start") == 1
    # What it counted is not lost.
    assert Read(late).message["usage"]["own"] == "u"
    again = {"type": "message_start", "message": {"id": "msg_2", "usage": {"own": "v"}}}
    message = Read(write_all([START, again, *END])).message
    assert (message["id"], message["usage"]["own"]) == ("msg_up", "u")


def test_events_before_the_start_go_after_it_and_do_not_pile_up() -> None:
    early = {"type": "of_tomorrow", "x": 1}
    begins = ["message_start", "ping", "of_tomorrow"]
    for events in ([early, PING, START], [early], [early, begin(0)]):
        assert types(write_all(events))[:3] == begins
    writer = stream()
    out = [pass_event(writer, early) for _ in range(102)]
    assert not any(out[:100])
    assert types(out[100])[:3] == begins
    assert [len(events_of(each)) for each in out[100:]] == [103, 1]


def test_blocks_are_counted_from_0_whatever_the_upstream_counts() -> None:
    events = [START, begin(1), piece(1), stop(1), begin(0), piece(0), stop(0)]
    assert block_words(*events) == "start0 delta0 stop0 start1 delta1 stop1"
    assert [block["type"] for block in Read(write_all(events)).content] == ["thinking", "text"]
    unnumbered = [begin(0), piece(0), stop(0)]
    for event in unnumbered:
        del event["index"]
    assert block_words(START, *unnumbered) == "start0 delta0 stop0"


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        # One block is open at a time.
        (
            [begin(0), begin(1), piece(0), piece(1), stop(0), stop(1)],
            "start0 stop0 start1 delta1 stop1",
        ),
        ([begin(0), begin(0), piece(0)], "start0 stop0 start1 delta1 stop1"),
        # What is said of no block is left out.
        ([piece(0), stop(0), *END], ""),
        ([begin(0), stop(0), piece(0), stop(0), *END], "start0 stop0"),
        # A block that was left open is ended.
        ([begin(0), piece(0), *END], "start0 delta0 stop0"),
    ],
)
def test_each_block_begins_and_ends_once(events: list[Payload], expected: str) -> None:
    assert block_words(START, *events) == expected
