"""Input items: which are taken, and what they are in chat (inference 5.2 and 11)."""

from typing import Any

import pytest

from gateway.http.jsonio import dumps
from routing.formats.responses import turn as turn_module
from tests.routing.formats.responses.bodies import (
    CALL,
    CALL_OUTPUT,
    DATA_URL,
    FUNCTION,
    accepted,
    item_paths,
    message,
    messages,
    refused,
)
from tests.routing.formats.responses.test_reasoning_items import OWN_ID

USER = {"role": "user", "content": "hi"}
TEXT = {"type": "input_text", "text": "hi"}
IMAGE = {"type": "input_image", "image_url": DATA_URL}
REPLAYED = [
    "web_search_call",
    "file_search_call",
    "computer_call",
    "computer_call_output",
    "code_interpreter_call",
    "local_shell_call",
    "local_shell_call_output",
    "shell_call",
    "shell_call_output",
    "apply_patch_call",
    "apply_patch_call_output",
    "mcp_call",
    "mcp_list_tools",
    "mcp_approval_request",
    "mcp_approval_response",
    "compaction",
    "context_compaction",
    "router:datetime",
    "router:web_fetch",
    "router:anything_new",
]


def said(part: dict[str, Any], role: str = "user") -> Any:
    return message({"role": role, "content": [part]})["content"]


