import json
from itertools import islice
from typing import Any

import pytest

from routing.simulator.faults import FAULTS

BOTH = pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
STATUSES = {name: int(name[:3]) for name in FAULTS if name[:3].isdigit()}


def events(body: bytes) -> list[Any]:
    """The events of a well-formed stream; [DONE] stays a string."""
    items = [item.removeprefix("data: ") for item in body.decode().split("\n\n") if item]
    return [item if item == "[DONE]" else json.loads(item) for item in items]


# Refusals


@BOTH
@pytest.mark.parametrize("name", STATUSES)
def test_a_status_fault_is_a_json_error_with_that_status(chat, name, stream):
    status, headers, body = chat(f"sim/{name}", stream=stream)

    assert status == STATUSES[name]
    assert headers["content-type"] == "application/json"
    assert json.loads(body)["error"]["message"]
    assert headers.get("retry-after") == ("7" if name == "429" else None)


def test_a_fault_is_known_by_its_bare_name_too_and_inside_every_persona(chat):
    assert chat("503")[0] == 503
    assert chat("sim/503", persona="steady")[0] == 503


def test_an_unsupported_parameter_is_named(chat):
    error = json.loads(chat("sim/400-unsupported-parameter", seed=5)[2])["error"]

    assert (error["param"], error["code"]) == ("seed", "unsupported_parameter")


def test_a_redirect_shows_in_the_log_whether_it_was_followed(upstream, wire, chat):
    status, headers, _ = chat("sim/redirect", persona="steady")
    assert (status, headers["location"]) == (302, "/steady/v1/redirect-target")
    assert len(upstream.requests()) == 1

    wire.send(b"GET /steady/v1/redirect-target HTTP/1.1\r\n\r\n")
    wire.head()

    assert upstream.requests()[-1]["path"] == "/steady/v1/redirect-target"


# Connections that end


def test_reset_resets_without_a_byte(upstream, wire):
    wire.send(upstream.chat_bytes("sim/reset"))

    with pytest.raises(ConnectionResetError):
        wire.more()


def test_reset_after_headers_resets_after_them(upstream, wire):
    wire.send(upstream.chat_bytes("sim/reset-after-headers", stream=True))

    assert wire.head()[0] == 200
    with pytest.raises(ConnectionResetError):
        wire.to_end()


def test_close_closes_without_a_byte(upstream, wire):
    wire.send(upstream.chat_bytes("sim/close"))

    assert wire.to_end() == b""


@pytest.mark.parametrize(("name", "contents"), [("die-after-first", 1), ("die-mid-stream", 2)])
def test_a_dying_stream_ends_without_a_terminator(upstream, wire, name, contents):
    wire.send(upstream.chat_bytes(f"sim/{name}", stream=True))
    wire.head()

    chunks = wire.chunks()
    sent = b"".join(islice(chunks, contents + 1))
    with pytest.raises(EOFError):
        next(chunks)
    assert [e["choices"][0]["delta"]["content"] for e in events(sent)] == [
        "", "Simulated", " answer",
    ][: contents + 1]  # fmt: skip
    assert upstream.requests()[0]["outcome"] == "cut"
    assert upstream.requests()[0]["closed_by"] == "server"


def test_a_dying_json_answer_ends_in_its_middle(upstream, wire):
    wire.send(upstream.chat_bytes("sim/die-mid-stream"))
    _, headers = wire.head()

    assert len(wire.to_end()) == int(headers["content-length"]) // 2


@BOTH
def test_no_keepalive_answers_well_and_closes(upstream, wire, stream):
    wire.send(upstream.chat_bytes("sim/no-keepalive", stream=stream))
    status, headers = wire.head()

    assert (status, headers["connection"]) == (200, "close")
    assert wire.body(headers)
    assert wire.to_end() == b""


def test_die_idle_promises_to_stay_and_leaves(upstream, wire):
    wire.send(upstream.chat_bytes("sim/die-idle"))
    _, headers = wire.head()

    assert "connection" not in headers
    assert wire.body(headers)
    assert wire.to_end() == b""
    assert upstream.requests()[0]["outcome"] == "answered"


def test_die_on_reuse_leaves_when_the_next_request_comes(upstream, wire, chat):
    assert chat("sim/die-on-reuse")[0] == 200

    wire.send(upstream.chat_bytes("sim/small"))

    assert wire.to_end() == b""
    assert [entry["outcome"] for entry in upstream.requests()] == ["answered", "cut"]
