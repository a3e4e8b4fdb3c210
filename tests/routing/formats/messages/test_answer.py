"""The whole answer (inference 4.3; rows 61 and 67) and the error body (4.8)."""

from typing import Any

import pytest

from gateway.http.errors import (
    GatewayError,
    MissingCredential,
    SchemaInvalid,
)
from gateway.http.validation import Issue
from routing.formats.caller import CompleteAnswer, Ending
from routing.formats.messages.format import MESSAGES
from routing.formats.messages.write import BrokenAnswer
from tests.routing.formats.messages.bodies import parse_fields
from tests.routing.formats.messages.streams import SERVED, USAGE, ending, native

DIRECT = {"type": "direct"}


def answer(message: dict[str, Any], end: Ending | None = None, **fields: Any) -> dict[str, Any]:
    return MESSAGES.write_answer(
        CompleteAnswer(
            SERVED, parse_fields(**fields), message, None, None, end or ending("stop", "stop")
        )
    )


def test_usage_leaves_nothing_out() -> None:
    assert answer({"role": "assistant", "content": "hi"})["usage"] == {
        "input_tokens": 5,
        "output_tokens": 5,
        "cache_creation_input_tokens": 2,
        "cache_read_input_tokens": 3,
        "cache_creation": None,
        "inference_geo": None,
        "output_tokens_details": {"thinking_tokens": 4},
        "server_tool_use": None,
        "service_tier": None,
        **{name: USAGE[name] for name in ("cost", "cost_details", "is_byok")},
    }


def test_everything_a_message_can_say() -> None:
    def call(name: str, arguments: str, **fields: Any) -> dict[str, Any]:
        return {"type": "function", "function": {"name": name, "arguments": arguments}, **fields}

    message = {
        "role": "assistant",
        "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, 5],
        "refusal": "no",
        "reasoning": "hm",
        "tool_calls": [
            call("f", '{"x":[1]}', id="a"),
            call("g", "{not", id="b"),
            call("h", ""),
            call("sql", 'SELECT "a"'),
        ],
    }
    body = answer(message, ending("tool_calls", router_metadata={"a": 1}))
    thinking, text, first, second, third, custom = body["content"]
    assert thinking == {"type": "thinking", "thinking": "hm", "signature": ""}
    assert text["text"] == "abno"
    used = {"type": "tool_use", "id": "a", "name": "f", "input": {"x": [1]}, "caller": DIRECT}
    assert first == used
    assert (second["id"], second["input"]) == ("b", {})
    assert third["id"].startswith("toolu_")
    assert (third["input"], custom["input"]) == ({}, {"input": 'SELECT "a"'})
    assert body["router_metadata"] == {"a": 1}
    assert answer({"role": "assistant", "content": None})["content"] == []


@pytest.mark.parametrize(
    ("details", "read"),
    [({}, 0), (None, 0), ({"cached_tokens": None}, 0), ({"cached_tokens": 9}, 9)],
)
def test_input_leaves_out_what_a_cache_gave(details: Any, read: int) -> None:
    usage = {**USAGE, "prompt_tokens_details": details, "completion_tokens_details": None}
    told = answer({"content": "x"}, ending(usage=usage))["usage"]
    assert (told["input_tokens"], told["cache_read_input_tokens"]) == (10 - read, read)
    assert (told["cache_creation_input_tokens"], told["output_tokens_details"]) == (0, None)


@pytest.mark.parametrize(
    ("tier", "told"), [("default", "standard"), ("priority", "priority"), ("flex", None)]
)
def test_the_base_tier_is_called_standard_here(tier: str, told: str | None) -> None:
    assert answer({"content": "x"}, ending(service_tier=tier))["usage"]["service_tier"] == told


def test_a_message_upstreams_answer_stays_its_own() -> None:
    text = {"type": "text", "text": "x"}
    cited = {**text, "citations": [{"type": "char_location"}]}
    use = {"type": "tool_use", "id": "t", "name": "f", "input": {"b": 1.0}}
    tomorrow = {"type": "of_tomorrow", "y": 1}
    created = {"ephemeral_5m_input_tokens": 2, "ephemeral_1h_input_tokens": 0}
    expect_refusal = {"type": "refusal", "category": "cyber", "explanation": "e"}
    counted = {"input_tokens": 5, "output_tokens": 5, "cache_creation_input_tokens": 2}
    value = {
        "id": "msg_up",
        "type": "message",
        "model": "claude-x",
        "content": [
            text,
            {**text, "citations": None},
            cited,
            use,
            tomorrow,
            {**use, "input": None},
        ],
        "stop_reason": "refusal",
        "stop_details": expect_refusal,
        "usage": counted | {"cache_creation": created, "service_tier": "batch", "own": 1},
        "own": 2,
    }
    body = answer({"content": "other"}, ending("content_filter", native=native("", b"", value)))
    plain = {**text, "citations": []}
    called = {**use, "caller": DIRECT}
    assert body["content"] == [plain, plain, cited, called, tomorrow, {**called, "input": {}}]
    assert (body["id"], body["model"], body["provider"]) == ("msg_up", "acme/small", "Acme")
    assert (body["stop_reason"], body["stop_sequence"]) == ("refusal", None)
    assert (body["stop_details"], body["own"]) == (expect_refusal, 2)
    own = {"service_tier": "batch", "own": 1, "cache_creation": created}
    known = {**own, "inference_geo": None, "cost": USAGE["cost"]}
    assert {name: body["usage"][name] for name in known} == known
    assert value["model"] == "claude-x"


