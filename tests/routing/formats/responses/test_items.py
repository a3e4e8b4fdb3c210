"""Input items: which are taken, and what they are in chat (inference 1.5, 5.2 and 11)."""

from typing import Any

import pytest

from gateway.http.jsonio import dumps
from routing.entities.ids import is_own_reasoning
from routing.formats.responses.write import derive_stem, item_id
from tests.routing.formats.chat_bodies import USER
from tests.routing.formats.responses.answers import output_of
from tests.routing.formats.responses.bodies import (
    CALL,
    CALL_OUTPUT,
    DATA_URL,
    FUNCTION,
    expect_refusal,
    item_paths,
    message,
    messages,
    parse_fields,
)

TEXT = {"type": "input_text", "text": "hi"}
CHAT_TEXT = {"type": "text", "text": "hi"}
IMAGE = {"type": "input_image", "image_url": DATA_URL}
SOUND = {"type": "input_audio", "input_audio": {"data": "AA", "format": "mp3"}}
DECLINED = {"type": "refusal", "refusal": "no"}
SECOND = {**CALL, "call_id": "c2", "name": "g"}


def message_by(role: str, *content: Any) -> dict[str, Any]:
    """What a role says: a text or parts."""
    return {"role": role, "content": content[0] if type(content[0]) is str else list(content)}


