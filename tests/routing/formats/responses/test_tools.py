"""Tools and the choice among them (inference 5.3)."""

from typing import Any

import pytest
from tests.routing.formats.needing import needed

from tests.routing.formats.responses.bodies import FUNCTION, accepted, paths, text_of

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
    {"type": "namespace", "name": "n", "description": "d", "tools": [{**FUNCTION, "name": "g"}]},
]
ROUTER = [
    "router:advisor",
    "router:apply_patch",
    "router:bash",
    "router:datetime",
    "router:experimental__search_models",
    "router:files",
    "router:fusion",
    "router:image_generation",
    "router:shell",
    "router:subagent",
    "router:tool_search",
    "router:web_fetch",
    "router:web_search",
]


def test_a_function_tool_is_flat_here_and_nested_in_chat() -> None:
    tool = {
        "type": "function",
        "name": "f",
        "description": "d",
        "parameters": {"type": "object"},
        "strict": True,
        "defer_loading": False,
        "zz": 1,
    }
    [nested] = accepted(tools=[tool]).body["tools"]
    function = {k: tool[k] for k in ("name", "description", "parameters", "strict")}
    assert nested == {"type": "function", "function": function}


def test_nulls_of_a_function_tool_are_left_out() -> None:
    nulls = dict.fromkeys(("description", "strict", "defer_loading", "cache_control"))
    [tool] = accepted(tools=[{**FUNCTION, **nulls}]).body["tools"]
    assert tool == {"type": "function", "function": {"name": "f"}}
    marked = {**FUNCTION, "cache_control": {"type": "ephemeral"}}
    assert accepted(tools=[marked]).body["tools"][0]["cache_control"] == {"type": "ephemeral"}


@pytest.mark.parametrize(
    ("tool", "path"),
    [
        ({"type": "function", "name": "f"}, "parameters"),
        ({"type": "function", "parameters": {}}, "name"),
        ({"type": "function", "name": "bad name!", "parameters": {}}, "name"),
        ({"type": "function", "name": "x" * 65, "parameters": {}}, "name"),
        ({"type": "function", "name": "f", "parameters": "{}"}, "parameters"),
        ({"type": "function", "name": "f", "parameters": {}, "strict": "x"}, "strict"),
        ({"type": "function", "name": "f", "parameters": {}, "description": 5}, "description"),
        ({"type": "function", "name": "f", "parameters": {}, "defer_loading": 5}, "defer_loading"),
        ({"type": "custom"}, "name"),
        ({"type": "custom", "name": "c", "format": "text"}, "format"),
        ({"type": "namespace", "name": "n", "description": "d"}, "tools"),
        ({"type": "namespace", "name": "n", "tools": []}, "description"),
        ({"type": "router:nope"}, "type"),
        ({"type": "computer"}, "type"),
        ({}, "type"),
        ({"type": "web_search", "max_results": 26}, "max_results"),
        ({"type": "router:datetime", "parameters": {"timezone": "Mars"}}, "parameters.timezone"),
        (
            {"type": "router:subagent", "parameters": {"inherit_functions": 1}},
            "parameters.inherit_functions",
        ),
    ],
)
def test_tools_are_checked_inside(tool: dict[str, Any], path: str) -> None:
    assert paths(tools=[FUNCTION, tool]) == [f"tools.1.{path}"]


@pytest.mark.parametrize("tool", NATIVE, ids=[tool["type"] for tool in NATIVE])
def test_tools_of_the_upstreams_own_are_named_and_left_to_it(tool: dict[str, Any]) -> None:
    request = accepted(tools=[tool, FUNCTION, tool])
    assert request.native_tools == (tool["type"],)
    assert [one["type"] for one in request.body["tools"]] == ["function"]
    assert needed(request) == []
    alone = accepted(tools=[tool])
    assert "tools" not in alone.body
    assert alone.text_bytes > accepted().text_bytes


def test_a_search_among_tools_is_left_out_where_it_is_not_known() -> None:
    request = accepted(tools=[{"type": "tool_search", "execution": "server"}, FUNCTION])

    assert request.native_tools == ()
    assert [one["type"] for one in request.body["tools"]] == ["function"]
    assert request.original
    assert len(request.original["tools"]) == 2
    assert request.text_bytes > accepted(tools=[FUNCTION]).text_bytes


@pytest.mark.parametrize("kind", ROUTER)
def test_server_tools_stay_as_they_are(kind: str) -> None:
    tool = {"type": kind, "parameters": {"zz": 1}}
    if kind == "router:image_generation":
        tool = {"type": kind}
    request = accepted(tools=[tool])
    assert request.body["tools"] == [tool]
    assert needed(request) == [kind]
    assert request.native_tools == ()


@pytest.mark.parametrize("kind", ["web_search", "web_search_preview"])
def test_a_search_has_one_list_of_domains(kind: str) -> None:
    filters = {"allowed_domains": ["a.example"]}
    accepted(tools=[{"type": kind, "filters": filters, "excluded_domains": []}])
    for both in (
        {"filters": filters, "excluded_domains": ["b.example"]},
        {"filters": filters, "parameters": {"excluded_domains": ["b.example"]}},
        {"allowed_domains": ["a.example"], "excluded_domains": ["b.example"]},
    ):
        assert len(paths(tools=[{"type": kind, **both}])) == 1


def test_agents_are_named_once() -> None:
    advisor = {"type": "router:advisor"}
    assert paths(tools=[advisor, advisor]) == ["tools.1.parameters.name"]


