"""Chat messages as input items."""

from typing import Any

import pytest

from tests.routing.upstreams.responses.prompts import USER, items_of, sent, terms

OWN = "openai-responses-v1"
USER_ITEM = {"type": "message", "role": "user", "content": "hi"}


def system(content: Any, **fields: Any) -> dict[str, Any]:
    return {"role": "system", "content": content, **fields}


@pytest.mark.parametrize(
    ("first", "instructions"),
    [
        (system("be kind"), "be kind"),
        ({"role": "developer", "content": "be kind"}, "be kind"),
        (system([{"type": "text", "text": "be kind"}]), "be kind"),
        (system("be kind", name="ann"), "ann: be kind"),
    ],
)
def test_a_leading_text_is_the_instructions(first: dict[str, Any], instructions: str) -> None:
    made = sent({"messages": [first, USER]})
    assert made["instructions"] == instructions
    assert made["input"] == [USER_ITEM]


@pytest.mark.parametrize(
    ("messages", "items"),
    [
        (
            [system("a")],
            [{"type": "message", "role": "system", "content": "a"}],
        ),
        (
            [USER, system("a"), {"role": "developer", "content": "b", "name": "n"}],
            [
                USER_ITEM,
                {"type": "message", "role": "system", "content": "a"},
                {"type": "message", "role": "developer", "content": "n: b"},
            ],
        ),
        (
            [system([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), USER],
            [
                {
                    "type": "message",
                    "role": "system",
                    "content": [
                        {"type": "input_text", "text": "a"},
                        {"type": "input_text", "text": "b"},
                    ],
                },
                USER_ITEM,
            ],
        ),
        ([system([]), USER], [{"type": "message", "role": "system", "content": ""}, USER_ITEM]),
    ],
)
def test_other_instructions_are_items(messages: Any, items: Any) -> None:
    made = sent({"messages": messages})
    assert "instructions" not in made
    assert made["input"] == items


def test_a_marked_opening_keeps_its_mark_where_marks_are_taken() -> None:
    marked = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    messages = {"messages": [system([marked]), USER]}
    (opening, _) = sent(messages)["input"]
    part = {"type": "input_text", "text": "a"}
    assert opening["content"] == [{**part, "prompt_cache_breakpoint": {"mode": "explicit"}}]
    assert sent(messages, terms(supported=frozenset()))["instructions"] == "a"


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"type": "text", "text": ""}, {"type": "input_text", "text": ""}),
        (
            {"type": "text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit"}},
            {"type": "input_text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit"}},
        ),
        (
            {"type": "image_url", "image_url": {"url": "https://a/b.png"}},
            {"type": "input_image", "image_url": "https://a/b.png", "detail": "auto"},
        ),
        (
            {"type": "image_url", "image_url": {"url": "data:,x", "detail": "original"}},
            {"type": "input_image", "image_url": "data:,x", "detail": "original"},
        ),
        (
            {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
            {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
        ),
        (
            {"type": "video_url", "video_url": {"url": "https://a/v"}},
            {"type": "input_video", "video_url": "https://a/v"},
        ),
        (
            {"type": "input_video", "video_url": {"url": "data:,v"}},
            {"type": "input_video", "video_url": "data:,v"},
        ),
        (
            {"type": "file", "file": {"file_data": "DATA:,x", "filename": "a.pdf"}},
            {"type": "input_file", "file_data": "DATA:,x", "filename": "a.pdf"},
        ),
        (
            {"type": "file", "file": {"file_data": "https://a/f.pdf"}},
            {"type": "input_file", "file_url": "https://a/f.pdf"},
        ),
        (
            {"type": "file", "file": {"file_id": "file-1"}},
            {"type": "input_file", "file_id": "file-1"},
        ),
    ],
)
def test_parts(part: dict[str, Any], expected: dict[str, Any]) -> None:
    (item,) = items_of({"role": "user", "content": [part]})
    assert item["content"] == [expected]
    (result,) = items_of({"role": "tool", "tool_call_id": "c1", "content": [part]})
    assert result == {"type": "function_call_output", "call_id": "c1", "output": [expected]}


def test_who_speaks_is_said_in_the_text() -> None:
    parts = [{"type": "text", "text": "hi"}]
    (item,) = items_of({"role": "user", "content": parts, "name": "ann"})
    assert [part["text"] for part in item["content"]] == ["ann: ", "hi"]
    (item,) = items_of({"role": "assistant", "content": "hi", "name": "bob"})
    assert item["content"][0]["text"] == "bob: hi"


