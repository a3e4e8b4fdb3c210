"""Rows 61 to 70 and 84: the messages and the responses format."""

from tests.conformance.asking import MESSAGES, RESPONSES, ok, post
from tests.conformance.desk import CHAT, HELLO, Desk, exact, nano
from tests.support.speakers import read_stream

METADATA = {"X-Router-Metadata": "enabled"}
SAID = "Simulated answer to: Hello there"
# Three tokens asked, five answered.
PRICE_NANO = 3 * 1_000 + 5 * 2_000


def test_a_minimal_message_and_its_record(desk: Desk) -> None:
    response = post(desk, MESSAGES)

    assert response.status_code == 200, response.text
    answer = exact(response)
    usage = answer.pop("usage")
    assert answer.pop("id").startswith("msg_")
    assert answer == {
        "type": "message",
        "role": "assistant",
        "model": desk.model,
        "content": [{"type": "text", "text": SAID, "citations": []}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "stop_details": None,
        "container": None,
        "provider": "Gamma",
    }
    assert usage.keys() >= {
        *("cache_creation", "cache_creation_input_tokens", "cache_read_input_tokens"),
        *("inference_geo", "output_tokens_details", "server_tool_use", "service_tier"),
    }
    assert (usage["input_tokens"], usage["output_tokens"]) == (3, 5)
    assert desk.the_one_sent()["messages"] == HELLO

    generation_id = response.headers["X-Generation-Id"]
    (tried,) = desk.generation(generation_id)["provider_responses"]
    assert (tried["status"], tried["provider_name"]) == (200, "Gamma")
    assert desk.charged_nano(generation_id) == nano(usage["cost"]) == PRICE_NANO


def test_the_cap_is_told_upstream_and_may_be_left_out(desk: Desk) -> None:
    ok(desk, MESSAGES)
    ok(desk, MESSAGES, max_tokens=5)

    caps = [
        body.get("max_completion_tokens", body.get("max_tokens"))
        for body in desk.list_sent_bodies()
    ]
    assert caps == [16, 5]


def test_the_key_may_come_as_message_clients_send_it(desk: Desk) -> None:
    key = {"x-api-key": desk.account.api_key, "anthropic-version": "2023-06-01"}
    body = {"model": desk.model, "max_tokens": 16, "messages": HELLO}

    def status(path: str, key: dict[str, str], bearer: str = "") -> int:
        return desk.server.post(path, key=bearer, json=body, headers=key).status_code

    assert status(MESSAGES, key) == status(f"{MESSAGES}/count_tokens", key) == 200
    # Elsewhere that header is no credential, and it makes no wrong one good.
    assert status(CHAT, key) == status(RESPONSES, key) == 401
    assert status(MESSAGES, key, bearer="sk-nobody") == status(MESSAGES, {"x-api-key": "x"}) == 401


def test_no_credential(desk: Desk) -> None:
    response = desk.server.post(MESSAGES, json={"model": desk.model})

    body = exact(response)
    assert response.status_code == 401
    assert (body["type"], body["request_id"]) == ("error", None)
    error = body["error"]
    assert (error["type"], error["code"]) == ("authentication_error", 401)
    assert error["error_type"] == "authentication"
    assert desk.upstream.requests() == []


def test_a_fallback_is_tried_when_the_first_fails(desk: Desk) -> None:
    desk.upstream.script("gamma", {"fault": "503"})

    answer = ok(desk, MESSAGES, fallbacks=[{"model": "acme/text"}])

    assert answer["model"] == "acme/text"
    assert [entry["persona"] for entry in desk.upstream.requests()] == ["gamma", "delta"]


def test_the_events_of_a_messages_stream(desk: Desk) -> None:
    streamed = read_stream(post(desk, MESSAGES, stream=True, headers=METADATA))

    assert [name for name, _ in streamed.events] == [
        *("message_start", "ping", "content_block_start", *["content_block_delta"] * 5),
        *("content_block_stop", "message_delta", "message_stop"),
    ]
    assert "[DONE]" not in streamed.response.text
    start, end = streamed.values[0]["message"], streamed.values[-2]
    assert (start["content"], start["stop_reason"]) == ([], None)
    assert start["usage"]["output_tokens"] == 0
    assert (end["delta"]["stop_reason"], end["usage"]["output_tokens"]) == ("end_turn", 5)
    generation_id = streamed.response.headers["X-Generation-Id"]
    assert nano(end["usage"]["cost"]) == desk.charged_nano(generation_id) == PRICE_NANO
    assert desk.the_one_sent()["stream"] is True
    # Metadata stand in the very last event, and only for those who ask.
    *others, last = streamed.values
    assert last["router_metadata"]["requested"] == desk.model
    assert all("router_metadata" not in value for value in others)
    assert "router_metadata" not in post(desk, MESSAGES, stream=True).text


# --- Responses ------------------------------------------------------------------------------------


def test_what_asks_for_no_storage_is_taken(desk: Desk) -> None:
    nothing = {"previous_response_id": None, "store": False}
    stop = [{"type": "step_count_is", "step_count": 2}]
    # Conditions make the number of steps meaningless.
    bounds = {"max_tool_calls": 31, "stop_server_tools_when": stop}
    for background in (False, None):
        answer = ok(desk, RESPONSES, **nothing, **bounds, background=background)
        assert (answer["object"], answer["status"]) == ("response", "completed")
        assert (answer["store"], answer["previous_response_id"]) == (False, None)

    ours = {*nothing, *bounds, "background"}
    assert not any(body.keys() & ours for body in desk.list_sent_bodies())


def test_the_events_of_a_responses_stream(desk: Desk) -> None:
    streamed = read_stream(post(desk, RESPONSES, stream=True))

    assert [name for name, _ in streamed.events] == [
        *("response.created", "response.in_progress", "response.output_item.added"),
        *("response.content_part.added", *["response.output_text.delta"] * 5),
        *("response.output_text.done", "response.content_part.done"),
        *("response.output_item.done", "response.completed"),
    ]
    numbers = [value["sequence_number"] for value in streamed.values]
    assert numbers == list(range(len(numbers)))
    assert streamed.done
    assert streamed.response.text.endswith("data: [DONE]\n\n")
    started, last = streamed.values[0]["response"], streamed.values[-1]["response"]
    assert (started["status"], started["output"]) == ("in_progress", [])
    assert (last["status"], last["id"]) == ("completed", started["id"])
    assert last["id"].startswith("resp_")
    (item,) = last["output"]
    assert item["content"][0]["text"] == SAID
    usage = last["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (3, 5, 8)
    generation_id = streamed.response.headers["X-Generation-Id"]
    assert nano(usage["cost"]) == desk.charged_nano(generation_id) == PRICE_NANO