@pytest.mark.parametrize("choice", ["auto", "none", "required"])
def test_choices_in_a_word(choice: str) -> None:
    assert accepted(tools=[FUNCTION], tool_choice=choice).body["tool_choice"] == choice


def test_required_needs_tools() -> None:
    assert text_of(tool_choice="required") == (
        "tool_choice: Invalid input: required needs at least one tool"
    )


def test_a_named_function() -> None:
    choice = {"type": "function", "name": "f"}
    request = accepted(tools=[FUNCTION], tool_choice=choice)
    assert request.body["tool_choice"] == {"type": "function", "function": {"name": "f"}}
    other = {"type": "function", "name": "g"}
    assert text_of(tools=[FUNCTION], tool_choice=other) == (
        'tool_choice.name: Invalid input: no function named "g" in tools'
    )
    assert paths(tool_choice=choice) == ["tool_choice.name"]


def test_a_function_inside_a_namespace_can_be_chosen() -> None:
    accepted(tools=[NATIVE[-1]], tool_choice={"type": "function", "name": "g"})


def space(*tools: Any) -> dict[str, Any]:
    return {"type": "namespace", "name": "n", "description": "d", "tools": list(tools)}


def test_a_namespace_hides_no_tool_that_the_upstream_runs() -> None:
    search, code = {"type": "web_search_preview"}, {"type": "code_interpreter"}
    request = accepted(tools=[space({"type": "function", "name": "g"}, search, code, search)])
    assert request.native_tools == ("namespace", "web_search_preview", "code_interpreter")
    assert needed(request) == []


@pytest.mark.parametrize("kind", ROUTER)
def test_a_namespace_hides_no_server_tool(kind: str) -> None:
    request = accepted(tools=[FUNCTION, space({"type": kind}, {"type": kind})])
    assert needed(request) == [kind]
    twice = accepted(tools=[{"type": "router:datetime"}, space({"type": "router:datetime"})])
    assert twice.server_tools == ["router:datetime"]


@pytest.mark.parametrize(
    ("tool", "path"),
    [
        (5, ""),
        ({}, ".type"),
        ({"type": []}, ".type"),
        ({"type": "nope"}, ".type"),
        ({"type": "web_search_2031_01_01"}, ".type"),
        (space(), ".type"),
        ({"type": "function"}, ".name"),
        ({"type": "function", "name": ["g"]}, ".name"),
        ({"type": "custom", "name": None}, ".name"),
        ({"type": "function", "name": "g", "parameters": "{}"}, ".parameters"),
    ],
)
def test_tools_of_a_namespace_are_checked_inside(tool: Any, path: str) -> None:
    assert paths(tools=[space(FUNCTION, tool)]) == [f"tools.0.tools.1{path}"]


@pytest.mark.parametrize("choice", [None, "auto", {"type": "shell"}])
def test_a_key_that_a_tool_does_not_name_may_hold_anything(choice: Any) -> None:
    fields = {} if choice is None else {"tool_choice": choice}
    odds: tuple[Any, ...] = ([], [1], {}, 5, "x")
    for odd in odds:
        accepted(tools=[{"type": "shell", "name": odd, "parameters": odd}], **fields)


@pytest.mark.parametrize("tool", NATIVE[:12], ids=[tool["type"] for tool in NATIVE[:12]])
def test_a_tool_of_the_upstreams_own_can_be_chosen(tool: dict[str, Any]) -> None:
    choice = {"type": tool["type"]}
    request = accepted(tools=[tool, FUNCTION], tool_choice=choice)
    assert "tool_choice" not in request.body
    assert request.original is not None
    assert request.original["tool_choice"] == choice
    assert paths(tools=[FUNCTION], tool_choice=choice) == ["tool_choice.type"]


def test_server_tools_and_web_search_by_any_spelling_can_be_chosen() -> None:
    datetime = {"type": "router:datetime"}
    assert accepted(tools=[datetime], tool_choice=datetime).body["tool_choice"] == datetime
    accepted(tools=[{"type": "web_search"}], tool_choice={"type": "web_search_preview"})


@pytest.mark.parametrize("mode", ["auto", "required"])
def test_allowed_tools_narrow_the_tools(mode: str) -> None:
    other = {**FUNCTION, "name": "g"}
    allowed = {"type": "allowed_tools", "mode": mode, "tools": [{"type": "function", "name": "g"}]}
    request = accepted(tools=[FUNCTION, other], tool_choice=allowed)
    assert [tool["function"]["name"] for tool in request.body["tools"]] == ["g"]
    assert request.body["tool_choice"] == mode


@pytest.mark.parametrize(
    ("choice", "path"),
    [
        ({"type": "allowed_tools", "mode": "none", "tools": [FUNCTION]}, "mode"),
        ({"type": "allowed_tools", "mode": "auto", "tools": []}, "tools"),
        ({"type": "allowed_tools", "mode": "auto"}, "tools"),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function"}]},
            "tools.0.name",
        ),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "shell"}]}, "tools.0.type"),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "allowed_tools"}]},
            "tools.0.type",
        ),
        ({"type": "tools"}, "type"),
        ({"type": "function"}, "name"),
        ({"type": "custom", "name": "zz"}, "name"),
        ({"type": "mcp", "server_label": "l"}, "type"),
    ],
)
def test_choices_are_checked_inside(choice: dict[str, Any], path: str) -> None:
    assert paths(tools=[FUNCTION], tool_choice=choice) == [f"tool_choice.{path}"]
