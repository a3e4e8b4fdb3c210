"""Rows 61 to 67 and 84: the messages format."""

from typing import Any

import pytest

from tests.conformance.asking import MESSAGES, ok, post, refused
from tests.conformance.desk import HELLO, Desk, exact, nano
from tests.support.speakers import read_stream

METADATA = {"X-Router-Metadata": "enabled"}
NULLABLE_USAGE = {
    "cache_creation", "cache_creation_input_tokens", "cache_read_input_tokens", "inference_geo",
    "output_tokens_details", "server_tool_use", "service_tier",
}  # fmt: skip


def test_a_minimal_message_and_its_record(desk: Desk) -> None:
    response = post(desk, MESSAGES)

    assert response.status_code == 200, response.text
    answer = exact(response)
    assert (answer["type"], answer["role"], answer["model"]) == ("message", "assistant", desk.model)
    assert answer["id"].startswith("msg_")
    assert answer["content"] == [
        {"type": "text", "text": "Simulated answer to: Hello there", "citations": []}
    ]
    assert (answer["stop_reason"], answer["stop_sequence"]) == ("end_turn", None)
    assert (answer["stop_details"], answer["container"]) == (None, None)
    assert answer["provider"] == "Gamma"
    usage = answer["usage"]
    assert usage.keys() >= NULLABLE_USAGE
    assert (usage["input_tokens"], usage["output_tokens"]) == (3, 5)
    assert desk.the_one_sent()["messages"] == HELLO

    generation_id = response.headers["X-Generation-Id"]
    record = desk.generation(generation_id)
    (tried,) = record["provider_responses"]
    assert (tried["status"], tried["provider_name"]) == (200, "Gamma")
    assert nano(record["total_cost"]) == nano(usage["cost"]) == 3 * 1_000 + 5 * 2_000
    assert desk.charged_nano(generation_id) == nano(usage["cost"])


def test_the_cap_is_told_upstream_and_may_be_left_out(desk: Desk) -> None:
    ok(desk, MESSAGES)
    ok(desk, MESSAGES, max_tokens=5)

    first, second = desk.sent()
    caps = [body.get("max_completion_tokens", body.get("max_tokens")) for body in (first, second)]
    assert caps == [16, 5]


def test_the_key_may_come_as_message_clients_send_it(desk: Desk) -> None:
    body = {"model": desk.model, "max_tokens": 16, "messages": HELLO}
    key = {"x-api-key": desk.account.api_key, "anthropic-version": "2023-06-01"}

    assert desk.server.post(MESSAGES, json=body, headers=key).status_code == 200
    # Elsewhere that header is no credential.
    chat = desk.server.post("/api/v1/chat/completions", json=body, headers=key)
    assert chat.status_code == 401


def test_no_credential(desk: Desk) -> None:
    response = desk.server.post(MESSAGES, json={"model": desk.model})

    body = exact(response)
    assert response.status_code == 401
    assert (body["type"], body["request_id"]) == ("error", None)
    error = body["error"]
    assert (error["type"], error["code"]) == ("authentication_error", 401)
    assert error["error_type"] == "authentication"
    assert desk.upstream.requests() == []


@pytest.mark.parametrize(
    "body",
    [
        {"fallbacks": [{"model": f"acme/{n}"} for n in range(4)]},
        {"fallbacks": [{"model": "acme/small", "max_tokens": 5}]},
        {"fallbacks": [{"model": "acme/small"}], "models": ["acme/small"]},
        {"fallbacks": [{}]},
    ],
)
def test_fallbacks_that_do_not_fit(desk: Desk, body: dict[str, Any]) -> None:
    error = refused(desk, MESSAGES, **body)

    assert (error["type"], error["error_type"]) == ("invalid_request_error", "invalid_request")
    assert "fallbacks" in error["message"]


def test_a_fallback_is_tried_when_the_first_fails(desk: Desk) -> None:
    desk.upstream.script("gamma", {"fault": "503"})

    answer = ok(desk, MESSAGES, fallbacks=[{"model": "acme/text"}])

    assert answer["model"] == "acme/text"
    assert [entry["persona"] for entry in desk.upstream.requests()] == ["gamma", "delta"]


@pytest.mark.parametrize("speed", ["turbo", 5])
def test_a_speed_nobody_knows(desk: Desk, speed: Any) -> None:
    assert refused(desk, MESSAGES, speed=speed)["type"] == "invalid_request_error"


@pytest.mark.parametrize("speed", [None, "standard", "fast"])
def test_speeds_that_are_taken(desk: Desk, speed: Any) -> None:
    assert ok(desk, MESSAGES, speed=speed)["type"] == "message"


def test_the_events_of_a_stream(desk: Desk) -> None:
    streamed = read_stream(post(desk, MESSAGES, stream=True))

    names = [name for name, _ in streamed.events]
    assert names == [
        "message_start", "ping", "content_block_start", *["content_block_delta"] * 5,
        "content_block_stop", "message_delta", "message_stop",
    ]  # fmt: skip
    assert "[DONE]" not in streamed.response.text
    start, end = streamed.values[0]["message"], streamed.values[-2]
    assert (start["content"], start["stop_reason"]) == ([], None)
    assert start["usage"]["output_tokens"] == 0
    assert end["delta"]["stop_reason"] == "end_turn"
    assert end["usage"]["output_tokens"] == 5
    generation_id = streamed.response.headers["X-Generation-Id"]
    assert nano(end["usage"]["cost"]) == desk.charged_nano(generation_id) == 3_000 + 10_000
    assert desk.the_one_sent()["stream"] is True


def test_metadata_stands_in_the_last_event_only(desk: Desk) -> None:
    streamed = read_stream(post(desk, MESSAGES, stream=True, headers=METADATA))

    name, last = streamed.events[-1]
    assert name == "message_stop"
    assert last["router_metadata"]["attempt"] == 1
    assert last["router_metadata"]["requested"] == desk.model
    assert all("router_metadata" not in value for value in streamed.values[:-1])


def test_without_the_header_there_is_none(desk: Desk) -> None:
    assert "router_metadata" not in post(desk, MESSAGES, stream=True).text


@pytest.mark.parametrize("stream", [False, True])
def test_an_overloaded_upstream(desk: Desk, stream: bool) -> None:
    desk.upstream.script("gamma", {"fault": "529"})

    response = post(desk, MESSAGES, stream=stream)

    body = exact(response)
    assert response.status_code == 529
    assert response.headers["Content-Type"] == "application/json"
    assert (body["type"], body["error"]["type"]) == ("error", "overloaded_error")
    assert body["error"]["error_type"] == "provider_overloaded"
    assert body["request_id"] == response.headers["X-Generation-Id"]
    assert desk.charged_nano(body["request_id"]) == 0


def test_a_strangers_record_is_not_found(desk: Desk) -> None:
    assert desk.generation_response("gen-1760000000-abcdefghijklmnopqrst").status_code == 404


def test_tokens_are_counted_without_a_charge(desk: Desk) -> None:
    body = {"model": desk.model, "messages": HELLO, "system": "Be brief."}

    key = desk.account.api_key
    response = desk.server.post(f"{MESSAGES}/count_tokens", key=key, json=body)

    assert response.status_code == 200, response.text
    assert exact(response)["input_tokens"] > 0
    assert desk.total_usage_nano() == 0
