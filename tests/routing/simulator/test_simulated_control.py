import json
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from time import monotonic

import pytest

from tests.routing.simulator.conftest import Asked


def test_the_log_shows_what_came_and_hides_the_key(upstream, wire):
    data = upstream.chat_bytes("sim/small", persona="swift", seed=3)
    key = "Authorization: Bearer sk-secret-value\r\nX-Custom: Kept\r\n"
    wire.send(data.replace(b"Host:", key.encode() + b"Host:"))
    before = monotonic()
    wire.head()
    entry = upstream.wait()
    assert (entry["persona"], entry["method"]) == ("swift", "POST")
    assert entry["path"] == "/swift/v1/chat/completions"
    assert (entry["body"]["seed"], entry["status"]) == (3, 200)
    assert entry["body_raw_bytes"] == int(entry["headers"]["content-length"])
    assert entry["headers"]["x-custom"] == "Kept"
    assert entry["authorization_present"] is True
    digest = sha256(b"sk-secret-value").hexdigest()
    assert entry["headers"]["authorization"] == f"sha256:{digest[:16]}"
    assert "sk-secret" not in json.dumps(upstream.requests())
    assert abs(entry["received_at"] - before) < 10
    assert entry["received_at"] <= entry["first_byte_at"] <= entry["ended_at"]


def test_each_request_takes_one_step_and_then_all_is_normal(upstream, chat):
    upstream.script(
        "default",
        {"fault": "429", "options": {"retry_after": 2}},
        {"status": 418, "headers": {"X-Pot": "tea"}, "json": {"a": 1}},
        {"status": 502, "body": "<p>", "content_type": "text/html"},
        {"status": 500},
        {"text": "Scripted words", "usage": {"prompt_tokens": 9}, "finish_reason": "length"},
        {"tool_calls": [{"name": "f", "arguments": {"x": 1}}]},
    )
    status, headers, _ = chat()
    assert (status, headers["retry-after"]) == (429, "2")
    status, headers, body = chat()
    assert (status, headers["x-pot"], json.loads(body)) == (418, "tea", {"a": 1})
    status, headers, body = chat()
    assert (status, headers["content-type"], body) == (502, "text/html", b"<p>")
    assert chat.expect_refusal(500)
    scripted = chat.document(max_tokens=1)
    [choice] = scripted["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("Scripted words", "length")
    assert scripted["usage"] == {"prompt_tokens": 9}
    [choice] = chat.document()["choices"]
    [call] = choice["message"]["tool_calls"]
    assert call["function"] == {"name": "f", "arguments": '{"x": 1}'}
    assert choice["finish_reason"] == "tool_calls"
    assert b"Simulated answer" in chat()[2]


def test_scripted_events_go_out_as_written(upstream, chat):
    events = ["data: raw\n\n", {"json": {"a": 1}}, {"pause_s": 0.01}, ": hm\n\n", "[DONE]"]
    upstream.script("default", {"events": events})
    _, headers, body = chat()
    assert headers["content-type"] == "text/event-stream; charset=utf-8"
    assert body == b'data: raw\n\ndata: {"a":1}\n\n: hm\n\ndata: [DONE]\n\n'


@pytest.mark.parametrize(("cut", "error"), [("close", EOFError), ("reset", ConnectionResetError)])
def test_scripted_events_can_cut_the_connection(upstream, wire, cut, error):
    upstream.script("acted", {"events": [{"text": "Hi"}, {"cut": cut}, "[DONE]"]})
    wire.send(upstream.chat_bytes("m", persona="acted"))
    wire.read_until(b'"Hi"')
    with pytest.raises(error):
        wire.read_until(b"[DONE]")


def test_a_gate_holds_a_stream_at_an_exact_moment(upstream, wire):
    upstream.script("held", {"events": [{"text": "one"}, {"gate": "middle"}, {"text": "two"}]})
    wire.send(upstream.chat_bytes("m", persona="held"))
    wire.read_until(b'"one"')
    upstream.wait_gate("middle")
    assert b'"two"' not in wire.received
    assert upstream.wait(state="received")["outcome"] == "pending"
    upstream.open_gate("middle")
    assert wire.read_until(b'"two"')
    assert upstream.wait()["outcome"] == "answered"


def test_concurrent_requests_share_a_script_step_by_step(upstream):
    steps = [f"step {n}" for n in range(20)]
    upstream.script("default", *[{"text": step} for step in steps])

    def ask(_: int) -> str:
        with upstream.wire() as wire:
            [choice] = Asked(upstream, wire, "chat/completions").document()["choices"]
            return str(choice["message"]["content"])

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(ask, range(20))) == sorted(steps)


@pytest.mark.parametrize(
    "script",
    [
        *[[], {"steps": [1]}, {"steps": [{"fault": "no-such-fault"}]}],
        *[{"steps": [{"txet": "typo"}]}, {"steps": [{"delay_s": "1"}]}],
        *[{"steps": [{"events": [event]}]} for event in ({"cut": "x"}, {"text": "a", "gate": "b"})],
    ],
)
def test_a_script_that_cannot_be_played_is_refused(upstream, script):
    with pytest.raises(ValueError, match=r"\w"):
        upstream.control("PUT", "/_script/acted", script)
