"""Callers who leave: the upstream is let go or read to its end, and the bill is what 3.8 says."""

import json
from typing import Any

import pytest

from routing.simulator.testing import Wire
from tests.conformance.desk import CHAT, HELLO, TEXT, Desk
from tests.faults.bench import CHEAP_NANO

pytestmark = pytest.mark.thorough

PIECE = "A piece of text of forty characters or so."
PROMPT_NANO = len(TEXT) // 4 * CHEAP_NANO[0]
USAGE = {"prompt_tokens": 50, "completion_tokens": 70, "total_tokens": 120}
END: list[Any] = [
    {"json": {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}},
    {"json": {"choices": [], "usage": USAGE}},
    "[DONE]",
]


def begin(desk: Desk, *, model: str, stream: bool = True) -> Wire:
    """A chat request on a connection that the test can drop."""
    wire = Wire(int(desk.server.env["PORT"]))
    data = json.dumps({"model": model, "messages": HELLO, "stream": stream}).encode()
    head = (
        f"POST {CHAT} HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {desk.account.api_key}"
        f"\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    wire.send(head.encode() + data)
    return wire


def test_a_cancelled_stream_costs_what_was_produced(desk: Desk) -> None:
    events = [{"text": PIECE}, {"text": PIECE}, {"gate": "never"}]
    desk.upstream.script("first", {"events": events})
    wire = begin(desk, model="plain/first")
    _, headers = wire.head()
    for _ in range(2):
        wire.until(b"forty characters")

    wire.close()

    assert desk.upstream.wait(1, "disconnected", timeout_s=1)["closed_by"] == "client"
    record = desk.wait_record(headers["x-generation-id"])
    assert (record["cancelled"], record["finish_reason"]) == (True, None)
    produced_nano = 2 * len(PIECE) // 4 * CHEAP_NANO[1]
    assert desk.charged_nano(record["id"]) == PROMPT_NANO + produced_nano


def test_an_upstream_that_cannot_be_cancelled_is_read_to_its_end_and_paid(desk: Desk) -> None:
    events = [{"text": PIECE}, {"gate": "left"}, {"text": PIECE}, *END]
    desk.upstream.script("drained", {"events": events})
    wire = begin(desk, model="plain/drained")
    _, headers = wire.head()
    wire.until(b"forty characters")

    wire.close()
    # Its event loop has seen the closed socket once it has answered something that came later.
    desk.server.get("/healthz")
    desk.upstream.open_gate("left")

    assert desk.upstream.wait(1, "ended")["outcome"] == "answered"
    record = desk.wait_record(headers["x-generation-id"])
    assert record["cancelled"] is True
    assert (record["tokens_prompt"], record["tokens_completion"]) == (50, 70)
    assert desk.charged_nano(record["id"]) == 50 * CHEAP_NANO[0] + 70 * CHEAP_NANO[1]


def test_who_leaves_after_the_upstream_accepted_pays_the_prompt(desk: Desk) -> None:
    desk.upstream.script("first", {"events": [{"gate": "never"}]})
    wire = begin(desk, model="plain/first")
    # Committed without content, 0.2 s after the upstream's headers.
    _, headers = wire.head()

    wire.close()

    assert desk.upstream.wait(1, "disconnected", timeout_s=1)["closed_by"] == "client"
    record = desk.wait_record(headers["x-generation-id"])
    assert record["cancelled"] is True
    assert desk.charged_nano(record["id"]) == PROMPT_NANO


def test_who_leaves_before_the_upstream_accepted_pays_nothing(desk: Desk) -> None:
    desk.upstream.script("first", {"gate": "never"})
    wire = begin(desk, model="plain/first")
    desk.upstream.wait(1, "received")

    wire.close()

    assert desk.upstream.wait(1, "disconnected", timeout_s=1)["closed_by"] == "client"
    desk.server.wait_until(lambda: open_holds(desk) == 0)
    assert desk.total_usage_nano() == 0


def test_who_leaves_is_not_sent_to_another_endpoint(desk: Desk) -> None:
    desk.upstream.script("first", {"gate": "go", "status": 503})
    wire = begin(desk, model="pair/503.stream")
    desk.upstream.wait(1, "received")

    wire.close()
    desk.upstream.wait(1, "disconnected", timeout_s=1)
    desk.upstream.open_gate("go")

    desk.server.wait_until(lambda: open_holds(desk) == 0)
    assert desk.sent("second") == []
    assert desk.total_usage_nano() == 0


@pytest.mark.parametrize("model", ["plain/first", "plain/drained"])
def test_a_whole_answer_is_finished_and_paid_whoever_waits(desk: Desk, model: str) -> None:
    persona = model.removeprefix("plain/")
    desk.upstream.script(persona, {"gate": "left", "text": PIECE, "usage": USAGE})
    wire = begin(desk, model=model, stream=False)
    desk.upstream.wait(1, "received")

    wire.close()
    desk.upstream.open_gate("left")

    assert desk.upstream.wait(1, "ended")["outcome"] == "answered"
    paid_nano = 50 * CHEAP_NANO[0] + 70 * CHEAP_NANO[1]
    desk.server.wait_until(lambda: desk.total_usage_nano() == paid_nano)
    assert open_holds(desk) == 0


def open_holds(desk: Desk) -> int:
    count: int = desk.server.manage("audit_ledger")["open_holds"]
    return count
