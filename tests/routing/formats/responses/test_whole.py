"""The response object (inference 5.4, 9.4 and 11)."""

from typing import Any

import pytest

from gateway.http.errors import GatewayError
from routing.formats.responses.format import RESPONSES
from routing.formats.responses.write import LIMITS, ends_incomplete
from tests.routing.formats.responses.answers import ending, failure, write_answer
from tests.routing.formats.responses.bodies import FUNCTION

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1 }'}}
TOKEN = {"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}
STEM = write_answer({})["id"].removeprefix("resp_")
NULLS = (
    *("error", "incomplete_details", "instructions", "metadata", "temperature", "top_p", "user"),
    *("presence_penalty", "frequency_penalty", "max_output_tokens", "max_tool_calls", "reasoning"),
    *("top_logprobs", "safety_identifier", "prompt_cache_key", "previous_response_id"),
)


def test_a_plain_answer_has_every_field() -> None:
    answer = write_answer({"content": "hello"})
    assert answer.pop("completed_at") >= answer["created_at"]
    assert len(STEM) == 32
    assert STEM.isalnum()
    part = {"type": "output_text", "text": "hello", "annotations": [], "logprobs": []}
    message = {"id": f"msg_{STEM}_0", "type": "message", "role": "assistant", "content": [part]}
    assert answer == {
        **dict.fromkeys(NULLS),
        "id": f"resp_{STEM}",
        "object": "response",
        "created_at": 1_760_000_000,
        "status": "completed",
        "model": "acme/small",
        "output": [{**message, "status": "completed"}],
        "output_text": "hello",
        "tools": [],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "text": {"format": {"type": "text"}},
        "truncation": "disabled",
        "store": False,
        "background": False,
        "service_tier": "auto",
        "usage": {
            "input_tokens": 5,
            "input_tokens_details": {"cached_tokens": 1, "cache_write_tokens": 0},
            "output_tokens": 3,
            "output_tokens_details": {"reasoning_tokens": 2},
            "total_tokens": 8,
            "cost": 0.0000012,
            "cost_details": {
                "upstream_inference_cost": None,
                "upstream_inference_input_cost": 0.0000005,
                "upstream_inference_output_cost": 0.0000007,
            },
            "is_byok": False,
        },
    }


def test_the_request_is_echoed() -> None:
    asked: dict[str, Any] = {
        "instructions": "be brief",
        "metadata": {"a": "b"},
        "temperature": 0,
        "top_p": 1,
        "presence_penalty": 1,
        "frequency_penalty": -1,
        "max_output_tokens": 9,
        "max_tool_calls": 3,
        "top_logprobs": 2,
        "reasoning": {"effort": "low"},
        "user": "u",
        "safety_identifier": "s",
        "prompt_cache_key": "k",
        "tools": [FUNCTION],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "truncation": "disabled",
    }
    answer = write_answer({"content": "a"}, **asked, text={"verbosity": "low"}, service_tier="fast")
    assert {name: answer[name] for name in asked} == asked
    assert answer["text"] == {"format": {"type": "text"}, "verbosity": "low"}
    assert answer["service_tier"] == "priority"
    end = ending(service_tier="default", router_metadata={"attempt": 1})
    answer = write_answer({"content": "a"}, end=end, service_tier="auto")
    # What served, not what was asked for.
    assert (answer["service_tier"], answer["router_metadata"]) == ("default", {"attempt": 1})


def test_items_stand_in_the_order_reasoning_text_pictures_calls() -> None:
    cited = {"url": "u", "title": None, "start_index": 0, "end_index": 1}
    notes = [{"type": "url_citation", "url_citation": cited}, {"type": "file", "file": {}}]
    message = {
        "content": "a",
        "refusal": "no",
        "reasoning": "t",
        "annotations": notes,
        "images": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}],
        "tool_calls": [CALL, {**CALL, "id": "c2"}],
    }
    answer = write_answer(message, logprobs={"content": [TOKEN], "refusal": None})
    reasoning, text, picture, call, second = answer["output"]
    assert reasoning == {
        "id": f"rs_{STEM}_0",
        "type": "reasoning",
        "status": "completed",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "t"}],
    }
    assert [part["type"] for part in text["content"]][:2] == ["output_text", "refusal"]
    assert text["content"][0]["logprobs"] == [TOKEN]
    made = (picture["type"], picture["id"], picture["result"])
    assert made == ("image_generation_call", f"ig_{STEM}_2", "AAAA")
    assert call == {
        "id": f"fc_{STEM}_3",
        "type": "function_call",
        "status": "completed",
        "call_id": "c1",
        "name": "f",
        "arguments": '{"a": 1 }',
    }
    assert second["call_id"] == "c2"