def test_a_message_upstream_that_leaves_all_out_is_completed() -> None:
    body = answer({}, ending("length", native=native("", b"", {"content": None, "usage": None})))
    assert body["id"].startswith("msg_")
    assert (body["type"], body["role"]) == ("message", "assistant")
    assert (body["stop_reason"], body["usage"]["input_tokens"]) == ("max_tokens", 5)


def test_a_part_of_an_answer_is_an_error() -> None:
    failure = {"code": 524, "message": "slow", "metadata": {"error_type": "timeout"}}
    with pytest.raises(BrokenAnswer) as caught:
        answer({"content": "x"}, ending("error", failure=failure))
    assert caught.value.status == 502
    told = error_of(caught.value)["error"]
    assert (told["code"], told["error_type"], told["message"]) == (502, "timeout", "slow")


class Told(GatewayError):
    """An error of any kind."""

    def __init__(self, status: int, error_type: str, **metadata: Any) -> None:
        super().__init__("m", metadata=metadata)
        self.status = status
        self.error_type = error_type


def error_of(error: GatewayError, generation_id: str | None = None, **beside: Any) -> Any:
    return MESSAGES.error_body(error, generation_id=generation_id, beside=beside)


@pytest.mark.parametrize(
    ("status", "error_type", "word"),
    [
        (400, "invalid_request", "invalid_request_error"),
        (400, "invalid_prompt", "invalid_request_error"),
        (401, "authentication", "authentication_error"),
        (402, "payment_required", "billing_error"),
        (403, "permission_denied", "permission_error"),
        (403, "content_policy_violation", "permission_error"),
        (404, "not_found", "not_found_error"),
        (413, "payload_too_large", "invalid_request_error"),
        (429, "rate_limit_exceeded", "rate_limit_error"),
        (500, "server", "api_error"),
        (502, "provider_unavailable", "api_error"),
        (503, "provider_overloaded", "overloaded_error"),
        (529, "provider_overloaded", "overloaded_error"),
        (524, "timeout", "timeout_error"),
        (408, "timeout", "timeout_error"),
    ],
)
def test_an_error_is_named_in_the_words_of_messages(
    status: int, error_type: str, word: str
) -> None:
    error = Told(status, error_type)
    told = {"type": word, "message": "m", "error_type": error_type, "code": status}
    assert error_of(error, "gen-1", user_id="u") == {
        "type": "error",
        "error": {**told, "metadata": {"error_type": error_type}},
        "request_id": "gen-1",
    }


@pytest.mark.parametrize("error_type", ["content_policy_violation", "refusal"])
def test_what_a_provider_refuses_is_a_bad_request_here(error_type: str) -> None:
    told = error_of(Told(403, error_type, provider_name="Acme"))["error"]
    assert (told["type"], told["code"]) == ("invalid_request_error", 403)
    assert told["metadata"] == {"error_type": error_type, "provider_name": "Acme"}


def test_what_a_provider_calls_unprocessable_is_a_bad_request_here() -> None:
    error = Told(422, "unprocessable", provider_name="Acme")
    told = error_of(error)["error"]
    assert (told["type"], told["error_type"]) == ("invalid_request_error", "invalid_request")
    assert told["code"] == 400
    assert told["metadata"] == {"error_type": "invalid_request", "provider_name": "Acme"}


def test_before_routing_there_is_no_request_id() -> None:
    body = error_of(MissingCredential(), router_metadata={"a": 1})
    assert (body["request_id"], body["router_metadata"]) == (None, {"a": 1})
    assert (body["error"]["type"], body["error"]["code"]) == ("authentication_error", 401)


def test_issues_travel_with_a_refused_body() -> None:
    told = error_of(SchemaInvalid([Issue("a.b", "wrong")], error_type="invalid_prompt"))["error"]
    assert told["error_type"] == "invalid_prompt"
    assert told["metadata"]["issues"] == [{"path": "a.b", "message": "wrong"}]
