"""Tools and the choice among them (inference 5.3)."""

from typing import Any

import pytest

from tests.routing.formats.responses.bodies import FUNCTION, parse_fields, paths, text_of


def space(*tools: Any) -> dict[str, Any]:
    return {"type": "namespace", "name": "n", "description": "d", "tools": list(tools)}


OTHER = {**FUNCTION, "name": "g"}
NATIVE: list[dict[str, Any]] = [
    {"type": "web_search", "user_location": None, "filters": {"allowed_domains": ["x.org"]}},
    {"type": "web_search_2025_08_26"},
    {"type": "web_search_preview", "search_context_size": "low"},
    {"type": "web_search_preview_2025_03_11"},
    {"type": "file_search", "vector_store_ids": ["vs"]},
    {"type": "computer_use_preview", "display_width": 1, "display_height": 1, "environment": "mac"},
    {"type": "code_interpreter", "container": {"type": "auto"}},
    {"type": "mcp", "server_label": "l", "server_url": "https://x.org"},
    {"type": "image_generation", "model": "m"},
    {"type": "local_shell"},
    {"type": "shell"},
    {"type": "apply_patch"},
    {"type": "custom", "name": "c", "description": "d", "format": {"type": "text"}},
    space(OTHER),
]


def test_a_function_tool_is_flat_here_and_nested_in_chat() -> None:
    function = {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True}
    tool = {"type": "function", **function, "defer_loading": False, "zz": 1}
    assert parse_fields(tools=[tool]).body["tools"] == [{"type": "function", "function": function}]
    nulls = dict.fromkeys(("description", "strict", "defer_loading", "cache_control"))
    plain = {"type": "function", "function": {"name": "f"}}
    assert parse_fields(tools=[{**FUNCTION, **nulls}]).body["tools"] == [plain]
    mark = {"cache_control": {"type": "ephemeral"}}
    assert parse_fields(tools=[{**FUNCTION, **mark}]).body["tools"] == [{**plain, **mark}]


GOOD = {"type": "function", "name": "f", "parameters": {}}


@pytest.mark.parametrize(
    ("tool", "path"),
    [
        ({**GOOD, "name": "bad name!"}, "name"),
        ({**GOOD, "name": "x" * 65}, "name"),
        ({"type": "router:nope"}, "type"),
        ({"type": "computer"}, "type"),
        ({"type": "web_search", "max_results": 26}, "max_results"),
        ({"type": "router:datetime", "parameters": {"timezone": "Mars"}}, "parameters.timezone"),
        # Tools of a namespace are checked inside.
        (space(FUNCTION, 5), "tools.1"),
        (space(FUNCTION, {}), "tools.1.type"),
        (space(FUNCTION, {"type": []}), "tools.1.type"),
        (space(FUNCTION, {"type": "nope"}), "tools.1.type"),
        (space(FUNCTION, {"type": "web_search_2031_01_01"}), "tools.1.type"),
        (space(FUNCTION, space()), "tools.1.type"),
        (space(FUNCTION, {"type": "function"}), "tools.1.name"),
        (space(FUNCTION, {"type": "function", "name": ["g"]}), "tools.1.name"),
        (space(FUNCTION, {"type": "custom", "name": None}), "tools.1.name"),
        (space(FUNCTION, {**GOOD, "parameters": "{}"}), "tools.1.parameters"),
    ],
)
def test_tools_are_checked_inside(tool: dict[str, Any], path: str) -> None:
    assert paths(tools=[FUNCTION, tool]) == [f"tools.1.{path}"]


@pytest.mark.parametrize("tool", NATIVE, ids=[tool["type"] for tool in NATIVE])
def test_tools_of_the_upstreams_own_are_named_and_left_to_it(tool: dict[str, Any]) -> None:
    request = parse_fields(tools=[tool, FUNCTION, tool])
    assert request.native_tools == (tool["type"],)
    assert [one["type"] for one in request.body["tools"]] == ["function"]
    assert request.server_tools == []
    alone = parse_fields(tools=[tool])
    assert "tools" not in alone.body
    assert alone.text_bytes > parse_fields().text_bytes
    if tool["type"] in ("custom", "namespace"):
        return
    choice = {"type": tool["type"]}
    chosen = parse_fields(tools=[tool, FUNCTION], tool_choice=choice)
    assert "tool_choice" not in chosen.body
    assert chosen.original is not None
    assert chosen.original["tool_choice"] == choice
    assert paths(tools=[FUNCTION], tool_choice=choice) == ["tool_choice.type"]


def test_a_search_among_tools_is_left_out_where_it_is_not_known() -> None:
    request = parse_fields(tools=[{"type": "tool_search", "execution": "server"}, FUNCTION])
    assert request.native_tools == ()
    assert [one["type"] for one in request.body["tools"]] == ["function"]
    assert request.original
    assert len(request.original["tools"]) == 2
    assert request.text_bytes > parse_fields(tools=[FUNCTION]).text_bytes


