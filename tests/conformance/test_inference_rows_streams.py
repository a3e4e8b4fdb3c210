"""Rows 49, 51 to 54 and 59: streams from commitment to their ends, good and bad."""

import json
from decimal import Decimal
from typing import Any

import pytest

from routing.simulator.testing import SimulatedUpstream, Wire
from tests.conformance.desk import CHAT, HELLO, Desk, Serve, nano, read_stream
from tests.support.catalogue import rewritten
from tests.support.gateways import StartGateway, seed_account

# Long enough for the estimator to count several tokens.
FIRST, SECOND = "The first piece of text. ", "And then the second. "


def open_stream(desk: Desk, **body: Any) -> Wire:
    """A streamed request on a connection of its own, to be read as it comes."""
    wire = Wire(int(desk.server.env["PORT"]))
    given = {"model": desk.model, "messages": [{"role": "user", "content": "Hello there"}]}
    data = json.dumps({**given, "stream": True, **body}).encode()
    head = (
        f"POST {CHAT} HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {desk.account.api_key}"
        f"\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    wire.send(head.encode() + data)
    return wire


def test_a_stream_ends_with_its_usage_and_done(desk: Desk) -> None:
    stream = desk.stream(messages=[{"role": "user", "content": "say 5 words"}])

    chunks = stream.chunks
    first, *content, terminal, usage = chunks
    assert stream.blocks[-1] == "data: [DONE]"
    assert stream.response.headers["X-Generation-Id"] == chunks[0]["id"]
    assert {(each["id"], each["created"], each["model"]) for each in chunks} == {
        (first["id"], first["created"], "acme/solo")
    }
    assert {each["object"] for each in chunks} == {"chat.completion.chunk"}
    assert {each["provider"] for each in chunks} == {"Gamma"}
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert first["choices"][0]["finish_reason"] is None
    assert len(content) == 5
    assert all("usage" not in each for each in chunks[:-1])
    for chunk, finish in ((terminal, "stop"), (usage, None)):
        (last,) = chunk["choices"]
        assert last["delta"] == {"content": ""}
        assert (last["finish_reason"], last["native_finish_reason"]) == (finish, finish)
    assert usage["usage"]["completion_tokens"] == 5
    assert desk.the_one_sent()["stream_options"] == {"include_usage": True}
    assert desk.paid_nano(usage) == 1_000 * usage["usage"]["prompt_tokens"] + 2_000 * 5
    assert desk.generation(first["id"])["streamed"] is True


@pytest.mark.parametrize("first", ["an event", "silence"])
def test_the_headers_leave_with_the_first_event_or_soon(
    desk: Desk, serve: Serve, first: str
) -> None:
    """Nothing else has been written by then: no keep-alive took them along."""
    role: dict[str, object] = {
        "json": {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}
    }
    if first == "silence":
        desk, role = serve(ROUTER_STREAM_COMMIT_SECONDS="0.2")(), {"pause_s": 0}
    events = [role, {"gate": "headers"}, {"text": "Hi."}, {"finish": "stop"}]
    desk.upstream.script("gamma", {"events": events})

    with desk.server.chat(
        key=desk.account.api_key, model="acme/solo", messages=HELLO, stream=True
    ) as response:
        desk.upstream.open_gate("headers")
        stream = read_stream(response)

    assert (stream.text, stream.comments) == ("Hi.", 0)


def test_stream_headers_keep_proxies_from_buffering(desk: Desk) -> None:
    headers = desk.stream().response.headers

    assert headers["Cache-Control"] == "no-cache"
    assert headers["X-Accel-Buffering"] == "no"


@pytest.mark.parametrize("option", [{"include_usage": False}, {"include_usage": True}, None])
def test_usage_comes_whatever_stream_options_say(desk: Desk, option: Any) -> None:
    assert desk.stream(stream_options=option).usage["total_tokens"] > 0


def test_the_books_are_closed_before_the_usage_chunk_is_read(desk: Desk) -> None:
    wire = open_stream(desk)
    wire.head()
    event = wire.until(b'"usage":') + wire.until(b"}\n\n")
    chunk = json.loads(event[event.rindex(b"data: ") + 6 :], parse_float=Decimal)

    amount = desk.ledger_nano(chunk["id"])

    assert nano(chunk["usage"]["cost"]) == amount == desk.total_usage_nano()
    assert b"data: [DONE]\n\n" in wire.received
    wire.close()


def test_an_upstream_that_dies_mid_stream(desk: Desk) -> None:
    pieces = [{"text": FIRST}, {"text": SECOND}, {"cut": "close"}]
    desk.upstream.script("gamma", {"events": pieces})

    stream = desk.stream()

    assert "data: [DONE]" not in stream.blocks
    assert stream.text == FIRST + SECOND
    last = stream.chunks[-1]
    assert last["error"]["code"] == 502
    assert last["error"]["metadata"]["error_type"] == "provider_unavailable"
    assert last["choices"] == [
        {
            "index": 0,
            "delta": {"content": ""},
            "finish_reason": "error",
            "native_finish_reason": None,
        }
    ]
    assert all("usage" not in chunk for chunk in stream.chunks)
    assert last["id"] == stream.response.headers["X-Generation-Id"] == stream.chunks[0]["id"]
    assert desk.charged_nano(last["id"]) == 0
    assert desk.generation(last["id"])["finish_reason"] == "error"
    assert len(desk.upstream.requests()) == 1


@pytest.fixture
def hasty_desk(start_gateway: StartGateway, simulator: SimulatedUpstream, tmp_path: Any) -> Desk:
    """A gateway whose keep-alive is due after 0.1 s."""
    simulator.clear()
    file = tmp_path / "catalogue.yaml"
    file.write_text(rewritten(simulator.url), encoding="utf-8")
    server = start_gateway.build(ROUTER_KEEPALIVE_SECONDS="0.1")
    server.manage("load_catalogue", str(file))
    server.start()
    return Desk(server, simulator, seed_account(server))


def test_comments_fill_the_silence(hasty_desk: Desk) -> None:
    desk = hasty_desk
    events = [{"text": FIRST}, {"gate": "silence"}, {"text": SECOND}]
    desk.upstream.script("gamma", {"events": [*events, finish(), "[DONE]"]})
    wire = open_stream(desk)
    wire.until(b"first piece")

    wire.until(b": ROUTER PROCESSING\n\n")
    wire.until(b": ROUTER PROCESSING\n\n")
    desk.upstream.open_gate("silence")

    rest = wire.until(b"data: [DONE]\n\n")
    assert b"And then the second." in rest
    wire.close()


def finish() -> dict[str, Any]:
    return {"json": {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}}


def test_a_caller_who_leaves_pays_for_what_was_produced(desk: Desk) -> None:
    events = [{"text": FIRST}, {"gate": "never"}, {"text": SECOND}]
    desk.upstream.script("gamma", {"events": events})
    wire = open_stream(desk)
    _, headers = wire.head()
    wire.until(b"first piece")

    wire.close()

    upstream = desk.upstream.wait(1, "disconnected", timeout_s=1)
    assert upstream["closed_by"] == "client"
    record = desk.wait_record(headers["x-generation-id"])
    assert (record["cancelled"], record["finish_reason"], record["streamed"]) == (True, None, True)
    produced, prompt = len(FIRST) // 4, len("Hello there") // 4
    assert (record["tokens_prompt"], record["tokens_completion"]) == (prompt, produced)
    assert desk.charged_nano(record["id"]) == 1_000 * prompt + 2_000 * produced


def test_a_break_by_the_upstreams_own_word(desk: Desk) -> None:
    desk.upstream.script("gamma", {"text": FIRST, "finish_reason": "error"})

    answer = desk.ok()

    (choice,) = answer["choices"]
    assert choice["message"]["content"] == FIRST
    assert choice["finish_reason"] == "error"
    assert choice["error"]["code"] == 502
    assert choice["error"]["metadata"]["error_type"] == "provider_unavailable"
    assert desk.paid_nano(answer) == 0
    assert len(desk.upstream.requests()) == 1


def test_the_debug_chunk_comes_first(desk: Desk) -> None:
    stream = desk.stream(debug={"echo_upstream_body": True}, temperature=0.5)

    first, second = stream.chunks[:2]
    assert first["choices"] == []
    told = json.loads(json.dumps(first["debug"]["echo_upstream_body"], default=float))
    assert told == desk.the_one_sent()
    assert second["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert "gamma-credential" not in stream.response.text
    assert all("debug" not in chunk for chunk in stream.chunks[1:])


def test_without_a_stream_debug_is_ignored(desk: Desk) -> None:
    answer = desk.ok(debug={"echo_upstream_body": True})

    assert "debug" not in answer
    assert "debug" not in desk.the_one_sent()
    assert desk.paid_nano(answer) > 0
