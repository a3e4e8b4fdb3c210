"""Answers that stall. The server holds on until the client leaves, and says so in its log."""

from itertools import islice

import pytest


def test_hang_answers_nothing_until_the_client_leaves(upstream, wire):
    wire.send(upstream.chat_bytes("sim/hang"))
    held = upstream.wait(state="received")
    assert (held["outcome"], held["first_byte_at"]) == ("pending", None)

    wire.close()

    left = upstream.wait()
    assert (left["outcome"], left["closed_by"]) == ("client_left", "client")
    assert (left["bytes_sent"], left["first_byte_at"]) == (0, None)
    assert left["connection_closed_at"] >= left["received_at"]


@pytest.mark.parametrize(
    ("name", "content"), [("headers-then-silence", 0), ("silence-mid-stream", 3)]
)
def test_silence_comes_after_what_the_name_says(upstream, wire, name, content):
    wire.send(upstream.chat_bytes(f"sim/{name}", stream=True))
    status, headers = wire.head()
    assert (status, headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert len(list(islice(wire.chunks(), content))) == content

    assert upstream.wait(state="received")["outcome"] == "pending"
    assert not wire.received
    wire.close()
    assert upstream.wait()["outcome"] == "client_left"


def test_drip_sends_one_byte_at_a_time_without_end(upstream, wire):
    wire.send(upstream.chat_bytes("sim/drip?interval_s=0.01", stream=True))
    wire.head()

    assert b"".join(islice(wire.chunks(), 15)) == b'data: {"id":"xx'
    wire.close()
    assert upstream.wait()["outcome"] == "client_left"


def test_drip_headers_never_ends_the_headers(upstream, wire):
    wire.send(upstream.chat_bytes("sim/drip-headers?interval_s=0.001"))

    assert wire.exactly(40) == b"HTTP/1.1 200 OK\r\nX-Filler: xxxxxxxxxxxxx"


def test_slow_stream_pauses_after_one_chunk_and_ends_well(upstream, wire):
    wire.send(upstream.chat_bytes("sim/slow-stream?pause_s=0.2", stream=True))
    _, headers = wire.head()

    assert wire.body(headers).endswith(b"data: [DONE]\n\n")
    entry = upstream.wait()
    assert entry["ended_at"] - entry["first_byte_at"] >= 0.2
    assert entry["outcome"] == "answered"


@pytest.mark.parametrize(
    ("name", "stream"),
    [("endless-headers", False), ("endless-body", False), ("endless-body", True)],
)
def test_endless_answers_go_on_past_any_cap(upstream, wire, name, stream):
    wire.send(upstream.chat_bytes(f"sim/{name}", stream=stream))

    wire.exactly(4_000_000)
    wire.close()

    left = upstream.wait()
    assert left["outcome"] == "client_left"
    assert left["bytes_sent"] >= 4_000_000


def test_settings_of_a_fault_come_from_the_url_as_well(upstream, wire):
    data = upstream.chat_bytes("sim/slow-stream")
    wire.send(data.replace(b"/completions HTTP", b"/completions?pause_s=0.05 HTTP"))
    _, headers = wire.head()

    assert wire.body(headers)
    entry = upstream.wait()
    assert entry["query"] == "pause_s=0.05"
    assert entry["ended_at"] - entry["received_at"] >= 0.05
