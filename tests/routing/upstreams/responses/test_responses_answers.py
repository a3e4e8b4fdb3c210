"""Whole answers, read."""

from typing import Any

import orjson
import pytest

from routing.entities.exchange import Answer
from routing.upstreams.failures import UpstreamFailure, from_error_object
from routing.upstreams.responses.wire import RESPONSES
from tests.routing.upstreams.streams import response

JSON = "application/json"


def answer(*output: dict[str, Any], **fields: Any) -> Answer:
    return RESPONSES.answer(orjson.dumps(response(list(output), **fields)), JSON)


def message(*content: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": list(content), **fields}


def text_part(text: str, **fields: Any) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], **fields}


CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{ 1"}


def test_text_and_what_stands_around_it() -> None:
    body = orjson.dumps(response([message(text_part("a"), text_part("b"))], service_tier="flex"))
    read = RESPONSES.answer(body, "application/json; charset=utf-8")
    assert read.message == {"role": "assistant", "content": "ab"}
    assert (read.native_finish, read.upstream_id, read.service_tier) == ("stop", "resp_1", "flex")
    assert read.error is None
    assert read.logprobs is None
    assert read.native is not None
    assert (read.native.kind, read.native.name, read.native.raw) == ("responses", "", body)
    assert read.native.value["output"][0]["content"][0]["text"] == "a"


def test_calls_keep_their_ids_and_bytes() -> None:
    read = answer(CALL, {**CALL, "call_id": "c2", "arguments": ""})
    function = {"name": "f", "arguments": "{ 1"}
    assert read.message == {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"type": "function", "id": "c1", "function": function},
            {"type": "function", "id": "c2", "function": {**function, "arguments": "{}"}},
        ],
    }
    assert read.native_finish == "tool_calls"


def test_reasoning_in_pieces_that_can_be_replayed() -> None:
    summary = [{"type": "summary_text", "text": said} for said in "ab"]
    content = [{"type": "reasoning_text", "text": "t"}]
    first = {"id": "rs_1", "summary": summary, "content": content, "encrypted_content": "E"}
    second = {"id": "rs_2", "summary": [], "encrypted_content": "F"}
    read = answer(
        *({"type": "reasoning", **item} for item in (first, second)), message(text_part("x"))
    )
    common = {"id": "rs_1", "format": "openai-responses-v1", "index": 0}
    assert read.message["reasoning"] == "a\n\nb\n\nt"
    assert read.message["reasoning_details"] == [
        {"type": "reasoning.summary", "summary": "a", **common},
        {"type": "reasoning.summary", "summary": "b", **common},
        {"type": "reasoning.text", "text": "t", **common},
        {"type": "reasoning.encrypted", "data": "E", **common},
        {"type": "reasoning.encrypted", "data": "F", **common, "id": "rs_2", "index": 1},
    ]


def test_an_upstream_that_names_the_format_of_its_reasoning_is_believed() -> None:
    item = {"type": "reasoning", "id": "r", "format": "xai-responses-v1", "signature": "s"}
    (detail,) = answer(item).message["reasoning_details"]
    assert (detail["format"], detail["signature"]) == ("xai-responses-v1", "s")


def test_citations_are_counted_from_where_the_content_begins() -> None:
    citation = {"type": "url_citation", "url": "https://a", "title": "A"}
    places = {"start_index": 1, "end_index": 2}
    other = {"type": "file_citation", "file_id": "f", "filename": "n", "index": 0}
    read = answer(
        message(text_part("abc", annotations=[{**citation, **places}, other])),
        message(text_part("de", annotations=[{**citation, **places, "content": "d"}])),
        message(text_part("fgh", annotations=[{"type": "url_citation", "url": "https://b"}])),
    )
    cited = [annotation["url_citation"] for annotation in read.message["annotations"]]
    assert cited == [
        {"url": "https://a", "title": "A", "start_index": 1, "end_index": 2},
        {"url": "https://a", "title": "A", "content": "d", "start_index": 4, "end_index": 5},
        # Clients want a title and a place.
        {"url": "https://b", "title": "", "start_index": 5, "end_index": 8},
    ]


def test_refusals_images_and_logprobs() -> None:
    token = {"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}
    plain = {"token": "b", "logprob": -1}
    logprobs = [{**token, "top_logprobs": [plain]}, {"token": 1}, plain]
    read = answer(
        message(text_part("ab", logprobs=logprobs), {"type": "refusal", "refusal": "no"}),
        {"type": "image_generation_call", "id": "i", "result": "AAAA", "output_format": "webp"},
        {"type": "image_generation_call", "id": "j", "result": None},
    )
    assert read.message["refusal"] == "no"
    (image,) = read.message["images"]
    assert image["image_url"]["url"] == "data:image/webp;base64,AAAA"
    alternative = {**plain, "bytes": None}
    assert read.logprobs == {
        "content": [{**token, "top_logprobs": [alternative]}, {**alternative, "top_logprobs": []}]
    }


def test_usage_in_the_chat_formats_names() -> None:
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10, "other": 1},
        "output_tokens": 50,
        "output_tokens_details": {"reasoning_tokens": 30, "image_tokens": None},
        "total_tokens": 150,
        "cost": 1,
    }
    assert answer(usage=usage).usage == {
        "prompt_tokens": 100,
        "completion_tokens": 50,
        "total_tokens": 150,
        "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
        "completion_tokens_details": {"reasoning_tokens": 30},
    }
    assert answer(usage=None).usage is None


def test_searches_are_counted_beside_the_tokens() -> None:
    search = {"type": "web_search_call", "status": "completed", "action": {"type": "search"}}
    items = [search, {**search, "action": {"type": "open_page"}}, {**search, "status": "failed"}]
    usage = answer(*items, {"type": "web_search_call"}).usage
    assert usage["server_tool_use_details"] == {"web_search_requests": 2}


def failed_response(code: str, **fields: Any) -> dict[str, Any]:
    return {"status": "failed", "error": {"code": code, "message": "x"}, **fields}


UNAVAILABLE = "provider_unavailable"
TOO_LONG = "context_length_exceeded"


@pytest.mark.parametrize(
    ("fields", "status", "error_type"),
    [
        (failed_response("server_error"), 502, UNAVAILABLE),
        (failed_response("rate_limit_exceeded"), 429, "rate_limit_exceeded"),
        (failed_response("invalid_prompt"), 400, "invalid_request"),
        (failed_response("invalid_prompt", error_type=TOO_LONG), 400, TOO_LONG),
        (failed_response("image_content_policy_violation"), 403, "content_policy_violation"),
        *[({"status": word}, 502, UNAVAILABLE) for word in ("failed", "cancelled", "in_progress")],
        ({"error": "boom"}, 502, UNAVAILABLE),
    ],
)
def test_failures_inside_a_200(fields: dict[str, Any], status: int, error_type: str) -> None:
    read = answer(message(text_part("part")), **fields)
    failure = from_error_object(read.error)
    assert (failure.caller_status, failure.error_type) == (status, error_type)
    assert read.message["content"] == "part"


def test_an_error_instead_of_an_answer() -> None:
    body = {"error": {"code": None, "type": "rate_limit_error", "message": "slower"}}
    with pytest.raises(UpstreamFailure) as caught:
        RESPONSES.answer(orjson.dumps(body), JSON)
    assert caught.value.caller_status == 429
