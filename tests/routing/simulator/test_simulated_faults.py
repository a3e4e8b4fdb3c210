"""Every named fault does on the wire what its name says, in every format."""

import json
import re
import zlib
from itertools import islice
from typing import Any

import pytest

from routing.simulator.faults import FAULTS
from tests.routing.simulator.conftest import Asked, named_events

pytestmark = pytest.mark.grid
BOTH = pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
STATUSES = {name: int(name[:3]) for name in FAULTS if name[:3].isdigit()}
TERMINATORS = {
    "chat/completions": "[DONE]",
    "messages": "message_stop",
    "responses": "response.completed",
}
GZIP = 31
DATA = re.compile(rb"^data:.*$", re.MULTILINE)
WHOLE = "Simulated answer to: Hello there"


@pytest.fixture(params=[*TERMINATORS])
def format(request) -> str:
    name: str = request.param
    return name


def text(events: list[tuple[str, Any]]) -> str:
    """What the deltas of a stream of any format say."""
    said = ""
    for _, value in events:
        choices = (value or {}).get("choices") or [{}]
        delta = choices[0].get("delta") or (value or {}).get("delta") or ""
        said += delta if isinstance(delta, str) else delta.get("content") or delta.get("text") or ""
    return said


@pytest.mark.parametrize("name", STATUSES)
def test_a_status_is_an_error_of_the_format(ask, format, name):
    for stream in (False, True):
        status, headers, body = ask(f"sim/{name}", stream=stream)
        error = json.loads(body)["error"]
        assert (status, headers["content-type"]) == (STATUSES[name], "application/json")
        assert error["message"]
        assert ("code" in error) == (format != "messages")
        assert headers.get("retry-after") == ("7" if name == "429" else None)


@pytest.mark.parametrize(("name", "words"), [("die-after-first", 1), ("die-mid-stream", 2)])
def test_a_dying_stream_says_that_many_words(upstream, wire, format, name, words):
    wire.send(upstream.request_bytes(format, f"sim/{name}", stream=True))
    wire.head()
    said = wire.to_end()
    # The first delta of chat tells the role.
    assert said.count(b'"delta":') == words + (format == "chat/completions")
    assert TERMINATORS[format].encode() not in said
    [entry] = upstream.requests()
    assert (entry["outcome"], entry["closed_by"]) == ("cut", "server")


@pytest.mark.parametrize(
    ("name", "stream", "connection"),
    [
        ("no-keepalive", False, "close"),
        ("no-keepalive", True, "close"),
        # Promises to stay, and leaves.
        ("die-idle", False, None),
    ],
)
def test_an_answer_goes_well_and_its_connection_ends(upstream, wire, name, stream, connection):
    wire.send(upstream.chat_bytes(f"sim/{name}", stream=stream))
    status, headers = wire.head()
    assert (status, headers.get("connection")) == (200, connection)
    assert wire.body(headers)
    assert wire.to_end() == b""
    assert upstream.requests()[0]["outcome"] == "answered"


@BOTH
def test_bodies_are_complete_as_http_and_of_another_kind(ask, stream):
    status, headers, body = ask("sim/html", stream=stream)
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert body.startswith(b"<!doctype html>")
    _, headers, body = ask("sim/wrong-content-type", stream=stream)
    assert headers["content-type"] == "text/plain"
    assert b"Simulated" in body
    assert ask("sim/null-body", stream=stream)[::2] == (200, b"null")
    assert ask("sim/empty-body", stream=stream)[::2] == (200, b"")
    _, headers, body = ask("sim/gzip", stream=stream)
    assert headers["content-encoding"] == "gzip"
    assert b"Simulated" in zlib.decompress(body, GZIP)


def read_streamed(chat: Asked, name: str) -> bytes:
    status, headers, body = chat(f"sim/{name}", stream=True)
    assert (status, headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    return body


@pytest.mark.parametrize(
    ("name", "mark", "undo"),
    [
        ("sse-no-space", b"data:{", lambda body: body.replace(b"data:", b"data: ")),
        ("sse-crlf", b"}\r\n\r\n", lambda body: body.replace(b"\r\n", b"\n")),
        ("sse-cr", b"}\r\rdata", lambda body: body.replace(b"\r", b"\n")),
        ("sse-bom", b"\xef\xbb\xbfdata", lambda body: body.removeprefix(b"\xef\xbb\xbf")),
        ("sse-multi-line", b"\ndata: ,", lambda body: body.replace(b"\ndata: ,", b",")),
        ("sse-comments", b"\nretry: 1000\n", lambda body: b"\n\n".join([*DATA.findall(body), b""])),
        ("sse-one-write", b"", lambda body: body),
        ("sse-unended", b"", lambda body: body + b"\n\n"),
    ],
)
def test_an_odd_shape_carries_a_whole_answer(chat, name, mark, undo):
    body = read_streamed(chat, name)
    assert mark in body
    said = named_events(undo(body))
    assert text(said) == WHOLE
    assert said[-1] == ("[DONE]", None)


def test_multi_byte_characters_are_split_over_chunks(upstream, wire):
    wire.send(upstream.chat_bytes("sim/sse-split-utf8", stream=True))
    wire.head()
    chunks = list(wire.chunks())
    assert "\u65e5\u672c" in text(named_events(b"".join(chunks)))
    assert all(len(chunk) == 1 for chunk in chunks if not chunk.isascii())


# Stalls. The server holds on until the client leaves, and says so in its log.


@pytest.mark.parametrize(
    ("name", "chunks"),
    [("hang", None), ("headers-then-silence", 0), ("silence-mid-stream", 3), ("drip", None)],
)
def test_a_stall_holds_until_the_client_leaves(upstream, wire, format, name, chunks):
    wire.send(upstream.request_bytes(format, f"sim/{name}", stream=True))
    if chunks is not None:
        assert wire.head()[0] == 200
        assert len(list(islice(wire.chunks(), chunks))) == chunks
    held = upstream.wait(state="received")
    assert held["outcome"] == "pending"
    assert name == "drip" or not wire.received
    wire.close()
    left = upstream.wait()
    assert (left["outcome"], left["closed_by"]) == ("client_left", "client")
    assert left["connection_closed_at"] >= left["received_at"]
    if name == "hang":
        assert (left["bytes_sent"], left["first_byte_at"]) == (0, None)
