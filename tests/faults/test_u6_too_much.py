"""U6: upstreams that send without end, or lie about how much they send. Each is cut at its cap; the
worker's memory grows by less than 20 MB, at its peak too."""

import threading
import time
import zlib
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
import requests

from tests.support.promptness import in_time
from tests.support.raw_desk import (
    ANSWER_BYTES_MAX,
    RawDesk,
    error_of,
    forget_peak,
    status_kib,
    worker_pids,
)
from tests.support.raw_upstream import (
    CHUNKED,
    END,
    EVENTS,
    JSON,
    Script,
    Visit,
    answer_json,
    chunk,
    content,
    event,
    good_stream,
    head,
    whole,
)

pytestmark = pytest.mark.thorough

pytest_plugins = ["tests.support.raw_fixtures"]
MIB = 1024 * 1024
GROWTH_KIB = 20 * 1024
# What the kernel takes in beyond what the gateway reads, at the most.
IN_FLIGHT = 100 * MIB
TEN_GB = 10 * 1000**3
GOOD = answer_json("All of it.")


def zeros_gzipped(data: bytes) -> bytes:
    """The beginning of a gzip body, and a block of it that may be repeated at will."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    begun = packer.compress(data) + packer.flush(zlib.Z_FULL_FLUSH)
    again = packer.compress(bytes(MIB)) + packer.flush(zlib.Z_FULL_FLUSH)
    return begun + again * 1024


def endless(start: bytes, more: bytes) -> Script:
    def script(visit: Visit) -> None:
        visit.send(start)
        visit.flood(more * (65_536 // len(more) or 1), bytes_max=TEN_GB)

    return script


def said(*parts: bytes) -> Script:
    """These bytes and no more."""

    def script(visit: Visit) -> None:
        for part in parts:
            visit.send(part)
        visit.end()
        visit.silence()

    return script


LENGTH = b"Content-Length: %d"
GZIP = b"Content-Encoding: gzip"
WHOLE: dict[str, Script] = {
    "endless body": endless(head(JSON) + b'{"a":"', b"x"),
    "endless chunks": endless(head(JSON, CHUNKED), chunk(b"x" * 65_000)),
    "endless small chunks": endless(head(JSON, CHUNKED), chunk(b"a few bytes")),
    "10 GB announced": endless(head(JSON, LENGTH % TEN_GB), b"x"),
    "endless page": endless(head(b"text/html"), b"<p>"),
    "endless headers": endless(b"HTTP/1.1 200 OK\r\n", b"X-More: and more\r\n"),
    "endless header": endless(b"HTTP/1.1 200 OK\r\nX-Long: ", b"x"),
    "endless reason": endless(b"HTTP/1.1 200 ", b"very "),
    "interim answers": endless(b"", b"HTTP/1.1 103 Early Hints\r\nLink: </>\r\n\r\n"),
    "interim answers with heads": endless(b"HTTP/1.1 103 Early Hints\r\n", b"Link: </style>\r\n"),
    "endless trailers": endless(head(JSON, CHUNKED) + chunk(GOOD) + b"0\r\n", b"X-More: x\r\n"),
    "endless chunk extension": endless(head(JSON, CHUNKED) + b"5;", b"x"),
    "endless chunk size": endless(head(JSON, CHUNKED), b"0"),
    "gzip of 1 GB": said(head(JSON, GZIP), zeros_gzipped(b'{"a":"')),
    "length too long": said(head(JSON, LENGTH % (len(GOOD) + 1)), GOOD),
    "length too short": said(head(JSON, LENGTH % (len(GOOD) - 1)), GOOD),
    "length negative": said(head(JSON, b"Content-Length: -1"), GOOD),
    "length no number": said(head(JSON, b"Content-Length: many"), GOOD),
    "length beyond all": said(head(JSON, b"Content-Length: " + b"9" * 40), GOOD),
    "two lengths": said(head(JSON, LENGTH % len(GOOD), LENGTH % 5), GOOD),
    "length and chunks": said(head(JSON, LENGTH % 5, CHUNKED), chunk(GOOD), chunk(b"")),
    "chunk too long": said(head(JSON, CHUNKED), b"%x\r\n" % (len(GOOD) + 9) + GOOD),
    "chunk too short": said(head(JSON, CHUNKED), b"%x\r\n" % 9 + GOOD + b"\r\n", chunk(b"")),
    "chunk beyond all": said(head(JSON, CHUNKED), b"f" * 20 + b"\r\n" + GOOD),
    "no last chunk": said(head(JSON, CHUNKED), chunk(GOOD)),
    "chunks of no hex": said(head(JSON, CHUNKED), b"zz\r\n" + GOOD),
    "gzip cut short": said(head(JSON, GZIP), zlib.compress(GOOD, wbits=31)[:-12]),
    "gzip that is none": said(head(JSON, GZIP), GOOD),
}
# Faults an answer survives: all of it is there, whatever follows.
WHOLE_ENOUGH = {
    "more than its length": said(whole(GOOD) + b"x" * 1000),
    "a second answer": said(whole(GOOD) + whole(b"{}")),
    "trailers": said(head(JSON, CHUNKED), chunk(GOOD), b"0\r\nX-Trailer: x\r\n\r\n"),
    "interim answers first": said(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 10, whole(GOOD)),
}
BIG = event(content("x" * 65_000))
STREAMS: dict[str, Script] = {
    "endless comments": endless(head(), b": thinking, and thinking\n\n"),
    "endless blank lines": endless(head(), b"\n\n\n\n: and something that means nothing\n\n\n"),
    "endless line": endless(head() + b"data: ", b"x"),
    "endless comment": endless(head() + b": ", b"x"),
    "endless name": endless(head() + b"event: ", b"x"),
    "endless data lines": endless(head(), b"data: one of a great many lines of data\n"),
    "endless empty data lines": endless(head(), b"data:\nid: a line that means nothing\n"),
    "endless events": endless(head(), BIG),
    "endless empty events": endless(head(), event({"choices": [{"delta": {}}]})),
    "endless small events": endless(head(), event(content("x"))),
    "gzip of 1 GB": said(head(EVENTS, GZIP), zeros_gzipped(b"data: ")),
    "endless error": endless(b"HTTP/1.1 500 Broken\r\n\r\n", b"x"),
    "endless page": endless(head(b"text/html"), b"<p>"),
}


@pytest.fixture(scope="module", autouse=True)
def warm(sit_down: Callable[[], RawDesk]) -> None:
    """Once through every part, so that what is measured afterwards is growth."""
    desk = sit_down()
    desk.ask(STREAMS["endless events"], stream=True)
    desk.ask(WHOLE["endless body"])


def measured(raw: RawDesk, script: Script, **body: Any) -> requests.Response:
    """The answer to one call; the worker must not have grown meanwhile."""
    (pid,) = worker_pids(raw.server)
    forget_peak(pid)
    before_kib = status_kib(pid, "VmRSS")
    model_id = raw.model(script)

    response = raw.desk.post(model=model_id, **body)

    assert status_kib(pid, "VmHWM") - before_kib < GROWTH_KIB
    visit = raw.visit(model_id)
    assert visit.closed.wait(2), "the upstream's connection was left open"
    assert visit.bytes_sent < ANSWER_BYTES_MAX + IN_FLIGHT
    return response


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_answer_is_cut_at_its_cap(raw: RawDesk, name: str) -> None:
    response = measured(raw, WHOLE[name])

    error = error_of(response)
    assert (error["code"], error["metadata"]["error_type"]) == (502, "provider_unavailable")
    assert len(response.content) < 100_000
    assert raw.desk.charged_nano(response.headers["X-Generation-Id"]) == 0


@pytest.mark.parametrize("name", WHOLE_ENOUGH)
def test_what_is_whole_is_taken_and_its_connection_never_used_again(
    raw: RawDesk, name: str
) -> None:
    model_id = raw.model(WHOLE_ENOUGH[name])

    answers = [raw.desk.ok(model=model_id) for _ in range(2)]

    for told in answers:
        assert told["choices"][0]["message"]["content"] == "All of it."
    first, second = raw.visits(model_id)
    assert first.connection != second.connection


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_is_cut_at_its_cap(raw: RawDesk, name: str) -> None:
    response = measured(raw, STREAMS[name], stream=True)

    error = error_of(response)
    assert (error["code"], error["metadata"]["error_type"]) == (502, "provider_unavailable")
    assert len(response.content) < 10 * ANSWER_BYTES_MAX
    assert raw.desk.charged_nano(response.headers["X-Generation-Id"]) == 0


def test_what_floods_after_the_end_is_not_read(raw: RawDesk) -> None:
    """The caller has its `[DONE]` at once, whatever the upstream goes on to say."""
    script = endless(head() + event(content("All of it.")) + END, BIG)
    model_id = raw.model(script)

    stream = raw.desk.stream(model=model_id)

    assert stream.text == "All of it."
    assert stream.blocks[-1] == "data: [DONE]"
    assert raw.desk.paid_nano(stream.chunks[-1]) > 0
    visit = raw.visit(model_id)
    assert visit.closed.wait(2)
    # No more than a few reads of it, and what the kernel had taken in by then.
    assert visit.bytes_sent < IN_FLIGHT


FLOODS = {
    "comments": (head(), b": x\n\n"),
    "empty events": (head(), event({"choices": [{"delta": {}}]})),
    "small events": (head(), event(content("x"))),
    "small chunks": (head(EVENTS, CHUNKED), chunk(b"\n")),
}


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_does_not_silence_other_streams(raw: RawDesk, name: str) -> None:
    """Bytes that are always there never let a read wait; others must have their turn as well."""
    beside = raw.model(dripping)
    with closing(raw.begin(beside)) as wire:
        wire.until(b"tick")
        start, more = FLOODS[name]
        flood = said(start, more * (3 * MIB // len(more)))
        job = threading.Thread(target=raw.ask, args=(flood,), kwargs={"stream": True})
        job.start()
        gaps_s = []
        while job.is_alive():
            began = time.monotonic()
            wire.until(b"tick")
            gaps_s.append(time.monotonic() - began)
        job.join()

    assert len(gaps_s) > 10
    # Unloaded it is 20 ms; a flood that is read in one go makes it several hundred.
    in_time(max(gaps_s), 0.15)


def dripping(visit: Visit) -> None:
    visit.send(head())
    visit.drip(event(content("tick")), every_s=0.01)


def test_a_good_stream_leaves_its_connection_for_the_next(raw: RawDesk) -> None:
    """The twin: a connection is closed for a reason."""
    model_id = raw.model(good_stream("Good."))

    for _ in range(2):
        assert raw.desk.stream(model=model_id).text == "Good."

    assert len({visit.connection for visit in raw.visits(model_id)}) == 1
