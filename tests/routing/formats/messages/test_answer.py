"""The whole answer (inference 4.3; rows 61 and 67) and the error body (4.8)."""

from typing import Any

import pytest

from gateway.http.errors import (
    GatewayError,
    InvalidRequest,
    MissingCredential,
    PaymentRequired,
    SchemaInvalid,
    Unavailable,
)
from gateway.http.validation import Issue
from routing.formats.caller import Ending, Whole
from routing.formats.messages.answer import BrokenAnswer
from routing.formats.messages.errors import told_status
from routing.formats.messages.format import MESSAGES
from tests.routing.formats.messages.bodies import accepted
from tests.routing.formats.messages.streams import SERVED, USAGE, ending, native

NULLABLE = {
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "cache_creation",
    "inference_geo",
    "output_tokens_details",
    "server_tool_use",
    "service_tier",
}


def answer(message: dict[str, Any], end: Ending | None = None, **fields: Any) -> dict[str, Any]:
    return MESSAGES.whole(
        Whole(SERVED, accepted(**fields), message, None, None, end or ending("stop", "stop"))
    )


def test_row_61_a_minimal_answer() -> None:
    body = answer({"role": "assistant", "content": "hi", "refusal": None, "reasoning": None})
    assert body["id"].startswith("msg_")
    assert (body["type"], body["role"]) == ("message", "assistant")
    assert (body["model"], body["provider"]) == ("acme/small", "Acme")
    assert body["content"] == [{"type": "text", "text": "hi", "citations": []}]
    assert (body["stop_reason"], body["stop_sequence"]) == ("end_turn", None)
    assert (body["stop_details"], body["container"]) == (None, None)
    assert set(body["usage"]) >= NULLABLE
    assert (body["usage"]["input_tokens"], body["usage"]["cost"]) == (5, USAGE["cost"])
    assert "router_metadata" not in body


def test_everything_a_message_can_say() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":[1]}'}}
    message = {
        "role": "assistant",
        "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, 5],
        "refusal": "no",
        "reasoning": "hm",
        "tool_calls": [
            call,
            {**call, "id": "b", "function": {"name": "g", "arguments": "{not"}},
            {"function": {"name": "h", "arguments": ""}},
            {"function": {"name": "sql", "arguments": 'SELECT "a"'}},
        ],
    }
    body = answer(message, ending("tool_calls", router_metadata={"a": 1}))
    thinking, text, first, second, third, custom = body["content"]
    assert thinking == {"type": "thinking", "thinking": "hm", "signature": ""}
    assert text["text"] == "abno"
    direct = {"type": "direct"}
    assert first == {
        "type": "tool_use",
        "id": "a",
        "name": "f",
        "input": {"x": [1]},
        "caller": direct,
    }
    assert (second["id"], second["input"]) == ("b", {})
    assert third["id"].startswith("toolu_")
    assert third["input"] == {}
    assert custom["input"] == {"input": 'SELECT "a"'}
    assert body["router_metadata"] == {"a": 1}
    assert answer({"role": "assistant", "content": None})["content"] == []


@pytest.mark.parametrize(
    ("details", "read", "written"),
    [({}, 0, 0), (None, 0, 0), ({"cached_tokens": None}, 0, 0), ({"cached_tokens": 9}, 9, 0)],
)
def test_input_leaves_out_what_a_cache_gave(details: Any, read: int, written: int) -> None:
    usage = {**USAGE, "prompt_tokens_details": details, "completion_tokens_details": None}
    told = answer({"content": "x"}, ending(usage=usage))["usage"]
    assert told["input_tokens"] == 10 - read - written
    assert told["cache_read_input_tokens"] == read
    assert told["cache_creation_input_tokens"] == written
    assert told["output_tokens_details"] is None


@pytest.mark.parametrize(
    ("tier", "told"),
    [("default", "standard"), ("priority", "priority"), ("flex", None), (None, None)],
)
def test_the_base_tier_is_called_standard_here(tier: str | None, told: str | None) -> None:
    assert answer({"content": "x"}, ending(service_tier=tier))["usage"]["service_tier"] == told


def test_a_message_upstreams_answer_stays_its_own() -> None:
    value = {
        "id": "msg_up",
        "type": "message",
        "model": "claude-x",
        "content": [
            {"type": "text", "text": "x"},
            {"type": "text", "text": "x", "citations": None},
            {"type": "text", "text": "x", "citations": [{"type": "char_location"}]},
            {"type": "tool_use", "id": "t", "name": "f", "input": {"b": 1.0}},
            {"type": "of_tomorrow", "y": 1},
            {"type": "tool_use", "id": "t", "name": "f", "input": None},
        ],
        "stop_reason": "refusal",
        "stop_details": {"type": "refusal", "category": "cyber", "explanation": "e"},
        "usage": {
            "input_tokens": 5,
            "output_tokens": 5,
            "cache_creation_input_tokens": 2,
            "cache_read_input_tokens": 3,
            "cache_creation": {"ephemeral_5m_input_tokens": 2, "ephemeral_1h_input_tokens": 0},
            "service_tier": "batch",
            "own": 1,
        },
        "own": 2,
    }
    body = answer({"content": "other"}, ending("content_filter", native=native("", b"", value)))
    assert (body["id"], body["model"], body["provider"]) == ("msg_up", "acme/small", "Acme")
    assert [block.get("citations", 0) for block in body["content"]] == [
        [],
        [],
        [{"type": "char_location"}],
        0,
        0,
        0,
    ]
    assert body["content"][3]["caller"] == {"type": "direct"}
    assert body["content"][4] == {"type": "of_tomorrow", "y": 1}
    assert [block.get("input") for block in body["content"][3:]] == [{"b": 1.0}, None, {}]
    assert (body["stop_reason"], body["stop_sequence"]) == ("refusal", None)
    assert body["stop_details"]["category"] == "cyber"
    usage = body["usage"]
    assert (usage["service_tier"], usage["own"], body["own"]) == ("batch", 1, 2)
    assert usage["cache_creation"] == value["usage"]["cache_creation"]  # type: ignore[index] # A dict here.
    assert (usage["inference_geo"], usage["cost"]) == (None, USAGE["cost"])
    assert value["model"] == "claude-x"