def test_an_answer_is_reasoning_then_text_then_calls() -> None:
    citation = {"url": "https://a", "title": "A", "start_index": 0, "end_index": 2}
    items = items_of(
        {
            "role": "assistant",
            "content": "hi",
            "refusal": "no",
            "reasoning": "hm",
            "reasoning_details": [
                {"type": "reasoning.encrypted", "id": "rs_1", "data": "E", "format": OWN}
            ],
            "annotations": [
                {"type": "url_citation", "url_citation": citation},
                {"type": "file", "file": {"hash": "h"}},
            ],
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{ 1"}}
            ],
            "model": "acme/small",
        }
    )
    assert items == [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "E"},
        {
            "type": "message",
            "role": "assistant",
            "content": [
                {
                    "type": "output_text",
                    "text": "hi",
                    "annotations": [{"type": "url_citation", **citation}],
                },
                {"type": "refusal", "refusal": "no"},
            ],
        },
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{ 1"},
    ]


@pytest.mark.parametrize("content", [None, "", []])
def test_an_empty_answer_is_an_empty_answer(content: Any) -> None:
    (item,) = items_of({"role": "assistant", "content": content})
    assert item == {"type": "message", "role": "assistant", "content": ""}


def reasoning(*details: dict[str, Any]) -> list[dict[str, Any]]:
    answer = {"role": "assistant", "content": "x", "reasoning_details": list(details)}
    return [item for item in items_of(answer) if item["type"] == "reasoning"]


def detail(kind: str, text: str, **fields: Any) -> dict[str, Any]:
    names = {"summary": "summary", "text": "text", "encrypted": "data"}
    return {"type": f"reasoning.{kind}", names[kind]: text, "format": OWN, **fields}


def test_pieces_of_one_id_are_one_item_again() -> None:
    items = reasoning(
        detail("summary", "a", id="rs_1", index=0),
        detail("summary", "b", id="rs_1", index=0),
        detail("text", "t", id="rs_1", index=0),
        detail("encrypted", "E", id="rs_1", index=0),
        detail("encrypted", "F", id="rs_2", index=1),
    )
    assert items == [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [
                {"type": "summary_text", "text": "a"},
                {"type": "summary_text", "text": "b"},
            ],
            "content": [{"type": "reasoning_text", "text": "t"}],
            "encrypted_content": "E",
        },
        {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "F"},
    ]


def test_fragments_of_a_stream_are_one_piece_again() -> None:
    (item,) = reasoning(
        detail("summary", "Th", id="rs_1", index=0),
        detail("summary", "ink", id="rs_1", index=0, continues=True),
        detail("summary", "More", id="rs_1", index=0),
        detail("encrypted", "E", id="rs_1", index=0),
    )
    assert [part["text"] for part in item["summary"]] == ["Think", "More"]


def test_pieces_without_an_id_belong_to_the_item_of_their_index() -> None:
    items = reasoning(
        detail("summary", "a", index=0),
        detail("encrypted", "E", id="rs_1", index=0),
        detail("summary", "b", id=None, index=1),
        detail("encrypted", "F", id=None, index=1, format="xai-responses-v1"),
    )
    assert [item.get("id") for item in items] == ["rs_1", None]
    assert [item["encrypted_content"] for item in items] == ["E", "F"]


def test_a_mere_summary_would_be_looked_up_in_vain() -> None:
    assert reasoning(detail("summary", "a", id="rs_1")) == []


def test_reasoning_that_led_to_nothing_stays_here() -> None:
    thought = [detail("encrypted", "E", id="rs_1")]
    idle = {"role": "assistant", "content": None, "reasoning_details": thought}
    assert items_of(USER, idle, USER) == [USER_ITEM, USER_ITEM]
    assert [item["type"] for item in items_of(idle, {**idle, "content": "x"})] == [
        "reasoning",
        "reasoning",
        "message",
    ]
    assert items_of(idle) == [{"type": "message", "role": "assistant", "content": ""}]


def test_an_id_that_is_too_long_is_shortened_alike_for_call_and_output() -> None:
    long = "c" * 65
    call = {"id": long, "type": "function", "function": {"name": "f", "arguments": ""}}
    made, output = items_of(
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": long, "content": "x"},
    )
    assert made["call_id"] == output["call_id"]
    assert len(made["call_id"]) <= 64
    (other, _) = items_of({"role": "assistant", "tool_calls": [{**call, "id": long + "c"}]}, USER)
    assert other["call_id"] != made["call_id"]


@pytest.mark.parametrize(
    ("kept", "piece"),
    [
        (True, detail("encrypted", "E", format=None)),
        (True, detail("encrypted", "E", format="unknown")),
        (True, detail("encrypted", "E", format="azure-openai-responses-v1")),
        (True, detail("text", "t", format=None, id="rs_1")),
        (False, detail("text", "t", format=None)),
        (False, detail("summary", "t", format="unknown")),
        (False, detail("encrypted", "E", format="anthropic-claude-v1")),
        (False, detail("text", "t", format="google-gemini-v1", id="x")),
        (False, {"type": "reasoning.new", "format": OWN}),
        (False, {"type": "reasoning.text", "text": None, "format": OWN, "signature": "s"}),
    ],
)
def test_only_reasoning_that_such_an_upstream_wrote_is_replayed(
    kept: bool, piece: dict[str, Any]
) -> None:
    assert bool(reasoning(piece)) is kept
