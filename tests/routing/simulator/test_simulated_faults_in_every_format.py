"""The named faults do in every format what their names say."""

import json
from typing import Any

import pytest

from routing.simulator.faults import FAULTS
from tests.routing.simulator.speaking import Asked, named_events

pytestmark = pytest.mark.grid
BOTH = pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
STATUSES = {name: int(name[:3]) for name in FAULTS if name[:3].isdigit()}
TERMINATORS = {"messages": "message_stop", "responses": "response.completed"}


@pytest.fixture(params=["messages", "responses"])
def format(request) -> str:
    name: str = request.param
    return name


@pytest.fixture
def ask(upstream, wire, format) -> Asked:
    return Asked(upstream, wire, format)


@pytest.mark.parametrize("name", STATUSES)
def test_a_status_is_an_error_of_the_format(ask, format, name):
    status, headers, body = ask(f"sim/{name}")

    error = json.loads(body)["error"]
    assert (status, headers["content-type"]) == (STATUSES[name], "application/json")
    assert error["message"]
    assert ("code" in error) == (format == "responses")


def test_a_stream_without_its_end_lacks_the_terminator_only(ask, format):
    whole, cut = (
        named_events(ask(stream=True)[2]),
        named_events(ask("sim/sse-no-done", stream=True)[2]),
    )

    assert [name for name, _ in whole[:-1]] == [name for name, _ in cut]
    assert whole[-1][0] == TERMINATORS[format]


def test_an_error_comes_inside_before_or_after_words(ask):
    before = named_events(ask("sim/sse-error-inside", stream=True)[2])
    after = named_events(ask("sim/sse-error-mid", stream=True)[2])

    assert [name for name, _ in before] == ["error"]
    assert after[-1][0] == "error"
    said = "".join(str(value.get("delta", "")) for _, value in after)
    assert "Simulated" in said


def test_an_error_inside_a_document_comes_with_200(ask):
    assert ask.document("sim/sse-error-inside")["error"]["message"].startswith("Simulated failure")


@pytest.mark.parametrize(("name", "words"), [("die-after-first", 1), ("die-mid-stream", 2)])
def test_a_dying_stream_says_that_many_words(upstream, wire, format, name, words):
    wire.send(upstream.request_bytes(format, f"sim/{name}", stream=True))
    wire.head()

    said = wire.to_end()

    assert said.count(b'"delta":') == words
    assert TERMINATORS[format].encode() not in said
    assert upstream.requests()[0]["outcome"] == "cut"


@BOTH
@pytest.mark.parametrize("name", ["html", "null-body", "empty-body", "wrong-content-type", "gzip"])
def test_bodies_are_complete_as_http(ask, name, stream):
    assert ask(f"sim/{name}", stream=stream)[0] == 200


@BOTH
def test_the_answering_part_can_be_missing(ask, format, stream):
    if not stream:
        answer = ask.document("sim/empty-choices")
        assert answer["content" if format == "messages" else "output"] is None
        return
    events = named_events(ask("sim/empty-choices", stream=True)[2])
    assert events[-1][0] == TERMINATORS[format]
    assert not any("delta" in value for _, value in events)


def test_a_large_event_holds_its_text(ask):
    items = ask("sim/sse-big-event", stream=True)[2].split(b"\n\n")

    assert 5_000_000 < max(len(item) for item in items) < 5_002_000


def test_garbage_is_no_json(ask):
    with pytest.raises(ValueError, match=r"\w"):
        named_events(ask("sim/sse-garbage", stream=True)[2])


@BOTH
def test_claims_are_told_in_the_formats_words(ask, stream):
    def usage(name: str) -> Any:
        if not stream:
            return ask.document(f"sim/{name}").get("usage")
        values = [value for _, value in ask.events(f"sim/{name}")]
        told = [v.get("usage") or v.get("response", {}).get("usage") for v in values]
        return next((one for one in reversed(told) if one), None)

    assert usage("missing-usage") is None
    assert usage("usage-negative")["output_tokens"] == -7
    assert usage("usage-absurd")["input_tokens"] == 10**12
    assert usage("usage-string")["input_tokens"] == "12"


@pytest.mark.parametrize("name", ["hang", "headers-then-silence", "silence-mid-stream", "drip"])
def test_stalls_hold_until_the_client_leaves(upstream, wire, format, name):
    wire.send(upstream.request_bytes(format, f"sim/{name}", stream=True))
    upstream.wait(state="received")

    wire.close()

    assert upstream.wait()["outcome"] == "client_left"


@pytest.mark.parametrize("name", sorted(FAULTS.keys() - STATUSES.keys()))
def test_every_fault_sends_something_or_ends(upstream, format, name):
    """No fault breaks the simulator itself: the next request is answered."""
    with upstream.wire() as wire:
        model = f"sim/{name}?decoded_mib=1&pause_s=0.01&interval_s=0.01"
        wire.send(upstream.request_bytes(format, model, stream=True))
        upstream.wait(state="received")

    with upstream.wire() as wire:
        assert Asked(upstream, wire, format)()[0] == 200


@pytest.mark.parametrize("format_name", ["chat/completions", "messages", "responses"])
def test_scripts_are_played_in_every_format(upstream, wire, format_name):
    script = [{"text": "Simulated"}, {"gate": "middle"}, {"failure": "Gone"}, {"cut": "close"}]
    upstream.script("default", {"events": script})
    wire.send(upstream.request_bytes(format_name, "m", stream=True))
    wire.until(b"Simulated")
    upstream.wait_gate("middle")
    upstream.open_gate("middle")

    assert b"Gone" in wire.to_end()
    assert upstream.wait()["outcome"] == "cut"
