"""U4: event streams in every shape upstreams send. The caller sees valid events, and either the
content and `[DONE]`, or what came before the fault and one error event."""

import json
import re
from dataclasses import dataclass
from typing import Any

import pytest

from tests.conformance.desk import Streamed, read_stream
from tests.support.raw_desk import EVENT_BYTES_MAX, RawDesk, error_of
from tests.support.raw_upstream import (
    CHUNKED,
    END,
    FINISH,
    USAGE,
    Visit,
    chunk,
    content,
    event,
    head,
)

pytest_plugins = ["tests.support.raw_fixtures"]
MIB = 1024 * 1024
SAID = event(content("Said."))
FIVE_MIB = "x" * (5 * MIB)
DONE = event("[DONE]")
TOO_MUCH = EVENT_BYTES_MAX + MIB // 2
USED = event({"choices": [], "usage": USAGE})
FOX = 'data: {"choices":[{"delta":{"content":"🦊é"}}]}\n\n'.encode()


@dataclass(frozen=True)
class Shape:
    """`text` is what the caller must read; `error` the code of the error event, None for none."""

    body: bytes
    text: str = "Said."
    error: int | None = None
    content_type: bytes = b"text/event-stream"


def data(value: Any) -> bytes:
    return json.dumps(value).encode()


def lines(ending: bytes) -> bytes:
    return (SAID + END).replace(b"\n", ending)


SHAPES: dict[str, Shape] = {
    "as it should be": Shape(SAID + END),
    "no DONE, finished": Shape(SAID + event(FINISH)),
    "no DONE, finished, usage": Shape(SAID + event(FINISH) + USED),
    "no DONE, not finished": Shape(SAID, error=502),
    "UTF-8 in two bytes and four": Shape(FOX + END, text="🦊é"),
    "data without a space": Shape((SAID + END).replace(b"data: ", b"data:")),
    "data with two spaces": Shape((SAID + event(FINISH)).replace(b"data: ", b"data:  ")),
    "CRLF": Shape(lines(b"\r\n")),
    "CR": Shape(lines(b"\r")),
    "mixed endings": Shape(SAID.replace(b"\n\n", b"\r\n\n") + END.replace(b"\n\n", b"\n\r")),
    "comments between": Shape(b": hello\n\n" + SAID + b":\n: a\n:b\n\n" + END),
    "a comment in an event": Shape(b": x\n" + SAID.replace(b"data", b": y\ndata", 1) + END),
    "a comment of 1 MiB": Shape(b": " + b"x" * MIB + b"\n\n" + SAID + END),
    "JSON over several data lines": Shape(
        b'data: {"choices":\ndata: [{"delta":\ndata: {"content":"Said."}}]}\n\n' + END
    ),
    "a byte-order mark": Shape(b"\xef\xbb\xbf" + SAID + END),
    "an event of 5 MiB": Shape(event(content(FIVE_MIB)) + END, text=FIVE_MIB),
    "an event over the cap": Shape(SAID + event(content("x" * (TOO_MUCH))) + END, error=502),
    "no end of line over the cap": Shape(SAID + b"data: " + b"x" * (TOO_MUCH), error=502),
    "events after DONE": Shape(SAID + END + event(content("Late.")) + DONE),
    "an error after DONE": Shape(SAID + END + event({"error": {"code": 500, "message": "Late"}})),
    "DONE twice": Shape(SAID + END + DONE),
    "garbage after DONE": Shape(SAID + END + b"\0\xff" * 1000),
    "an error after content": Shape(
        SAID + event({"error": {"code": 429, "message": "Enough."}}), error=429
    ),
    "an error event by name": Shape(
        SAID + b"event: error\n" + event({"error": {"message": "Broken."}}), error=502
    ),
    "an error in the choice": Shape(
        SAID + event({"choices": [{"delta": {}, "error": {"code": 503, "message": "Busy"}}]}),
        error=503,
    ),
    "event, id and retry lines": Shape(
        b"event: message\nid: 1\nretry: 10\n" + SAID + b"id: 2\n\nretry: 5\n\n" + END
    ),
    "unknown fields": Shape(b"datum: x\nDATA: y\n" + SAID + b"nonsense\n\n" + END),
    "empty data": Shape(b"data:\n\ndata: \n\ndata\n\n" + SAID + END),
    "blank lines": Shape(b"\n\n\n" + SAID + b"\n\n\n\n" + END + b"\n"),
    "a NUL in JSON": Shape(SAID + b'data: {"choices":[{"delta":{"content":"\0"}}]}\n\n', error=502),
    "an escaped NUL": Shape(event(content("a\0b")) + END, text="a\0b"),
    "NULs between events": Shape(SAID + b"\0\0\0\n\n" + END),
    "invalid UTF-8": Shape(SAID + FOX.replace(b"\x9f", b"\xff", 1), error=502),
    "UTF-16": Shape((SAID + END).decode().encode("utf-16"), text="", error=502),
    "a number": Shape(SAID + event("5"), error=502),
    "null": Shape(SAID + event("null"), error=502),
    "an array": Shape(SAID + event("[1]"), error=502),
    "JSON cut short": Shape(SAID + event('{"choices":[{"delta":{"con'), error=502),
    "two objects in one event": Shape(SAID + event('{"choices":[]}{"choices":[]}'), error=502),
    "choices of odd parts": Shape(
        SAID + event({"choices": [None]}) + event({"choices": "x"}) + event({}) + END
    ),
    "missing final newline": Shape(SAID + event(FINISH) + USED + b"data: [DONE]"),
    "one final newline": Shape((SAID + END)[:-1]),
    "the last event is no line": Shape(SAID + b"data: " + data(FINISH)),
    "no event at all": Shape(b": only\n\n: comments\n\n", text="", error=502),
    "only DONE": Shape(DONE, text="", error=502),
    "another character set named": Shape(
        SAID + END, content_type=b"text/event-stream; charset=iso-8859-1"
    ),
    "content type in capitals": Shape(SAID + END, content_type=b"Text/Event-Stream"),
    "a fingerprint of 1 MiB": Shape(
        event({**content("Said."), "system_fingerprint": "f" * MIB}) + END
    ),
}


