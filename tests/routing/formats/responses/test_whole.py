"""The response object (inference 5.4, 9.4 and 11)."""

from typing import Any

import pytest
from openai.types.responses import Response

from gateway.http.errors import GatewayError
from routing.formats.responses.failures import LIMITS, ends_incomplete
from routing.formats.responses.format import RESPONSES
from tests.routing.formats.responses.answers import ending, whole
from tests.routing.formats.responses.bodies import FUNCTION

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1 }'}}
TOKEN = {"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}
STEM = whole({})["id"].removeprefix("resp_")


def test_a_plain_answer_has_every_field() -> None:
    answer = whole({"content": "hello"})
    assert answer.pop("completed_at") >= answer["created_at"]
    assert len(STEM) == 32
    assert STEM.isalnum()
    assert answer == {
        "id": f"resp_{STEM}",
        "object": "response",
        "created_at": 1_760_000_000,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": "acme/small",
        "output": [
            {
                "id": f"msg_{STEM}_0",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": [
                    {"type": "output_text", "text": "hello", "annotations": [], "logprobs": []}
                ],
            }
        ],
        "output_text": "hello",
        "instructions": None,
        "metadata": None,
        "temperature": None,
        "top_p": None,
        "presence_penalty": None,
        "frequency_penalty": None,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "top_logprobs": None,
        "reasoning": None,
        "user": None,
        "safety_identifier": None,
        "prompt_cache_key": None,
        "tools": [],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "text": {"format": {"type": "text"}},
        "truncation": "disabled",
        "previous_response_id": None,
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


def test_the_official_library_reads_it() -> None:
    answer = Response.model_validate(
        whole(
            {"reasoning": "t", "content": "a", "tool_calls": [CALL]},
            tools=[FUNCTION],
            tool_choice={"type": "function", "name": "f"},
            reasoning={"effort": "low"},
            text={"verbosity": "low"},
        )
    )
    assert answer.output_text == "a"
    assert [item.type for item in answer.output] == ["reasoning", "message", "function_call"]


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
    answer = whole({"content": "a"}, **asked, text={"verbosity": "low"}, service_tier="fast")
    assert {name: answer[name] for name in asked} == asked
    assert answer["text"] == {"format": {"type": "text"}, "verbosity": "low"}
    assert answer["service_tier"] == "priority"


def test_the_tier_that_served_and_metadata() -> None:
    answer = whole(
        {"content": "a"},
        end=ending(service_tier="default", router_metadata={"attempt": 1}),
        service_tier="auto",
    )
    assert answer["service_tier"] == "default"
    assert answer["router_metadata"] == {"attempt": 1}


def test_items_stand_in_the_order_reasoning_text_pictures_calls() -> None:
    cited = {"url": "u", "title": None, "start_index": 0, "end_index": 1}
    answer = whole(
        {
            "content": "a",
            "refusal": "no",
            "reasoning": "t",
            "annotations": [
                {"type": "url_citation", "url_citation": cited},
                {"type": "file", "file": {"hash": "h"}},
            ],
            "images": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}],
            "tool_calls": [CALL, {**CALL, "id": "c2"}],
        },
        logprobs={"content": [TOKEN], "refusal": None},
    )
    kinds = [item["type"] for item in answer["output"]]
    assert kinds == [
        "reasoning",
        "message",
        "image_generation_call",
        "function_call",
        "function_call",
    ]
    reasoning, message, picture, call, _ = answer["output"]
    assert reasoning == {
        "id": f"rs_{STEM}_0",
        "type": "reasoning",
        "status": "completed",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "t"}],
    }
    assert [part["type"] for part in message["content"]][:2] == ["output_text", "refusal"]
    assert message["content"][0]["logprobs"] == [TOKEN]
    assert (picture["id"], picture["result"]) == (f"ig_{STEM}_2", "AAAA")
    assert call == {
        "id": f"fc_{STEM}_3",
        "type": "function_call",
        "status": "completed",
        "call_id": "c1",
        "name": "f",
        "arguments": '{"a": 1 }',
    }


def test_an_answer_of_nothing_has_no_output() -> None:
    empty: list[dict[str, Any]] = [{"content": None}, {"content": ""}, {"tool_calls": []}]
    for message in empty:
        answer = whole(message)
        assert (answer["output"], answer["output_text"]) == ([], "")
        assert answer["status"] == "completed"


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
    answer = whole({"reasoning": "t", "content": "a"}, end=ending(finish))
    assert answer["status"] == status
    assert answer["incomplete_details"] == (reason and {"reason": reason})
    assert (answer["completed_at"] is None) is (status != "completed")
    assert [item["status"] for item in answer["output"]] == ["completed", status]
    assert answer["error"] is None
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
def test_a_break_is_a_failed_response(error_type: str, code: str) -> None:
    failure = {"code": 502, "message": "broke", "metadata": {"error_type": error_type}}
    answer = whole({"content": ""}, end=ending("error", failure=failure))
    assert answer["status"] == "failed"
    assert answer["error"] == {"code": code, "message": "broke"}
    assert answer["error_type"] == error_type
    assert answer["completed_at"] is None


def test_partial_output_stays_and_its_last_item_is_incomplete() -> None:
    failure = {"code": 502, "message": "x", "metadata": {"error_type": "provider_unavailable"}}
    answer = whole({"content": "par"}, end=ending("error", failure=failure))
    assert answer["output_text"] == "par"
    assert answer["output"][0]["status"] == "incomplete"
    assert answer["usage"]["output_tokens"] == 3


def test_an_end_that_the_model_calls_an_error_is_a_failure() -> None:
    answer = whole({"content": "a"}, end=ending("error"))
    assert (answer["status"], answer["error_type"]) == ("failed", "provider_unavailable")
    assert answer["error"]["code"] == "server_error"


@pytest.mark.parametrize("error_type", sorted(LIMITS))
def test_a_limit_met_half_way_is_an_incomplete_response(error_type: str) -> None:
    assert ends_incomplete(error_type, has_output=True)
    assert not ends_incomplete(error_type, has_output=False)
    failure = {"code": 400, "message": "x", "metadata": {"error_type": error_type}}
    answer = whole({"content": "par"}, end=ending("error", failure=failure))
    assert answer["status"] == "incomplete"
    assert answer["incomplete_details"] == {"reason": "max_output_tokens"}
    assert answer["error"] is None
    assert whole({}, end=ending("error", failure=failure))["status"] == "failed"


def test_other_failures_are_no_limits() -> None:
    assert not ends_incomplete("provider_unavailable", has_output=True)
    assert not ends_incomplete(None, has_output=True)


def test_cache_writes_and_server_tools_are_told() -> None:
    usage = {
        **ending().usage,
        "prompt_tokens_details": {"cached_tokens": None, "cache_write_tokens": 4},
        "completion_tokens_details": None,
        "cost_details": None,
        "server_tool_use_details": {"web_search_requests": 1},
    }
    told = whole({"content": "a"}, end=ending(usage=usage))["usage"]
    assert told["input_tokens_details"] == {"cached_tokens": 0, "cache_write_tokens": 4}
    assert told["output_tokens_details"] == {"reasoning_tokens": 0}
    assert told["cost_details"] is None
    assert told["server_tool_use_details"] == {"web_search_requests": 1}


def test_errors_before_an_answer_have_the_ordinary_body() -> None:
    error = GatewayError("x", metadata={"provider_code": "y"})
    told = RESPONSES.error_body(error, generation_id="gen-1", beside={"user_id": "user_1"})
    assert told == {"error": error.body(), "user_id": "user_1"}
