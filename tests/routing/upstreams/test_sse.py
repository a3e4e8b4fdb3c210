"""Server-sent events in every shape upstreams send them (U4)."""

import tracemalloc
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.upstreams.sse import EventTooLarge, SseParser

CAP = 16 * 1024 * 1024


def _feed(*pieces: bytes, cap: int = CAP) -> list[bytes]:
    parser = SseParser(cap)
    events = [event for piece in pieces for event in parser.feed_bytes(piece)]
    return events + parser.finish()


# What the property below draws, any chunking of plain events, is not here.
SHAPES: dict[str, tuple[bytes, list[bytes]]] = {
    "two spaces": (b"data:  a\n\n", [b" a"]),
    "mixed line ends": (b"data: a\r\n\ndata: b\n\r\ndata: c\r\r\n", [b"a", b"b", b"c"]),
    "many lines": (b"data: a\ndata:b\ndata\ndata:\ndata: c\n\n", [b"a\nb\n\n\nc"]),
    "comments": (b": hello\n\n:\ndata: a\n: between\ndata: b\n\n: bye\n\n", [b"a\nb"]),
    "other fields": (b"id: 7\nretry: 10\nevent: x\ndata: a\ndatax: b\nfoo\n\n", [b"a"]),
    "data only counts at the start": (b" data: a\nxdata: b\n\n", []),
    "no data": (b"event: ping\n\nid: 3\n\n", []),
    "empty data": (b"data:\n\ndata: \n\ndata\n\n", [b"", b"", b""]),
    "byte-order mark in the middle": (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [b"a"]),
    "blank lines around": (b"\n\n\ndata: a\n\n\n\n\ndata: b\n\n\n", [b"a", b"b"]),
    "not terminated": (b"data: a\n\ndata: b", [b"a", b"b"]),
    "not terminated with line end": (b"data: b\n", [b"b"]),
    "cut in the field name": (b"data: a\n\ndat", [b"a"]),
    "cut before the value": (b"data: a\n\ndata: ", [b"a"]),
    "event after done": (b"data: [DONE]\n\ndata: late\n\n", [b"[DONE]", b"late"]),
    "html": (b"<html>\n<body>data: x</body>\n\n", []),
}


@pytest.mark.parametrize(("sent", "payloads"), SHAPES.values(), ids=SHAPES)
def test_a_shape_gives_its_payloads_whole_and_split(sent: bytes, payloads: list[bytes]) -> None:
    assert _feed(sent) == payloads
    assert _feed(*(bytes([byte]) for byte in sent)) == payloads
    for cut in range(len(sent)):
        assert _feed(sent[:cut], sent[cut:]) == payloads


def test_an_event_is_out_as_soon_as_its_blank_line_is_in() -> None:
    parser = SseParser(CAP)
    assert parser.feed_bytes(b"data: a\r\n\r") == [b"a"]
    assert parser.feed_bytes(b"\ndata: b\n") == []
    assert parser.feed_bytes(b"\n") == [b"b"]
    assert parser.finish() == []


NAMED = [
    (b"event: message_start\ndata: {}\n\n", ("message_start", b"{}")),
    (b"data: plain\n\n", (None, b"plain")),
    (b"data: first\nevent: after\n\n", ("after", b"first")),
    (b"event: one\nevent:two\ndata: x\ndata: y\n\n", ("two", b"x\ny")),
    (b"event: lost\n\nevent:\ndata: empty\n\n", (None, b"empty")),
    (b"event: \ndata: empty\n\n", (None, b"empty")),
    (b"event: last\ndata: cut", ("last", b"cut")),
]


def test_event_names_come_with_their_payloads() -> None:
    sent = b"".join(said for said, _ in NAMED)
    for size in (1, 3, 7, len(sent)):
        parser = SseParser(CAP)
        events = []
        for start in range(0, len(sent), size):
            events += parser.feed_typed(sent[start : start + size])
        assert events + parser.finish_typed() == [event for _, event in NAMED]


