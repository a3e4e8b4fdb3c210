"""Tools of presets beside those of requests, and how they are chosen."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.presets.merge import merge_preset
from routing.presets.tools import (
    convert_choice,
    convert_tools,
    forbids_parallel_calls,
    merge_tools,
    text_format,
    tool_identity,
)

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


def chat(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": SCHEMA, **more}}


def flat(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "function", "name": name, "parameters": SCHEMA, **more}


def custom(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "input_schema": SCHEMA, **more}


def agent(kind: str, name: str | None, **more: Any) -> dict[str, Any]:
    named = {} if name is None else {"name": name}
    return {"type": f"router:{kind}", "parameters": {**named, **more}}


SEARCH = {"type": "router:web_search"}
SPELLED: dict[str, Any] = {"chat": chat, "responses": flat, "messages": custom}


@pytest.mark.parametrize("kept", SPELLED)
@pytest.mark.parametrize("format", SPELLED)
def test_functions_in_every_format_s_words_with_marks_of_the_cache(kept: str, format: str) -> None:
    def tools(spelling: Any) -> list[dict[str, Any]]:
        marked = spelling("h") | {"cache_control": {"type": "ephemeral"}}
        return [spelling("f", description="Does f", strict=True), spelling("g"), marked]

    said, missing = convert_tools(format, tools(SPELLED[kept]))

    assert (said, missing) == (tools(SPELLED[format]), [])
    assert list(map(tool_identity, said)) == list(map(tool_identity, tools(SPELLED[kept])))


def test_what_a_provider_only_describes_is_left_out_elsewhere() -> None:
    tools = [{"type": "bash_20250124", "name": "bash"}, custom("f")]

    assert convert_tools("chat", tools) == ([chat("f")], [])
    assert convert_tools("messages", tools) == (tools, [])


def test_formats_of_text_as_responses_write_them() -> None:
    named = {"name": "n", "schema": {"type": "object"}, "strict": None}
    schema = text_format({"type": "json_schema", "json_schema": named})
    assert schema == {"type": "json_schema", "name": "n", "schema": {"type": "object"}}
    assert text_format({"type": "json_object"}) == {"type": "json_object"}
    assert text_format({"type": "grammar", "grammar": "x"}) is None


def test_the_shorthand_of_search_in_messages() -> None:
    tool = {"type": "web_search_preview", "max_results": 3, "parameters": {"max_uses": 2}}

    assert convert_tools("chat", [tool]) == convert_tools("responses", [tool]) == ([tool], [])
    settings = {"max_results": 3, "max_uses": 2}
    own = {"type": "router:web_search", "parameters": settings}
    assert convert_tools("messages", [tool]) == ([own], [])
    under_its_name = {"type": "router:web_search", "max_results": 3}
    assert convert_tools("messages", [under_its_name]) == ([under_its_name], [])


def test_the_request_replaces_and_adds() -> None:
    kept = [chat("f", description="old"), SEARCH, agent("advisor", "one"), agent("advisor", "two")]
    given = [
        chat("new"),
        {"type": "web_search"},
        agent("advisor", " two ", model="a/b"),
        chat("f", description="mine"),
        agent("subagent", "one"),
    ]

    assert merge_tools(kept, given) == [given[3], given[1], kept[2], given[2], given[0], given[4]]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (chat("f"), flat("f"), True),
        (chat("f"), custom("f"), True),
        (chat("f"), custom("f", type="custom"), True),
        (chat("f"), chat("g"), False),
        (SEARCH, {"type": "web_search_2025_08_26"}, True),
        (SEARCH, {"type": "router:web_fetch"}, False),
        (agent("advisor", None), agent("advisor", None, model="a/b"), True),
        (agent("advisor", None), {"type": "router:advisor"}, True),
        (agent("advisor", "a"), agent("subagent", "a"), False),
        (agent("fusion", "a"), agent("fusion", "b"), True),
        ({"type": "custom", "name": "f"}, flat("f"), False),
        ({"type": "custom", "name": "f"}, {"type": "custom", "name": "g"}, False),
        ({"type": "custom", "name": "f"}, {"name": "f"}, True),
        ({"type": "mcp", "server_label": "a"}, {"type": "mcp", "server_label": "b"}, False),
        ({"type": "file_search"}, {"type": "file_search", "x": 1}, True),
        (5, 5.0, False),
        (None, {}, False),
    ],
)
def test_which_tools_are_one(one: Any, other: Any, same: bool) -> None:
    assert (tool_identity(one) == tool_identity(other)) is same


_WORDS = st.sampled_from(["f", "g", "router:advisor", "web_search", "function", None, 5])
_TOOL = st.fixed_dictionaries(
    {},
    optional={
        "type": _WORDS,
        "name": _WORDS,
        "input_schema": st.just({}),
        "function": st.fixed_dictionaries({}, optional={"name": _WORDS}) | _WORDS,
        "parameters": st.fixed_dictionaries({}, optional={"name": _WORDS}) | _WORDS,
    },
)


@given(st.lists(_TOOL, max_size=4), st.lists(_TOOL | _WORDS, max_size=4))
def test_a_union_loses_and_invents_nothing(kept: list[Any], given_: list[Any]) -> None:
    joined = merge_tools(kept, given_)

    own = {tool_identity(tool) for tool in given_}
    assert [id(tool) for tool in given_ if not any(tool is each for each in joined)] == []
    assert [tool for tool in kept if tool_identity(tool) not in own] == [
        tool for tool in joined if not any(tool is each for each in given_)
    ]


CHOICES: dict[str, dict[str, Any]] = {
    **{
        word: {"chat": word, "responses": word, "messages": {"type": messages}}
        for word, messages in {"none": "none", "auto": "auto", "required": "any"}.items()
    },
    "function": {
        "chat": {"type": "function", "function": {"name": "f"}},
        "responses": {"type": "function", "name": "f"},
        "messages": {"type": "tool", "name": "f"},
    },
    "server tool": {
        "chat": SEARCH,
        "responses": SEARCH,
        "messages": {"type": "tool", "name": "web_search"},
    },
}


@pytest.mark.parametrize("what", CHOICES)
def test_choices_in_every_format_s_words(what: str) -> None:
    for format, spelling in SPELLED.items():
        for kept in CHOICES[what].values():
            assert convert_choice(format, kept, [spelling("f"), SEARCH]) == CHOICES[what][format]


def test_choices_that_only_responses_have() -> None:
    allowed = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function"}]}

    assert convert_choice("responses", allowed, [flat("f")]) == allowed
    assert convert_choice("chat", allowed, [chat("f")]) == "required"
    assert convert_choice("messages", allowed, [custom("f")]) == {"type": "any"}
    for choice in ({"type": "custom", "name": "c"}, {"type": "mcp", "server_label": "m"}):
        assert convert_choice("responses", choice, []) == choice
        assert convert_choice("chat", choice, [chat("f")]) is None
        assert convert_choice("messages", choice, [custom("f")]) is None


def test_a_choice_of_what_is_not_there_is_none() -> None:
    for format in SPELLED:
        for what in ("function", "server tool"):
            kept = CHOICES[what]["responses"]
            assert convert_choice(format, kept, [SPELLED[format]("other")]) is None


def merge_under(format: str, config: dict[str, Any], **body: Any) -> dict[str, Any]:
    return merge_preset(format, body, config, "").body


def test_one_call_at_a_time_in_every_format() -> None:
    tools = [chat("f")]
    config = {"tools": tools, "parallel_tool_calls": False}
    choice = {"type": "auto", "disable_parallel_tool_use": True}

    assert merge_under("messages", config)["tool_choice"] == choice
    named = {"type": "tool", "name": "f"}
    got = merge_under("messages", config, tool_choice=named)["tool_choice"]
    assert got == named | {"disable_parallel_tool_use": True}
    own = {"type": "auto", "disable_parallel_tool_use": False}
    assert merge_under("messages", config, tool_choice=own)["tool_choice"] == own
    none = {"type": "none"}
    assert merge_under("messages", config, tool_choice=none)["tool_choice"] == none
    assert "tool_choice" not in merge_under("messages", config | {"parallel_tool_calls": True})
    for format in ("chat", "responses"):
        kept = {"tools": tools, "tool_choice": choice}
        assert forbids_parallel_calls(choice)
        assert merge_under(format, kept)["parallel_tool_calls"] is False
        assert merge_under(format, kept)["tool_choice"] == "auto"
        assert merge_under(format, kept, parallel_tool_calls=True)["parallel_tool_calls"] is True
        assert "parallel_tool_calls" not in merge_under(format, kept, tool_choice="none")
        both = merge_under(format, kept | {"parallel_tool_calls": True})
        assert both["parallel_tool_calls"] is True


def test_a_request_s_choice_may_name_a_tool_of_the_preset() -> None:
    config = {"tools": [custom("f")], "tool_choice": {"type": "any"}}
    choice = {"type": "function", "function": {"name": "f"}}

    got = merge_under("chat", config, tools=[chat("g")], tool_choice=choice)

    assert got == {"tools": [chat("f"), chat("g")], "tool_choice": choice}


def test_without_tools_nothing_is_chosen() -> None:
    config = {"tools": [{"type": "bash_20250124", "name": "bash"}], "tool_choice": {"type": "any"}}

    assert merge_under("chat", config) == {"tools": []}
    assert merge_under("messages", {"parallel_tool_calls": False, "tool_choice": "auto"}) == {}
