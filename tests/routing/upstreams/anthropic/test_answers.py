"""Whole answers of the messages API, read."""

from typing import Any

import orjson
import pytest

from routing.entities.exchange import Answer
from routing.upstreams.anthropic.wire import ANTHROPIC
from routing.upstreams.failures import UpstreamFailure, from_error_object

CITED = {"type": "web_search_result_location", "url": "https://a/b", "title": "T"}


def answer(*blocks: Any, **fields: Any) -> Answer:
    message = {"type": "message", "id": "msg_1", "content": list(blocks), "stop_reason": "end_turn"}
    return ANTHROPIC.answer(orjson.dumps(message | fields), "application/json")


def read_failure(body: bytes, content_type: str = "application/json") -> UpstreamFailure:
    with pytest.raises(UpstreamFailure) as caught:
        ANTHROPIC.answer(body, content_type)
    return caught.value


def test_texts_become_one_content_with_its_web_citations() -> None:
    citations = [
        {**CITED, "cited_text": "c", "encrypted_index": "e"},
        {"type": "char_location", "document_index": 0},
        {"type": "search_result_location", "source": "https://s", "title": None},
        {"type": "search_result_location", "source": "notes"},
    ]
    read = answer(
        {"type": "text", "text": "ab", "citations": None},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
        {"type": "text", "text": "cde", "citations": citations},
    )
    assert read.message["content"] == "abcde"
    span = {"start_index": 2, "end_index": 5}
    assert [item["url_citation"] for item in read.message["annotations"]] == [
        {"url": "https://a/b", "title": "T", "content": "c", **span},
        {"url": "https://s", "title": "", **span},
    ]
    assert (read.native_finish, read.upstream_id) == ("end_turn", "msg_1")


def test_thinking_is_reasoning_that_can_be_replayed() -> None:
    first, last = ({"type": "thinking", "thinking": said, "signature": said * 2} for said in "ab")
    read = answer(first, {"type": "redacted_thinking", "data": "d"}, last)
    told = {"format": "anthropic-claude-v1", "id": None}
    text = {"type": "reasoning.text", **told}
    assert read.message == {
        "role": "assistant",
        "content": None,
        "reasoning": "ab",
        "reasoning_details": [
            {**text, "text": "a", "signature": "aa", "index": 0},
            {"type": "reasoning.encrypted", "data": "d", "index": 1, **told},
            {**text, "text": "b", "signature": "bb", "index": 2},
        ],
    }


def test_calls_carry_their_input_as_compact_text() -> None:
    body = (
        b'{"content": [{"type": "tool_use", "id": "toolu_1", "name": "f", '
        b'"input": {"n": 123456789012345678901234567890, "s": "\xc3\xa9"}}, '
        b'{"type": "tool_use", "id": "toolu_2", "name": "g"}, '
        b'{"type": "tool_use", "id": "toolu_3", "name": "h", "input": "{\\"a\\": 1}"}], '
        b'"stop_reason": "tool_use"}'
    )
    read = ANTHROPIC.answer(body, "application/json; charset=utf-8")
    assert [(call["id"], call["function"]["arguments"]) for call in read.message["tool_calls"]] == [
        ("toolu_1", '{"n":123456789012345678901234567890,"s":"é"}'),
        ("toolu_2", "{}"),
        ("toolu_3", '{"a": 1}'),
    ]
    assert read.native is not None
    assert (read.native.kind, read.native.name, read.native.raw) == ("anthropic", "", body)


def test_a_refusal_is_what_the_model_said_or_why() -> None:
    text = {"type": "text", "text": "I cannot"}
    plain = answer(text, stop_reason="refusal", stop_details=None)
    assert (plain.message["refusal"], plain.message["content"]) == ("I cannot", None)
    details = {"type": "refusal", "category": "bio", "explanation": "too dangerous"}
    told = answer(text, stop_reason="refusal", stop_details=details)
    assert (told.message["refusal"], told.message["content"]) == ("too dangerous", "I cannot")
    assert "refusal" not in answer(stop_reason="refusal").message


def test_the_matched_stop_sequence_and_the_tier() -> None:
    read = answer(
        stop_reason="stop_sequence", stop_sequence="END", usage={"service_tier": "standard"}
    )
    assert (read.native_finish, read.stop_sequence) == ("stop_sequence", "END")
    assert read.service_tier == "default"
    assert answer(usage={"service_tier": "priority"}).service_tier == "priority"


@pytest.mark.parametrize(
    ("kind", "status"),
    [("overloaded_error", 529), ("rate_limit_error", 429), ("authentication_error", 401)],
)
def test_an_error_object_inside_a_200(kind: str, status: int) -> None:
    error = {"type": kind, "message": "m"}
    failure = read_failure(orjson.dumps({"type": "error", "error": error}))
    assert failure.status == status
    partial = answer({"type": "text", "text": "x"}, error=error)
    assert from_error_object(partial.error).status == status
