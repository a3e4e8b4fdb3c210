"""Chat messages as input items."""

from typing import Any

import pytest

from routing.upstreams.responses.input_items import build_reasoning_items
from tests.gateway.outbound.asking import assistant, call, result, text, user
from tests.routing.upstreams.responses.prompts import USER, items_of, sent_body, terms

OWN = "openai-responses-v1"


def system(content: Any, role: str = "system", **fields: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **fields}


def message(role: str, content: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content}


USER_ITEM = message("user", "hi")
EXPLICIT = {"prompt_cache_breakpoint": {"mode": "explicit"}}


@pytest.mark.parametrize(
    ("messages", "instructions", "items"),
    [
        ([system("be kind"), USER], "be kind", [USER_ITEM]),
        ([system("be kind", "developer"), USER], "be kind", [USER_ITEM]),
        ([system([text("be kind")]), USER], "be kind", [USER_ITEM]),
        ([system("be kind", name="ann"), USER], "ann: be kind", [USER_ITEM]),
        ([system("a")], None, [message("system", "a")]),
        (
            [USER, system("a"), system("b", "developer", name="n")],
            None,
            [USER_ITEM, message("system", "a"), message("developer", "n: b")],
        ),
        (
            [system([text("a"), text("b")]), USER],
            None,
            [message("system", [{"type": "input_text", "text": t} for t in "ab"]), USER_ITEM],
        ),
        ([system([]), USER], None, [message("system", ""), USER_ITEM]),
    ],
)
def test_a_leading_text_is_the_instructions_and_others_are_items(
    messages: Any, instructions: str | None, items: Any
) -> None:
    made = sent_body({"messages": messages})
    assert (made.get("instructions"), made["input"]) == (instructions, items)


def test_a_marked_opening_keeps_its_mark_where_marks_are_taken() -> None:
    marked = text("a", cache_control={"type": "ephemeral", "ttl": "1h"})
    messages = {"messages": [system([marked]), USER]}
    (opening, _) = sent_body(messages)["input"]
    assert opening["content"] == [{"type": "input_text", "text": "a", **EXPLICIT}]
    assert sent_body(messages, terms(set()))["instructions"] == "a"


def image(**fields: Any) -> dict[str, Any]:
    return {"type": "input_image", **fields}


AUDIO = {"data": "AA==", "format": "wav"}
PDF = {"file_data": "DATA:,x", "filename": "a.pdf"}


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("text", "", {"type": "input_text", "text": ""}),
        ("image_url", {"url": "https://a"}, image(image_url="https://a", detail="auto")),
        ("image_url", {"url": "x", "detail": "original"}, image(image_url="x", detail="original")),
        ("input_audio", AUDIO, {"type": "input_audio", "input_audio": AUDIO}),
        ("video_url", {"url": "https://a/v"}, {"type": "input_video", "video_url": "https://a/v"}),
        ("file", PDF, {"type": "input_file", **PDF}),
        ("file", {"file_data": "https://a/f"}, {"type": "input_file", "file_url": "https://a/f"}),
        ("file", {"file_id": "file-1"}, {"type": "input_file", "file_id": "file-1"}),
    ],
)
def test_parts(kind: str, value: Any, expected: dict[str, Any]) -> None:
    part = {"type": kind, kind: value}
    assert items_of(user([part])) == [message("user", [expected])]
    told = {"type": "function_call_output", "call_id": "c1", "output": [expected]}
    assert items_of(result("c1", [part])) == [told]


def test_video_in_its_other_spelling_and_a_marked_part() -> None:
    video = {"type": "input_video", "video_url": {"url": "data:,v"}}
    (item,) = items_of(user([video, text("a", **EXPLICIT)]))
    assert item["content"] == [
        {"type": "input_video", "video_url": "data:,v"},
        {"type": "input_text", "text": "a", **EXPLICIT},
    ]


def detail(kind: str, said: str | None, **fields: Any) -> dict[str, Any]:
    name = "data" if kind == "encrypted" else kind
    return {"type": f"reasoning.{kind}", name: said, "format": OWN, **fields}


def test_an_answer_is_reasoning_then_text_then_calls() -> None:
    citation: dict[str, Any] = {"url": "https://a", "title": "A", "start_index": 0, "end_index": 2}
    cited = {"type": "url_citation", "url_citation": citation}
    items = items_of(
        assistant(
            "hi",
            refusal="no",
            reasoning="hm",
            reasoning_details=[detail("encrypted", "E", id="rs_1")],
            annotations=[cited, {"type": "file", "file": {"hash": "h"}}],
            tool_calls=[call("c1", "{ 1")],
            model="acme/small",
        )
    )
    note = {"type": "url_citation", **citation}
    said = {"type": "output_text", "text": "hi", "annotations": [note]}
    assert items == [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "E"},
        message("assistant", [said, {"type": "refusal", "refusal": "no"}]),
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{ 1"},
    ]