def test_a_string_is_what_the_user_says_and_instructions_come_first() -> None:
    request = accepted(instructions="be brief")
    assert request.body["messages"] == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "hi"},
    ]
    assert accepted(instructions="").body["messages"] == [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize("role", ["user", "system", "developer", "assistant"])
def test_messages_of_every_role_with_and_without_a_type(role: str) -> None:
    for beside in ({}, {"type": "message"}, {"id": "msg_1", "status": "completed", "phase": None}):
        assert message({"role": role, "content": "hi", **beside}) == {"role": role, "content": "hi"}
    assert message({"role": role, "content": [TEXT]}) == {"role": role, "content": "hi"}
    assert message({"role": role})["content"] == ""


@pytest.mark.parametrize(
    ("part", "translated"),
    [
        (IMAGE, {"type": "image_url", "image_url": {"url": DATA_URL}}),
        (
            {**IMAGE, "detail": "original"},
            {"type": "image_url", "image_url": {"url": DATA_URL, "detail": "original"}},
        ),
        ({**IMAGE, "detail": None}, {"type": "image_url", "image_url": {"url": DATA_URL}}),
        (
            {"type": "input_file", "file_data": DATA_URL, "filename": "a.pdf", "file_id": None},
            {"type": "file", "file": {"file_data": DATA_URL, "filename": "a.pdf"}},
        ),
        (
            {"type": "input_file", "file_url": "https://x.org/a.pdf"},
            {"type": "file", "file": {"file_data": "https://x.org/a.pdf"}},
        ),
        (
            {"type": "input_file", "file_id": "file-1"},
            {"type": "file", "file": {"file_id": "file-1"}},
        ),
        (
            {"type": "input_audio", "input_audio": {"data": "AA", "format": "mp3"}},
            {"type": "input_audio", "input_audio": {"data": "AA", "format": "mp3"}},
        ),
        (
            {"type": "input_video", "video_url": "https://x.org/v.mp4"},
            {"type": "video_url", "video_url": {"url": "https://x.org/v.mp4"}},
        ),
        (
            {**TEXT, "prompt_cache_breakpoint": {"mode": "explicit"}},
            {"type": "text", "text": "hi", "prompt_cache_breakpoint": {"mode": "explicit"}},
        ),
        (
            {**TEXT, "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}},
        ),
    ],
)
def test_parts(part: dict[str, Any], translated: dict[str, Any]) -> None:
    assert said(part) == [translated]
    output = {**CALL_OUTPUT, "output": [TEXT, part]}
    assert messages(CALL, output)[1]["content"] == [{"type": "text", "text": "hi"}, translated]


def test_media_are_counted() -> None:
    request = accepted(input=[{"role": "user", "content": [TEXT, IMAGE]}])
    assert (request.image_parts, request.media_parts) == (1, 1)
    assert request.input_modalities == {"image"}


def test_what_the_assistant_said() -> None:
    cited = {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 2}
    other = {"type": "file_citation", "file_id": "f", "filename": "n", "index": 0}
    spoken = {"type": "output_text", "text": "a", "annotations": [cited, other], "logprobs": []}
    declined = {"type": "refusal", "refusal": "no"}
    assert message({"role": "assistant", "content": [spoken, declined]}) == {
        "role": "assistant",
        "content": "a",
        "refusal": "no",
        "annotations": [
            {
                "type": "url_citation",
                "url_citation": {"url": "u", "title": "t", "start_index": 0, "end_index": 2},
            }
        ],
    }
    only = message({"role": "assistant", "content": [declined]})
    assert only == {"role": "assistant", "content": None, "refusal": "no"}
    assert message({"role": "user", "content": [declined]})["content"] == [
        {"type": "text", "text": "no"}
    ]


def test_calls_of_one_turn_are_one_message() -> None:
    second = {**CALL, "call_id": "c2", "name": "g"}
    turn, first_output, last = messages(
        {"role": "assistant", "content": "look"}, CALL, second, CALL_OUTPUT, USER
    )
    assert turn == {
        "role": "assistant",
        "content": "look",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{not json"}},
            {"id": "c2", "type": "function", "function": {"name": "g", "arguments": "{not json"}},
        ],
    }
    assert first_output == {"role": "tool", "tool_call_id": "c1", "content": "22"}
    assert last == USER


def test_an_output_between_calls_ends_the_turn() -> None:
    roles = [one["role"] for one in messages(CALL, CALL_OUTPUT, {**CALL, "call_id": "c2"})]
    assert roles == ["assistant", "tool", "assistant"]


def test_a_text_after_a_call_stays_with_it_because_the_output_follows() -> None:
    turn, output = messages(CALL, {"role": "assistant", "content": "wait"}, CALL_OUTPUT)
    assert (turn["content"], len(turn["tool_calls"])) == ("wait", 1)
    assert output["role"] == "tool"


def test_what_a_turn_says_in_several_messages_is_one_content() -> None:
    def said(content: Any) -> dict[str, Any]:
        return {"role": "assistant", "content": content}

    declined = {"type": "refusal", "refusal": "no"}
    a, b = ({"type": "text", "text": text} for text in "ab")
    for contents, content, refusal in (
        (["a"], "a", None),
        (["", "a"], "a", None),
        (["a", ""], [a], None),
        (["a", [TEXT], "b"], [a, {"type": "text", "text": "hi"}, b], None),
        (["", None], "", None),
        ([[declined], [declined]], None, "nono"),
        ([[declined], "a"], "a", "no"),
    ):
        [turn, _] = messages(CALL, *map(said, contents), CALL_OUTPUT)
        assert (turn["content"], turn.get("refusal")) == (content, refusal)


def test_a_turn_is_put_together_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many messages follow a call, no text of theirs is looked at twice."""
    looks: list[Any] = []
    as_parts = turn_module._as_parts

    def counted(content: Any) -> list[dict[str, Any]]:
        looks.append(content)
        return as_parts(content)

    # It does what it did, and is counted: how often it looks shows nowhere else.
    monkeypatch.setattr(turn_module, "_as_parts", counted)
    thought = {"type": "reasoning_text", "text": "t"}
    reasoning = {"type": "reasoning", "id": OWN_ID, "summary": [], "content": [thought]}
    declined = [{"type": "output_text", "text": "a"}, {"type": "refusal", "refusal": "n"}]
    many = [{"role": "assistant", "content": declined}, reasoning] * 10_000
    turn, _ = messages(CALL, *many, CALL_OUTPUT)
    assert len(looks) == len(turn["content"]) == 10_000
    assert (turn["reasoning"], turn["refusal"]) == ("t" * 10_000, "n" * 10_000)


def test_a_call_is_the_models_whatever_role_stands_beside_it() -> None:
    turn, _ = messages({**CALL, "role": "user"}, CALL_OUTPUT)
    assert len(turn["tool_calls"]) == 1


def test_custom_tools_become_functions_of_one_argument() -> None:
    call = {"type": "custom_tool_call", "call_id": "c1", "name": "sh", "input": 'echo "1"'}
    output = {"type": "custom_tool_call_output", "call_id": "c1", "output": "1"}
    turn, result = messages(call, output)
    arguments = dumps({"input": 'echo "1"'}).decode()
    assert turn["tool_calls"][0]["function"] == {"name": "sh", "arguments": arguments}
    assert result == {"role": "tool", "tool_call_id": "c1", "content": "1"}


@pytest.mark.parametrize("kind", ["function_call_output", "custom_tool_call_output"])
def test_an_output_that_answers_no_earlier_call_is_named(kind: str) -> None:
    orphan = {"type": kind, "call_id": "c1", "output": "x"}
    error = refused(input=[USER, orphan, CALL])
    assert error.error_type == "invalid_prompt"
    assert [issue.path for issue in error.issues] == ["input.1.call_id"]
    assert len(refused(input=[orphan] * 9).issues) == 5


@pytest.mark.parametrize("kind", REPLAYED)
def test_items_without_an_equivalent_are_replayed_or_dropped(kind: str) -> None:
    item = {"type": kind, "id": "x_1", "zz": [1]}
    request = accepted(input=[USER, item, USER])
    assert request.body["messages"] == [USER, USER]
    assert request.original is not None
    assert request.original["input"][1] == item
    assert request.text_bytes > accepted(input=[USER, USER]).text_bytes
    assert request.prompt_text_chars == accepted(input=[USER, USER]).prompt_text_chars
    assert item_paths(item) == ["input"]


def test_a_picture_the_model_made_is_an_image_of_its_turn() -> None:
    item = {"type": "image_generation_call", "id": "ig_1", "status": "completed"}
    for result, url in (
        ("/9j/AA", "data:image/jpeg;base64,/9j/AA"),
        ("iVBORAA", "data:image/png;base64,iVBORAA"),
        ("AAAA", "data:image/png;base64,AAAA"),
        ("https://x.org/a.png", "https://x.org/a.png"),
    ):
        [turn] = messages({**item, "result": result})
        assert turn["images"] == [{"type": "image_url", "image_url": {"url": url}}]
    assert messages(USER, {**item, "result": None}) == [USER]


REFERENCE = {"type": "item_reference", "id": "rs_1"}


def test_references_are_refused_because_nothing_is_stored() -> None:
    error = refused(input=[USER, REFERENCE])
    assert [issue.path for issue in error.issues] == ["input.1.id"]
    assert "store: false" in str(error)


def test_a_reference_to_an_item_that_is_there_says_nothing_more() -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"}
    request = accepted(input=[USER, REFERENCE, item, CALL, CALL_OUTPUT])

    assert request.original
    assert request.original["input"] == [USER, item, CALL, CALL_OUTPUT]
    assert request.body["messages"] == messages(USER, item, CALL, CALL_OUTPUT)


def test_tools_among_the_items_stand_beside_the_others() -> None:
    added = {"type": "additional_tools", "role": "developer", "tools": [FUNCTION, {"type": "mcp"}]}
    request = accepted(input=[USER, added], tool_choice={"type": "function", "name": "f"})

    assert [tool["function"]["name"] for tool in request.body["tools"]] == ["f"]
    assert request.native_tools == ("mcp",)
    assert request.body["messages"] == messages(USER)
    assert request.original
    assert request.original["input"] == [USER, added]
    assert "tools" not in request.original


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "router:datetime"},
        {"type": "namespace", "name": "n", "description": "", "tools": [{"type": "router:bash"}]},
    ],
)
def test_tools_of_the_gateway_are_not_looked_for_among_the_items(tool: dict[str, Any]) -> None:
    assert item_paths(USER, {"type": "additional_tools", "tools": [tool]}) == ["1.tools.0.type"]


@pytest.mark.parametrize(
    ("item", "path"),
    [
        ({"type": "nope"}, "type"),
        ({"type": None}, "role"),
        ({"type": 5}, "type"),
        ({}, "role"),
        ({"role": "tool", "content": "x"}, "role"),
        ({"role": "user", "content": 5}, "content"),
        ({"role": "user", "content": []}, "content"),
        ({"role": "user", "content": [{"type": "text", "text": "x"}]}, "content.0.type"),
        ({"role": "user", "content": [{"type": "input_text"}]}, "content.0.text"),
        ({"role": "user", "content": [{"type": "input_image"}]}, "content.0.image_url"),
        ({"role": "user", "content": [{**IMAGE, "detail": "x"}]}, "content.0.detail"),
        ({"role": "user", "content": [{**IMAGE, "image_url": "x"}]}, "content.0.image_url"),
        ({"role": "user", "content": [{"type": "input_file"}]}, "content.0"),
        (
            {
                "role": "user",
                "content": [{"type": "input_audio", "input_audio": {"data": "A", "format": "ogg"}}],
            },
            "content.0.input_audio.format",
        ),
        ({"role": "user", "content": [{"type": "input_video"}]}, "content.0.video_url"),
        ({"role": "user", "content": [{**IMAGE, "cache_control": 5}]}, "content.0.cache_control"),
        (
            {
                "role": "assistant",
                "content": [{"type": "refusal", "refusal": "", "prompt_cache_breakpoint": 5}],
            },
            "content.0.prompt_cache_breakpoint",
        ),
        ({"role": "system", "content": [TEXT, IMAGE]}, "content.1.type"),
        ({"role": "developer", "content": [IMAGE]}, "content.0.type"),
        ({"role": "assistant", "content": [{"type": "output_text"}]}, "content.0.text"),
        ({"role": "assistant", "content": [{"type": "refusal"}]}, "content.0.refusal"),
        ({"role": "assistant", "content": "x", "phase": "first"}, "phase"),
        ({"type": "function_call", "call_id": "c", "name": "f"}, "arguments"),
        ({"type": "function_call", "call_id": "c", "arguments": "{}"}, "name"),
        ({"type": "function_call", "name": "f", "arguments": "{}"}, "call_id"),
        ({**CALL, "arguments": {}}, "arguments"),
        ({"type": "function_call_output", "call_id": "c"}, "output"),
        ({"type": "function_call_output", "output": "x"}, "call_id"),
        ({**CALL_OUTPUT, "output": []}, "output"),
        ({**CALL_OUTPUT, "output": [{"type": "output_text", "text": "x"}]}, "output.0.type"),
        ({"type": "custom_tool_call", "call_id": "c", "name": "f"}, "input"),
        ({"type": "custom_tool_call_output", "call_id": "c"}, "output"),
        ({"type": "reasoning", "summary": "x"}, "summary"),
        ({"type": "reasoning", "summary": [{"type": "text"}]}, "summary.0.type"),
        ({"type": "reasoning", "content": [{"type": "reasoning_text"}]}, "content.0.text"),
        ({"type": "reasoning", "encrypted_content": 5}, "encrypted_content"),
    ],
)
def test_items_are_checked_inside(item: dict[str, Any], path: str) -> None:
    assert item_paths(USER, item) == [f"1.{path}"]


def test_content_of_no_parts_is_fine_for_an_answer_only() -> None:
    assert message({"role": "assistant", "content": []})["content"] == ""