def test_an_answer_of_nothing_has_no_output() -> None:
    empty: list[dict[str, Any]] = [{"content": None}, {"content": ""}, {"tool_calls": []}]
    for message in empty:
        answer = write_answer(message)
        found = (answer["output"], answer["output_text"], answer["status"])
        assert found == ([], "", "completed")
    # Texts that come as parts are joined.
    parts = [{"type": "text", "text": "a"}, {"type": "thinking"}, 5, {"type": "text", "text": "b"}]
    assert write_answer({"content": parts})["output_text"] == "ab"


@pytest.mark.parametrize(
    ("finish", "status", "reason"),
    [
        ("stop", "completed", None),
        ("tool_calls", "completed", None),
        ("length", "incomplete", "max_output_tokens"),
        ("content_filter", "incomplete", "content_filter"),
    ],
)
def test_how_it_ended(finish: str, status: str, reason: str | None) -> None:
    answer = write_answer({"reasoning": "t", "content": "a"}, end=ending(finish))
    assert (answer["status"], answer["error"]) == (status, None)
    assert answer["incomplete_details"] == (reason and {"reason": reason})
    assert (answer["completed_at"] is None) is (status != "completed")
    assert [item["status"] for item in answer["output"]] == ["completed", status]
    assert "error_type" not in answer


@pytest.mark.parametrize(
    ("error_type", "code"),
    [
        ("rate_limit_exceeded", "rate_limit_exceeded"),
        ("context_length_exceeded", "invalid_prompt"),
        ("invalid_request", "invalid_prompt"),
        ("refusal", "invalid_prompt"),
        ("content_policy_violation", "image_content_policy_violation"),
        ("provider_unavailable", "server_error"),
        ("timeout", "server_error"),
        ("server", "server_error"),
    ],
)
def test_a_break_is_a_failed_response_and_partial_output_stays(error_type: str, code: str) -> None:
    answer = write_answer({"content": ""}, end=ending("error", failure=failure(error_type)))
    assert (answer["status"], answer["error_type"]) == ("failed", error_type)
    assert answer["error"] == {"code": code, "message": "broke"}
    assert answer["completed_at"] is None
    if code == "server_error":
        answer = write_answer({"content": "par"}, end=ending("error", failure=failure(error_type)))
        assert (answer["output_text"], answer["output"][0]["status"]) == ("par", "incomplete")
        assert answer["usage"]["output_tokens"] == 3


def test_an_end_that_the_model_calls_an_error_is_a_failure() -> None:
    answer = write_answer({"content": "a"}, end=ending("error"))
    assert (answer["status"], answer["error_type"]) == ("failed", "provider_unavailable")
    assert answer["error"]["code"] == "server_error"


@pytest.mark.parametrize("error_type", sorted(LIMITS))
def test_a_limit_met_half_way_is_an_incomplete_response(error_type: str) -> None:
    assert ends_incomplete(error_type, has_output=True)
    assert not ends_incomplete(error_type, has_output=False)
    end = ending("error", failure=failure(error_type, 400))
    answer = write_answer({"content": "par"}, end=end)
    assert (answer["status"], answer["error"]) == ("incomplete", None)
    assert answer["incomplete_details"] == {"reason": "max_output_tokens"}
    assert write_answer({}, end=end)["status"] == "failed"
    for other in ("provider_unavailable", None):
        assert not ends_incomplete(other, has_output=True)


def test_cache_writes_and_server_tools_are_told() -> None:
    usage = {
        **ending().usage,
        "prompt_tokens_details": {"cached_tokens": None, "cache_write_tokens": 4},
        "completion_tokens_details": None,
        "cost_details": None,
        "server_tool_use_details": {"web_search_requests": 1},
    }
    told = write_answer({"content": "a"}, end=ending(usage=usage))["usage"]
    assert told["input_tokens_details"] == {"cached_tokens": 0, "cache_write_tokens": 4}
    assert told["output_tokens_details"] == {"reasoning_tokens": 0}
    assert told["cost_details"] is None
    assert told["server_tool_use_details"] == {"web_search_requests": 1}


def test_errors_before_an_answer_have_the_ordinary_body() -> None:
    error = GatewayError("x", metadata={"provider_code": "y"})
    told = RESPONSES.error_body(error, generation_id="gen-1", beside={"user_id": "user_1"})
    assert told == {"error": error.body(), "user_id": "user_1"}