@pytest.mark.parametrize("kind", ["router:datetime", "router:image_generation"])
def test_server_tools_stay_as_they_are_and_no_namespace_hides_one(kind: str) -> None:
    inside = {} if kind == "router:image_generation" else {"parameters": {"zz": 1}}
    tool = {"type": kind, **inside}
    request = parse_fields(tools=[tool])
    assert request.body["tools"] == [tool]
    assert (request.server_tools, request.native_tools) == ([kind], ())
    tools = [FUNCTION, space({"type": kind}, {"type": kind}), {"type": kind}]
    assert (
        parse_fields(tools=tools[:2]).server_tools
        == parse_fields(tools=tools).server_tools
        == [kind]
    )


def test_a_namespace_hides_no_tool_that_the_upstream_runs() -> None:
    search, code = {"type": "web_search_preview"}, {"type": "code_interpreter"}
    request = parse_fields(tools=[space({"type": "function", "name": "g"}, search, code, search)])
    assert request.native_tools == ("namespace", "web_search_preview", "code_interpreter")
    assert request.server_tools == []


@pytest.mark.parametrize("kind", ["web_search", "web_search_preview"])
def test_a_search_has_one_list_of_domains(kind: str) -> None:
    allowed = {"allowed_domains": ["a.example"]}
    excluded: dict[str, Any] = {"excluded_domains": ["b.example"]}
    filters = {"filters": allowed}
    parse_fields(tools=[{"type": kind, **filters, "excluded_domains": []}])
    for both in (filters | excluded, filters | {"parameters": excluded}, allowed | excluded):
        assert len(paths(tools=[{"type": kind, **both}])) == 1


DATETIME = {"type": "router:datetime"}


@pytest.mark.parametrize(
    ("tools", "choice", "chat"),
    [
        *(([FUNCTION], word, word) for word in ("auto", "none", "required")),
        (
            [FUNCTION],
            {"type": "function", "name": "f"},
            {"type": "function", "function": {"name": "f"}},
        ),
        ([DATETIME], DATETIME, DATETIME),
    ],
)
def test_a_choice_is_translated(tools: list[Any], choice: Any, chat: Any) -> None:
    assert parse_fields(tools=tools, tool_choice=choice).body["tool_choice"] == chat
    # Of a function inside a namespace, and of a search by any spelling.
    parse_fields(tools=[space(OTHER)], tool_choice={"type": "function", "name": "g"})
    parse_fields(tools=[{"type": "web_search"}], tool_choice={"type": "web_search_preview"})


def test_a_choice_names_a_tool_that_is_there() -> None:
    assert text_of(tool_choice="required") == (
        "tool_choice: Invalid input: required needs at least one tool"
    )
    choice = {"type": "function", "name": "g"}
    assert text_of(tools=[FUNCTION], tool_choice=choice) == (
        'tool_choice.name: Invalid input: no function named "g" in tools'
    )
    assert paths(tool_choice=choice) == ["tool_choice.name"]


@pytest.mark.parametrize("choice", [None, "auto", {"type": "shell"}])
def test_a_key_that_a_tool_does_not_name_may_hold_anything(choice: Any) -> None:
    odds: tuple[Any, ...] = ([], [1], {}, 5, "x")
    for odd in odds:
        fields = {} if choice is None else {"tool_choice": choice}
        parse_fields(tools=[{"type": "shell", "name": odd, "parameters": odd}], **fields)


def allowed_tools(mode: str, *tools: Any) -> dict[str, Any]:
    return {"type": "allowed_tools", "mode": mode, "tools": list(tools)}


@pytest.mark.parametrize("mode", ["auto", "required"])
def test_allowed_tools_narrow_the_tools(mode: str) -> None:
    choice = allowed_tools(mode, {"type": "function", "name": "g"})
    body = parse_fields(tools=[FUNCTION, OTHER], tool_choice=choice).body
    assert [tool["function"]["name"] for tool in body["tools"]] == ["g"]
    assert body["tool_choice"] == mode


@pytest.mark.parametrize(
    ("choice", "path"),
    [
        (allowed_tools("none", FUNCTION), "mode"),
        (allowed_tools("auto"), "tools"),
        (allowed_tools("auto", {"type": "function"}), "tools.0.name"),
        (allowed_tools("auto", {"type": "shell"}), "tools.0.type"),
        (allowed_tools("auto", {"type": "allowed_tools"}), "tools.0.type"),
        ({"type": "tools"}, "type"),
        ({"type": "custom", "name": "zz"}, "name"),
        ({"type": "mcp", "server_label": "l"}, "type"),
    ],
)
def test_choices_are_checked_inside(choice: dict[str, Any], path: str) -> None:
    assert paths(tools=[FUNCTION], tool_choice=choice) == [f"tool_choice.{path}"]