@pytest.mark.parametrize("pieces", [1, 2, 1000])
@pytest.mark.parametrize("prefix", [b"data: ", b"event: x\ndata: ", b"data: \ndata:"])
def test_the_cap_is_exact(pieces: int, prefix: bytes) -> None:
    joined = b"\n" if prefix.count(b"data") > 1 else b""
    value = b"x" * (1000 - len(joined))
    for extra in (b"", b"!"):
        sent = prefix + value + extra + b"\n\n"
        size = -(-len(sent) // pieces)
        split = [sent[start : start + size] for start in range(0, len(sent), size)]
        if extra:
            with pytest.raises(EventTooLarge):
                _feed(*split, cap=1000)
        else:
            assert _feed(*split, cap=1000) == [joined + value]


ENDLESS = {
    "one line": (b"data: ", b"x" * 100),
    "many lines": (b"", b"data: x\n"),
    "empty lines of data": (b"", b"data\n"),
}


@pytest.mark.parametrize(("start", "more"), ENDLESS.values(), ids=ENDLESS)
def test_an_endless_event_is_cut_at_the_cap(start: bytes, more: bytes) -> None:
    parser = SseParser(20_000)
    parser.feed_bytes(start)
    with pytest.raises(EventTooLarge):
        any(parser.feed_bytes(more) for _ in range(40_000))


def _peak_bytes(work: Callable[[], object]) -> int:
    tracemalloc.start()
    work()
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak_bytes


@pytest.mark.parametrize("endless", [b": comment", b"id: 1\n", b"event: name", b"unknown"])
def test_what_is_ignored_takes_no_memory(endless: bytes) -> None:
    parser = SseParser(1000)
    assert _peak_bytes(lambda: [parser.feed_bytes(endless * 10) for _ in range(1000)]) < 100_000


@pytest.mark.parametrize("piece_bytes", [1000, 65536])
def test_a_five_megabyte_event_costs_its_size(piece_bytes: int) -> None:
    payload = b"x" * 5_000_000
    sent = b"data: " + payload + b"\n\n"
    pieces = [sent[at : at + piece_bytes] for at in range(0, len(sent), piece_bytes)]
    events: list[bytes] = []
    peak_bytes = _peak_bytes(lambda: events.extend(_feed(*pieces)))
    assert events == [payload]
    assert peak_bytes < len(payload) * 1.125 + 1024 * 1024


VALUES = st.binary(max_size=40).map(lambda value: value.replace(b"\r", b"").replace(b"\n", b""))
NAMES = st.none() | st.sampled_from([b"message_start", b"x", "\u00e9".encode()])
EVENTS = st.tuples(NAMES, st.lists(VALUES, min_size=1, max_size=4))
NOISE = st.sampled_from([b"", b": comment", b"id: 1", b"retry: 5", b"foo: bar", b"data_: x"])


def _cut(sent: bytes, cuts: list[int]) -> list[bytes]:
    bounds = sorted({0, len(sent), *(min(cut, len(sent)) for cut in cuts)})
    return [sent[start:end] for start, end in pairwise(bounds)]


@given(
    st.lists(EVENTS, max_size=8),
    NOISE,
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.sampled_from([b"", b" "]),
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
    st.lists(st.integers(0, 600), max_size=30),
)
def test_any_chunking_of_any_events_gives_the_same_events(
    events: list[tuple[bytes | None, list[bytes]]],
    noise: bytes,
    line_end: bytes,
    space: bytes,
    mark: bytes,
    cuts: list[int],
) -> None:
    lines: list[bytes] = []
    for name, values in events:
        lines += [noise] if noise else []
        lines += [b"event: " + name] if name else []
        # A value that begins with a space needs the one that is taken away.
        lines += [b"data:" + (b" " if value[:1] == b" " else space) + value for value in values]
        lines.append(b"")
    parser = SseParser(CAP)
    got = []
    for piece in _cut(mark + b"".join(line + line_end for line in lines), cuts):
        got += parser.feed_typed(piece)
    assert got == [(name.decode() if name else None, b"\n".join(values)) for name, values in events]
    assert parser.finish() == []


@given(
    st.lists(
        st.binary(max_size=30)
        | st.sampled_from([b"data: ", b"\n", b"\r", b"\n\n", b"event:", b"\xef\xbb\xbf", b":", b""])
    )
)
def test_no_bytes_break_the_parser_and_splitting_changes_nothing(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    assert _feed(*pieces) == _feed(whole) == _feed(*(bytes([byte]) for byte in whole))


# Nearly whole events: what the short cut takes, and all that it must leave to the long way.
WHOLE = st.tuples(
    st.sampled_from([b"", b"event: x", b"event: ", b"event:x", b"event: x\ndata: y", b"id: 1"])
    | st.integers(1015, 1030).map(lambda size: b"event: " + b"n" * size),
    st.sampled_from([b"data: ", b"\ndata: ", b"\ndata:", b"\n\ndata: ", b"\nevent: data: "]),
    st.sampled_from([b"", b"x" * 8, b"x" * 9, b"a\nb", b"a\rb", b" \xff\x00", b"a\ndata: b"]),
    st.sampled_from([b"\n\n", b"\n\n", b"\n", b"", b"\r\n\r\n", b"\n\r", b"\n\n\n"]),
).map(b"".join)


def _outcome(parser: SseParser, piece: bytes, *, typed: bool) -> list[bytes] | None:
    """None where the event is too large."""
    try:
        return (
            [payload for _, payload in parser.feed_typed(piece)]
            if typed
            else parser.feed_bytes(piece)
        )
    except EventTooLarge:
        return None


@given(
    events=st.lists(WHOLE, max_size=6),
    cuts=st.none() | st.lists(st.integers(0, 300), max_size=10),
    cap=st.sampled_from([8, CAP]),
)
def test_the_short_cut_says_what_the_long_way_says(
    events: list[bytes], cuts: list[int] | None, cap: int
) -> None:
    pieces = events if cuts is None else _cut(b"".join(events), cuts)
    short, long = SseParser(cap), SseParser(cap)
    for piece in pieces:
        said = _outcome(long, piece, typed=True)
        assert _outcome(short, piece, typed=False) == said
        if said is None:
            return
    assert short.finish() == long.finish()