def sent_whole(visit: Visit, shape: Shape) -> None:
    visit.send(head(shape.content_type) + shape.body)
    visit.end()


def sent_in_pieces(visit: Visit, shape: Shape) -> None:
    """Three bytes a chunk, so that reads end within characters, fields and line ends."""
    visit.send(head(shape.content_type, CHUNKED))
    for start in range(0, len(shape.body), 3):
        visit.send(chunk(shape.body[start : start + 3]))
    visit.send(chunk(b""))


WAYS = [(name, sent_whole) for name in SHAPES]
WAYS += [
    (name, sent_in_pieces)
    for name in (
        "UTF-8 in two bytes and four",
        "data without a space",
        "CRLF",
        "CR",
        "mixed endings",
        "a comment in an event",
        "JSON over several data lines",
        "a byte-order mark",
        "events after DONE",
        "an error after content",
        "empty data",
        "invalid UTF-8",
        "missing final newline",
    )
]


@pytest.mark.parametrize(("name", "way"), WAYS)
def test_a_shape_gives_valid_events(raw: RawDesk, name: str, way: Any) -> None:
    shape = SHAPES[name]

    response = raw.ask(lambda visit: way(visit, shape), stream=True)

    if shape.error and not shape.text:
        assert error_of(response)["code"] == shape.error
        assert raw.desk.charged_nano(response.headers["X-Generation-Id"]) == 0
        return
    stream = read_stream(response)
    check_blocks(stream)
    assert stream.text == shape.text
    generation_id = stream.chunks[0]["id"]
    if shape.error is None:
        assert stream.blocks[-1] == "data: [DONE]"
        assert not any("error" in told for told in stream.chunks)
        assert raw.desk.paid_nano(stream.chunks[-1]) > 0
    else:
        assert [told["error"]["code"] for told in stream.chunks if "error" in told] == [shape.error]
        assert stream.blocks[-1].startswith("data: {")
        assert "error" in stream.chunks[-1]
        assert raw.desk.charged_nano(generation_id) == 0


def check_blocks(stream: Streamed) -> None:
    """Strict framing: one JSON object per event, comments as the reference words them."""
    assert stream.response.content.endswith(b"\n\n")
    for block in stream.blocks:
        assert re.fullmatch(r"data: \{.*\}|data: \[DONE\]|: ROUTER PROCESSING", block, re.DOTALL)
        assert "\n" not in block
        assert len(block) <= 6 * MIB


def test_what_is_said_in_every_chunk_is_short(raw: RawDesk) -> None:
    """An upstream chooses how often and how long: together that would be a factor of a million."""
    named = event({**content("Said."), "system_fingerprint": "f" * MIB})

    def script(visit: Visit) -> None:
        visit.send(head() + named + SAID * 50 + END)
        visit.end()

    stream = raw.stream(script)

    assert stream.text == "Said." * 51
    assert len(stream.response.content) < 100_000