def image(**fields: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": DATA_URL, **fields}}


def test_a_string_is_what_the_user_says_and_instructions_come_first() -> None:
    request = parse_fields(instructions="be brief")
    assert request.body["messages"] == [{"role": "system", "content": "be brief"}, USER]
    assert parse_fields(instructions="").body["messages"] == [USER]


@pytest.mark.parametrize("role", ["user", "system", "developer", "assistant"])
def test_messages_of_every_role_with_and_without_a_type(role: str) -> None:
    for beside in ({}, {"type": "message"}, {"id": "msg_1", "status": "completed", "phase": None}):
        assert message({**message_by(role, "hi"), **beside}) == message_by(role, "hi")
    assert message(message_by(role, TEXT)) == message_by(role, "hi")
    assert message({"role": role})["content"] == ""
    # No parts are fine for an answer only.
    assert message({"role": "assistant", "content": []})["content"] == ""


@pytest.mark.parametrize(
    ("part", "translated"),
    [
        ({**IMAGE, "detail": "original"}, image(detail="original")),
        ({**IMAGE, "detail": None}, image()),
        # Images and files of every origin come through `translation` as well.
        (SOUND, SOUND),
        (
            {"type": "input_video", "video_url": "https://x.org/v.mp4"},
            {"type": "video_url", "video_url": {"url": "https://x.org/v.mp4"}},
        ),
        *(
            ({**TEXT, **mark}, {**CHAT_TEXT, **mark})
            for mark in (
                {"prompt_cache_breakpoint": {"mode": "explicit"}},
                {"cache_control": {"type": "ephemeral"}},
            )
        ),
    ],
)
def test_parts(part: dict[str, Any], translated: dict[str, Any]) -> None:
    assert message(message_by("user", part))["content"] == [translated]
    output = {**CALL_OUTPUT, "output": [TEXT, part]}
    assert messages(CALL, output)[1]["content"] == [CHAT_TEXT, translated]


def test_media_are_counted() -> None:
    request = parse_fields(input=[message_by("user", TEXT, IMAGE)])
    assert (request.image_parts, request.media_parts) == (1, 1)
    assert request.input_modalities == {"image"}


def test_what_the_assistant_said() -> None:
    place = {"url": "u", "title": "t", "start_index": 0, "end_index": 2}
    other = {"type": "file_citation", "file_id": "f", "filename": "n", "index": 0}
    notes = [{"type": "url_citation", **place}, other]
    spoken = {"type": "output_text", "text": "a", "annotations": notes, "logprobs": []}
    assert message(message_by("assistant", spoken, DECLINED)) == {
        "role": "assistant",
        "content": "a",
        "refusal": "no",
        "annotations": [{"type": "url_citation", "url_citation": place}],
    }
    only = {"role": "assistant", "content": None, "refusal": "no"}
    assert message(message_by("assistant", DECLINED)) == only
    assert message(message_by("user", DECLINED))["content"] == [{"type": "text", "text": "no"}]


def test_calls_of_one_turn_are_one_message() -> None:
    turn, output, last = messages(message_by("assistant", "look"), CALL, SECOND, CALL_OUTPUT, USER)
    called = [
        {"id": one, "type": "function", "function": {"name": name, "arguments": "{not json"}}
        for one, name in (("c1", "f"), ("c2", "g"))
    ]
    assert turn == {"role": "assistant", "content": "look", "tool_calls": called}
    assert output == {"role": "tool", "tool_call_id": "c1", "content": "22"}
    assert last == USER
    # An output between calls ends the turn.
    roles = [one["role"] for one in messages(CALL, CALL_OUTPUT, SECOND)]
    assert roles == ["assistant", "tool", "assistant"]
    # A call is the model's, whatever role stands beside it.
    turn, _ = messages({**CALL, "role": "user"}, CALL_OUTPUT)
    assert len(turn["tool_calls"]) == 1


A, B = ({"type": "text", "text": text} for text in "ab")


@pytest.mark.parametrize(
    ("contents", "content", "refusal"),
    [
        (["a"], "a", None),
        (["", "a"], "a", None),
        (["a", ""], [A], None),
        (["a", [TEXT], "b"], [A, CHAT_TEXT, B], None),
        (["", None], "", None),
        ([[DECLINED], [DECLINED]], None, "nono"),
        ([[DECLINED], "a"], "a", "no"),
    ],
)
def test_what_a_turn_says_beside_its_call_is_one_content(
    contents: list[Any], content: Any, refusal: str | None
) -> None:
    said = [{"role": "assistant", "content": each} for each in contents]
    [turn, output] = messages(CALL, *said, CALL_OUTPUT)
    assert (turn["content"], turn.get("refusal")) == (content, refusal)
    assert (len(turn["tool_calls"]), output["role"]) == (1, "tool")


def test_a_turn_takes_any_number_of_messages_after_its_call() -> None:
    thought = {"type": "reasoning_text", "text": "t"}
    reasoning = {"type": "reasoning", "id": OWN_ID, "summary": [], "content": [thought]}
    declined = message_by("assistant", {"type": "output_text", "text": "a"}, DECLINED)
    turn, _ = messages(CALL, *[declined, reasoning] * 10_000, CALL_OUTPUT)
    assert len(turn["content"]) == 10_000
    assert (turn["reasoning"], turn["refusal"]) == ("t" * 10_000, "no" * 10_000)


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
    error = expect_refusal(input=[USER, orphan, CALL])
    assert error.error_type == "invalid_prompt"
    assert [issue.path for issue in error.issues] == ["input.1.call_id"]
    assert len(expect_refusal(input=[orphan] * 9).issues) == 5


@pytest.mark.parametrize(
    "kind",
    [
        *("web_search_call", "file_search_call", "computer_call", "computer_call_output"),
        *("code_interpreter_call", "local_shell_call", "local_shell_call_output", "shell_call"),
        *("shell_call_output", "apply_patch_call", "apply_patch_call_output", "mcp_call"),
        *("mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "compaction"),
        *("context_compaction", "router:datetime", "router:web_fetch", "router:anything_new"),
    ],
)
def test_items_without_an_equivalent_are_replayed_or_dropped(kind: str) -> None:
    item = {"type": kind, "id": "x_1", "zz": [1]}
    request, without = parse_fields(input=[USER, item, USER]), parse_fields(input=[USER, USER])
    assert request.body["messages"] == [USER, USER]
    assert request.original is not None
    assert request.original["input"][1] == item
    assert request.text_bytes > without.text_bytes
    assert request.prompt_text_chars == without.prompt_text_chars
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


def test_references_are_refused_unless_the_item_is_there() -> None:
    reference = {"type": "item_reference", "id": "rs_1"}
    error = expect_refusal(input=[USER, reference])
    assert [issue.path for issue in error.issues] == ["input.1.id"]
    assert "store: false" in str(error)
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"}
    request = parse_fields(input=[USER, reference, item, CALL, CALL_OUTPUT])
    assert request.original
    assert request.original["input"] == [USER, item, CALL, CALL_OUTPUT]
    assert request.body["messages"] == messages(USER, item, CALL, CALL_OUTPUT)


def test_tools_among_the_items_stand_beside_the_others() -> None:
    added = {"type": "additional_tools", "role": "developer", "tools": [FUNCTION, {"type": "mcp"}]}
    request = parse_fields(input=[USER, added], tool_choice={"type": "function", "name": "f"})
    assert [tool["function"]["name"] for tool in request.body["tools"]] == ["f"]
    assert request.native_tools == ("mcp",)
    assert request.body["messages"] == messages(USER)
    assert request.original
    assert request.original["input"] == [USER, added]
    assert "tools" not in request.original
    # Those of the gateway are not looked for there.
    bash = [{"type": "router:bash"}]
    space = {"type": "namespace", "name": "n", "description": "", "tools": bash}
    for tool in ({"type": "router:datetime"}, space):
        assert item_paths(USER, {"type": "additional_tools", "tools": [tool]}) == ["1.tools.0.type"]


@pytest.mark.parametrize(
    ("item", "path"),
    [
        ({"type": "nope"}, "type"),
        (message_by("tool", "x"), "role"),
        ({"role": "user", "content": []}, "content"),
        (message_by("user", CHAT_TEXT), "content.0.type"),
        (message_by("user", {"type": "input_image"}), "content.0.image_url"),
        (message_by("user", {**IMAGE, "detail": "x"}), "content.0.detail"),
        (message_by("user", {**IMAGE, "image_url": "x"}), "content.0.image_url"),
        (message_by("user", {"type": "input_file"}), "content.0"),
        (
            message_by("user", {**SOUND, "input_audio": {"data": "A", "format": "ogg"}}),
            "content.0.input_audio.format",
        ),
        (message_by("system", TEXT, IMAGE), "content.1.type"),
        (message_by("developer", IMAGE), "content.0.type"),
        ({**message_by("assistant", "x"), "phase": "first"}, "phase"),
        ({**CALL_OUTPUT, "output": []}, "output"),
        ({**CALL_OUTPUT, "output": [{"type": "output_text", "text": "x"}]}, "output.0.type"),
        ({"type": "reasoning", "summary": [{"type": "text"}]}, "summary.0.type"),
    ],
)
def test_items_are_checked_inside(item: dict[str, Any], path: str) -> None:
    assert item_paths(USER, item) == [f"1.{path}"]


OWN_ID = item_id("rs", derive_stem("gen-1"), 0)
SUMMARY = {"type": "summary_text", "text": "s"}
THOUGHT = {"type": "reasoning_text", "text": "t"}
ITEM: dict[str, Any] = {"type": "reasoning", "id": "rs_1", "summary": [SUMMARY]}
OTHER = {**ITEM, "id": "rs_2"}


def details(*items: dict[str, Any]) -> Any:
    [turn] = messages(*items)
    return turn["reasoning_details"]


def test_ids_made_here_are_known_again() -> None:
    assert is_own_reasoning(OWN_ID)
    assert not is_own_reasoning(None)
    assert not is_own_reasoning("rs_68af4030baa48193b0b43b4c2a176a1a0e6967589f080e78")


def test_signed_thinking_keeps_its_signature_and_format() -> None:
    form = {"format": "anthropic-claude-v1"}
    signed = {**ITEM, "id": OWN_ID, "summary": [], "signature": "sig", **form}
    detail = {"type": "reasoning.text", "signature": "sig", "id": None, "index": 0, **form}
    assert details({**signed, "content": [THOUGHT]}) == [{**detail, "text": "t"}]
    assert details({**signed, "content": None}) == [detail]


def test_plain_reasoning_is_plain_again() -> None:
    [turn] = messages({**ITEM, "id": OWN_ID, "summary": [], "content": [THOUGHT, THOUGHT]}, CALL)
    assert turn["reasoning"] == "tt"
    assert "reasoning_details" not in turn


def test_reasoning_joins_the_turn_it_belongs_to() -> None:
    spoken = {"role": "assistant", "content": "a"}
    first, second, output = messages(ITEM, spoken, OTHER, CALL, CALL_OUTPUT)
    assert (first["content"], len(first["reasoning_details"])) == ("a", 1)
    assert (second["content"], second["reasoning_details"][0]["id"]) == (None, "rs_2")
    assert output["role"] == "tool"
    # Between calls it stays with them.
    turn, _ = messages(ITEM, CALL, OTHER, {**CALL, "call_id": "c2"}, CALL_OUTPUT)
    assert len(turn["tool_calls"]) == 2
    assert [one["index"] for one in turn["reasoning_details"]] == [0, 1]


def detail(kind: str, index: int = 0, **said: Any) -> dict[str, Any]:
    return {"id": None, "type": f"reasoning.{kind}", "index": index, **said}


@pytest.mark.parametrize(
    "said",
    [
        [detail("text", text="t", signature="s"), detail("encrypted", 1, data="x")],
        [
            detail("summary", summary="a", id="rs_1"),
            detail("summary", summary="b", id="rs_1"),
            detail("encrypted", data="x", id="rs_1"),
            detail("summary", 1, summary="c", id="rs_2"),
        ],
        [detail("text", text="t"), detail("text", signature="s")],
        [detail("text", text="t"), detail("encrypted", 1, data="x", id="tool_1")],
    ],
)
def test_details_survive_the_way_out_and_back(said: list[dict[str, Any]]) -> None:
    full = [{**one, "format": "anthropic-claude-v1"} for one in said]
    again = details(*output_of({"reasoning_details": full, "content": None}))
    assert merge_details(again) == merge_details(full)


def test_details_of_no_format_come_back_as_unknown() -> None:
    [item] = output_of({"reasoning_details": [{"type": "reasoning.text", "text": "t", "index": 0}]})
    assert details(item)[0]["format"] == "unknown"


def merge_details(full: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A signature may stand beside its text or after it."""
    found: list[dict[str, Any]] = []
    for one in full:
        seals = one["type"] == "reasoning.text" and "text" not in one and found
        if seals and found[-1]["index"] == one["index"]:
            found[-1] = {**found[-1], **one}
        else:
            found.append(one)
    return found
