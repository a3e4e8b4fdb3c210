"""U4: event streams in every shape upstreams send them. The caller sees valid events, and either
the content and `[DONE]`, or what came before the fault and one error event.

How events are framed is `test_sse`'s; here is what the gateway makes of them.
"""

import re
from dataclasses import dataclass

import pytest

from tests.conformance.desk import Streamed, read_stream
from tests.faults.raw_desk import EVENT_BYTES_MAX, RawDesk, error_of
from tests.gateway.outbound.raw_upstream import chunk
from tests.support.raw_upstream import (
    CHUNKED,
    END,
    FINISH,
    USAGE,
    Visit,
    content,
    event,
    head,
)

pytest_plugins = ["tests.faults.raw_fixtures"]
MIB = 1024 * 1024
SAID, DONE = event(content("Said.")), event("[DONE]")
FIVE_MIB, TOO_MUCH = "x" * (5 * MIB), "x" * (EVENT_BYTES_MAX + MIB // 2)
FOX = 'data: {"choices":[{"delta":{"content":"🦊é"}}]}\n\n'.encode()
LATE = {"error": {"code": 429, "message": "Late"}}
BUSY = {"choices": [{"delta": {}, "error": {"code": 503, "message": "Busy"}}]}
EVENTS = b"text/event-stream"


@dataclass(frozen=True)
class Shape:
    """`text` is what the caller must read; `error` the code of the error event, None for none."""

    body: bytes
    text: str = "Said."
    error: int | None = None
    content_type: bytes = EVENTS
    # Three bytes a chunk, so that reads end within characters, fields and line ends.
    in_pieces: bool = False

    def play(self, visit: Visit) -> None:
        if not self.in_pieces:
            visit.send(head(self.content_type) + self.body)
            visit.end()
            return
        visit.send(head(self.content_type, CHUNKED))
        for start in range(0, len(self.body), 3):
            visit.send(chunk(self.body[start : start + 3]))
        visit.send(chunk(b""))


SHAPES: dict[str, Shape] = {
    "as it should be": Shape(SAID + END),
    "in pieces, with CRLF": Shape((SAID + END).replace(b"\n", b"\r\n"), in_pieces=True),
    "no DONE, finished": Shape(SAID + event(FINISH)),
    "no DONE, usage": Shape(SAID + event(FINISH) + event({"choices": [], "usage": USAGE})),
    "no DONE, not finished": Shape(SAID, error=502),
    "an event of 5 MiB": Shape(event(content(FIVE_MIB)) + END, text=FIVE_MIB),
    "an event over the cap": Shape(SAID + event(content(TOO_MUCH)) + END, error=502),
    "no end of line over the cap": Shape(SAID + b"data: " + TOO_MUCH.encode(), error=502),
    "events after DONE": Shape(SAID + END + event(content("Late.")) + DONE),
    "an error after content": Shape(SAID + event(LATE), error=429, in_pieces=True),
    "an error event by name": Shape(
        SAID + b"event: error\n" + event({"error": {"message": "Broken."}}), error=502
    ),
    "an error in the choice": Shape(SAID + event(BUSY), error=503),
    "a NUL in JSON": Shape(SAID + b'data: {"choices":[{"delta":{"content":"\0"}}]}\n\n', error=502),
    "invalid UTF-8": Shape(SAID + FOX.replace(b"\x9f", b"\xff", 1), error=502, in_pieces=True),
    "UTF-16": Shape((SAID + END).decode().encode("utf-16"), text="", error=502),
    **{text: Shape(SAID + event(text), error=502) for text in ("5", '{"cut":"sho')},
    "two objects in one event": Shape(SAID + event('{"choices":[]}{"choices":[]}'), error=502),
    "no event at all": Shape(b": only\n\n: comments\n\n", text="", error=502),
    "only DONE": Shape(DONE, text="", error=502),
    "another character set named": Shape(SAID + END, content_type=EVENTS + b"; charset=latin-1"),
    "content type in capitals": Shape(SAID + END, content_type=b"Text/Event-Stream"),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_gives_valid_events(raw: RawDesk, name: str) -> None:
    shape = SHAPES[name]

    response = raw.ask(shape.play, stream=True)

    if shape.error and not shape.text:
        assert error_of(response)["code"] == shape.error
        assert raw.desk.charged_nano(response.headers["X-Generation-Id"]) == 0
        return
    stream = read_stream(response)
    check_blocks(stream)
    assert stream.text == shape.text
    codes = [said["error"]["code"] for said in stream.chunks if "error" in said]
    if shape.error is None:
        assert (stream.blocks[-1], codes) == ("data: [DONE]", [])
        assert raw.desk.paid_nano(stream.chunks[-1]) > 0
    else:
        assert codes == [shape.error] == [stream.chunks[-1]["error"]["code"]]
        assert stream.blocks[-1].startswith("data: {")
        assert raw.desk.charged_nano(stream.chunks[0]["id"]) == 0


def check_blocks(stream: Streamed) -> None:
    """Strict framing: one JSON object per event, comments as the reference words them."""
    assert stream.response.content.endswith(b"\n\n")
    for block in stream.blocks:
        assert re.fullmatch(r"data: \{.*\}|data: \[DONE\]|: ROUTER PROCESSING", block)
        assert len(block) <= 6 * MIB


def test_what_is_said_in_every_chunk_is_short(raw: RawDesk) -> None:
    """An upstream chooses how often and how long: together that would be a factor of a million."""
    named = event({**content("Said."), "system_fingerprint": "f" * MIB})

    stream = raw.stream(Shape(named + SAID * 50 + END).play)

    assert stream.text == "Said." * 51
    assert len(stream.response.content) < 100_000