def reasoning_item(
    id: str | None, summary: str = "", content: str = "", seal: str | None = None
) -> Any:
    """A reasoning item, each word of summary and content as a piece of its own."""
    item: dict[str, Any] = {"type": "reasoning", **({"id": id} if id else {})}
    item["summary"] = [{"type": "summary_text", "text": said} for said in summary.split()]
    if content:
        item["content"] = [{"type": "reasoning_text", "text": said} for said in content.split()]
    return item | ({"encrypted_content": seal} if seal else {})


FIRST: dict[str, Any] = {"id": "rs_1", "index": 0}
GOES_ON = {**FIRST, "continues": True}
SEAL = detail("encrypted", "E", **FIRST)


@pytest.mark.parametrize(
    ("details", "items"),
    [
        (
            [
                *[
                    *(detail("summary", said, **FIRST) for said in "ab"),
                    detail("text", "t", **FIRST),
                ],
                *[SEAL, detail("encrypted", "F", id="rs_2", index=1)],
            ],
            [reasoning_item("rs_1", "a b", "t", "E"), reasoning_item("rs_2", seal="F")],
        ),
        (
            [
                *[detail("summary", "a", index=0), SEAL, detail("summary", "b", id=None, index=1)],
                detail("encrypted", "F", id=None, index=1, format="xai-responses-v1"),
            ],
            [reasoning_item("rs_1", "a", seal="E"), reasoning_item(None, "b", seal="F")],
        ),
        # A mere summary would be looked up in vain.
        ([detail("summary", "a", id="rs_1")], []),
        # Only what such an upstream wrote is replayed.
        *[
            ([detail("encrypted", "E", format=format)], [reasoning_item(None, seal="E")])
            for format in (None, "unknown", "azure-openai-responses-v1")
        ],
        ([detail("text", "t", format=None, id="rs_1")], [reasoning_item("rs_1", content="t")]),
        ([detail("summary", "t", format="unknown")], []),
        ([detail("encrypted", "E", format="anthropic-claude-v1")], []),
        ([{"type": "reasoning.new", "format": OWN}], []),
    ],
)
def test_reasoning_is_put_together_again(details: Any, items: Any) -> None:
    said = message("assistant", [{"type": "output_text", "text": "x", "annotations": []}])
    assert items_of(assistant("x", reasoning_details=details)) == [*items, said]


def test_many_fragments_are_one_text() -> None:
    rest = [detail("summary", "b", **GOES_ON)] * 20_000
    details = [detail("summary", "a", id="rs_1"), *rest, detail("encrypted", "E", id="rs_1")]
    assert build_reasoning_items(details) == [reasoning_item("rs_1", "a" + "b" * 20_000, seal="E")]


@pytest.mark.parametrize("type_", [{}, {"type": None}, {"type": []}, {"type": "reasoning.new"}])
@pytest.mark.parametrize("beside", [{}, {"format": OWN}, {"id": ["x"]}])
def test_details_of_no_known_type_are_left_out(type_: Any, beside: dict[str, Any]) -> None:
    own = detail("encrypted", "E", id="rs_1")
    assert build_reasoning_items([{**type_, **beside}, own]) == [reasoning_item("rs_1", seal="E")]


def test_reasoning_that_led_to_nothing_stays_here() -> None:
    idle = assistant(reasoning_details=[detail("encrypted", "E", id="rs_1")])
    assert items_of(USER, idle, USER) == [USER_ITEM, USER_ITEM]
    kinds = [item["type"] for item in items_of(idle, {**idle, "content": "x"})]
    assert kinds == ["reasoning", "reasoning", "message"]
    assert items_of(idle) == [message("assistant", "")]


def test_an_id_that_is_too_long_is_shortened_alike_for_call_and_output() -> None:
    long = "c" * 65
    made, output = items_of(assistant(tool_calls=[call(long)]), result(long))
    assert made["call_id"] == output["call_id"]
    assert len(made["call_id"]) <= 64
    (other, _) = items_of(assistant(tool_calls=[call(long + "c")]), USER)
    assert other["call_id"] != made["call_id"]
