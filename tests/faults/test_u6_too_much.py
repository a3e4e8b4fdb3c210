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

from tests.faults.raw_desk import (
    ANSWER_BYTES_MAX,
    RawDesk,
    error_of,
    forget_peak,
    status_kib,
    worker_pids,
)
from tests.gateway.outbound.raw_upstream import chunk
from tests.support.promptness import in_time
from tests.support.raw_upstream import (
    CHUNKED,
    EVENTS,
    JSON,
    Script,
    Visit,
    answer_json,
    content,
    event,
    head,
)

pytestmark = pytest.mark.thorough

pytest_plugins = ["tests.faults.raw_fixtures"]
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


def send_only(*parts: bytes) -> Script:
    """These bytes and no more."""

    def script(visit: Visit) -> None:
        for part in parts:
            visit.send(part)
        visit.end()
        visit.silence()

    return script


LENGTH = b"Content-Length: %d"
GZIP = b"Content-Encoding: gzip"
# How bodies may lie about their length is told by `test_http_client_bodies`.
WHOLE: dict[str, Script] = {
    "endless body": endless(head(JSON) + b'{"a":"', b"x"),
    "endless small chunks": endless(head(JSON, CHUNKED), chunk(b"a few bytes")),
    "10 GB announced": endless(head(JSON, LENGTH % TEN_GB), b"x"),
    "endless page": endless(head(b"text/html"), b"<p>"),
    "endless headers": endless(b"HTTP/1.1 200 OK\r\n", b"X-More: and more\r\n"),
    "interim answers": endless(b"", b"HTTP/1.1 103 Early Hints\r\nLink: </>\r\n\r\n"),
    "endless trailers": endless(head(JSON, CHUNKED) + chunk(GOOD) + b"0\r\n", b"X-More: x\r\n"),
    "gzip of 1 GB": send_only(head(JSON, GZIP), zeros_gzipped(b'{"a":"')),
    "length too long": send_only(head(JSON, LENGTH % (len(GOOD) + 1)), GOOD),
    "length and chunks": send_only(head(JSON, LENGTH % 5, CHUNKED), chunk(GOOD), chunk(b"")),
    "gzip that is none": send_only(head(JSON, GZIP), GOOD),
}
BIG = event(content("x" * 65_000))
STREAMS: dict[str, Script] = {
    "endless comments": endless(head(), b": thinking, and thinking\n\n"),
    "endless line": endless(head() + b"data: ", b"x"),
    "endless empty data lines": endless(head(), b"data:\nid: a line that means nothing\n"),
    "endless events": endless(head(), BIG),
    "endless empty events": endless(head(), event({"choices": [{"delta": {}}]})),
    "endless small events": endless(head(), event(content("x"))),
    "gzip of 1 GB": send_only(head(EVENTS, GZIP), zeros_gzipped(b"data: ")),
    "endless error": endless(b"HTTP/1.1 500 Broken\r\n\r\n", b"x"),
}


@pytest.fixture(scope="module", autouse=True)
def warm(sit_down: Callable[[], RawDesk]) -> None:
    """Once through every part, so that what is measured afterwards is growth."""
    desk = sit_down()
    desk.ask(STREAMS["endless events"], stream=True)
    desk.ask(WHOLE["endless body"])


def ask_measured(raw: RawDesk, script: Script, **body: Any) -> requests.Response:
    """The answer to one call; the worker must not have grown meanwhile."""
    (pid,) = worker_pids(raw.server)
    forget_peak(pid)
    before_kib = status_kib(pid, "VmRSS")
    model_id = raw.model(script)

    response = raw.desk.post(model=model_id, **body)

    assert status_kib(pid, "VmHWM") - before_kib < GROWTH_KIB
    visit = raw.visit(model_id)
    assert visit.closed.wait(60), "the upstream's connection was left open"
    assert visit.bytes_sent < ANSWER_BYTES_MAX + IN_FLIGHT
    return response


CUT = [(name, script, False) for name, script in WHOLE.items()]
CUT += [(name, script, True) for name, script in STREAMS.items()]


@pytest.mark.parametrize(("name", "script", "stream"), CUT, ids=[name for name, _, _ in CUT])
def test_an_answer_is_cut_at_its_cap(raw: RawDesk, name: str, script: Script, stream: bool) -> None:
    response = ask_measured(raw, script, stream=stream)

    error = error_of(response)
    assert (error["code"], error["metadata"]["error_type"]) == (502, "provider_unavailable")
    assert len(response.content) < (10 * ANSWER_BYTES_MAX if stream else 100_000)
    assert raw.desk.charged_nano(response.headers["X-Generation-Id"]) == 0


FLOODS = {
    "comments": (head(), b": x\n\n"),
    "small events": (head(), event(content("x"))),
    "small chunks": (head(EVENTS, CHUNKED), chunk(b"\n")),
}


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_does_not_silence_other_streams(raw: RawDesk, name: str) -> None:
    """Bytes that are always there never let a read wait; others must have their turn as well."""
    beside = raw.model(dripping)
    with closing(raw.begin(beside)) as wire:
        wire.read_until(b"tick")
        start, more = FLOODS[name]
        flood = send_only(start, more * (3 * MIB // len(more)))
        job = threading.Thread(target=raw.ask, args=(flood,), kwargs={"stream": True})
        job.start()
        gaps_s = []
        while job.is_alive():
            began = time.monotonic()
            wire.read_until(b"tick")
            gaps_s.append(time.monotonic() - began)
        job.join()

    assert len(gaps_s) > 10
    # Unloaded it is 20 ms; a flood that is read in one go makes it several hundred.
    in_time(max(gaps_s), 0.15)


def dripping(visit: Visit) -> None:
    visit.send(head())
    visit.drip(event(content("tick")), every_s=0.01)