def test_a_message_upstream_that_leaves_all_out_is_completed() -> None:
    body = answer({}, ending("length", native=native("", b"", {"content": None, "usage": None})))
    assert body["id"].startswith("msg_")
    assert (body["type"], body["role"], body["stop_reason"]) == (
        "message",
        "assistant",
        "max_tokens",
    )
    assert body["usage"]["input_tokens"] == 5


def test_a_part_of_an_answer_is_an_error() -> None:
    failure = {"code": 524, "message": "slow", "metadata": {"error_type": "timeout"}}
    with pytest.raises(BrokenAnswer) as caught:
        answer({"content": "x"}, ending("error", failure=failure))
    assert caught.value.status == 502
    body = MESSAGES.error_body(caught.value, generation_id="gen-1", beside={})
    assert body["error"]["code"] == 502
    assert (body["error"]["error_type"], body["error"]["message"]) == ("timeout", "slow")


class Told(GatewayError):
    """An error of any kind."""

    def __init__(self, status: int, error_type: str, **metadata: Any) -> None:
        super().__init__("m", metadata=metadata)
        self.status, self.error_type = status, error_type


@pytest.mark.parametrize(
    ("status", "error_type", "metadata", "word"),
    [
        (400, "invalid_request", {}, "invalid_request_error"),
        (400, "invalid_prompt", {}, "invalid_request_error"),
        (400, "context_length_exceeded", {}, "invalid_request_error"),
        (401, "authentication", {}, "authentication_error"),
        (402, "payment_required", {}, "billing_error"),
        (403, "permission_denied", {}, "permission_error"),
        (403, "content_policy_violation", {}, "permission_error"),
        (403, "content_policy_violation", {"provider_name": "Acme"}, "invalid_request_error"),
        (403, "refusal", {"provider_name": "Acme"}, "invalid_request_error"),
        (404, "not_found", {}, "not_found_error"),
        (404, "image_not_found", {}, "not_found_error"),
        (413, "payload_too_large", {}, "invalid_request_error"),
        (429, "rate_limit_exceeded", {}, "rate_limit_error"),
        (500, "server", {}, "api_error"),
        (502, "unmapped", {}, "api_error"),
        (502, "provider_unavailable", {}, "api_error"),
        (503, "provider_overloaded", {}, "overloaded_error"),
        (529, "provider_overloaded", {}, "overloaded_error"),
        (524, "timeout", {}, "timeout_error"),
        (408, "timeout", {}, "timeout_error"),
    ],
)
def test_an_error_is_named_in_the_words_of_messages(
    status: int, error_type: str, metadata: dict[str, Any], word: str
) -> None:
    error = Told(status, error_type, **metadata)
    body = MESSAGES.error_body(error, generation_id="gen-1", beside={"user_id": "u"})
    assert body == {
        "type": "error",
        "error": {
            "type": word,
            "message": "m",
            "error_type": error_type,
            "code": status,
            "metadata": {"error_type": error_type, **metadata},
        },
        "request_id": "gen-1",
    }
    assert told_status(error) == status


def test_what_a_provider_calls_unprocessable_is_a_bad_request_here() -> None:
    error = Told(422, "unprocessable", provider_name="Acme")
    told = MESSAGES.error_body(error, generation_id=None, beside={})["error"]
    assert (told["type"], told["error_type"]) == ("invalid_request_error", "invalid_request")
    assert (told["code"], told_status(error)) == (400, 400)
    assert told["metadata"] == {"error_type": "invalid_request", "provider_name": "Acme"}


def test_row_62_before_routing_there_is_no_request_id() -> None:
    body = MESSAGES.error_body(MissingCredential(), generation_id=None, beside={})
    assert body["request_id"] is None
    assert (body["error"]["type"], body["error"]["code"]) == ("authentication_error", 401)


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (InvalidRequest("x"), "invalid_request_error"),
        (PaymentRequired(), "billing_error"),
        (Unavailable(), "overloaded_error"),
    ],
)
def test_the_gateways_own_errors(error: GatewayError, word: str) -> None:
    body = MESSAGES.error_body(error, generation_id=None, beside={"router_metadata": {"a": 1}})
    assert (body["error"]["type"], body["router_metadata"]) == (word, {"a": 1})


def test_issues_travel_with_a_refused_body() -> None:
    error = SchemaInvalid([Issue("a.b", "wrong")], error_type="invalid_prompt")
    told = MESSAGES.error_body(error, generation_id=None, beside={})["error"]
    assert told["error_type"] == "invalid_prompt"
    assert told["metadata"]["issues"] == [{"path": "a.b", "message": "wrong"}]
