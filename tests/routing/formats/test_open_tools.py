"""Settings of server tools beside their type: moved where every reader of tools looks."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.formats.open_tools import with_settings_inside
from tests.routing.formats.chat_bodies import paths
from tests.routing.formats.test_chat_tools import SERVER_TOOLS


def moved(tool: Any) -> Any:
    return with_settings_inside({"tools": [tool]})["tools"][0]


def test_settings_beside_the_type_are_moved_inside() -> None:
    tool = {"type": "router:web_fetch", "blocked_domains": ["a.example"], "zz": 1}
    assert moved(tool) == {
        "type": "router:web_fetch",
        "zz": 1,
        "parameters": {"blocked_domains": ["a.example"]},
    }


def test_a_setting_in_both_places_is_the_one_inside() -> None:
    tool = {"type": "router:bash", "engine": "native", "parameters": {"engine": "router"}}
    assert moved(tool) == {"type": "router:bash", "parameters": {"engine": "router"}}


def test_a_null_is_no_setting() -> None:
    tool = {"type": "router:bash", "engine": "native", "parameters": {"engine": None}}
    assert moved(tool) == {"type": "router:bash", "parameters": {"engine": "native"}}
    assert moved({**tool, "parameters": None}) == moved(tool)


def test_an_agent_keeps_its_name_for_who_chooses_it() -> None:
    tool = {"type": "router:advisor", "name": "lawyer", "model": "a/b", "cache_control": {}}
    assert moved(tool) == {
        "type": "router:advisor",
        "name": "lawyer",
        "cache_control": {},
        "parameters": {"name": "lawyer", "model": "a/b"},
    }


def test_any_setting_of_pictures_is_one() -> None:
    tool = {"type": "router:image_generation", "aspect_ratio": "1:1", "model": "a/b"}
    assert moved(tool)["parameters"] == {"aspect_ratio": "1:1", "model": "a/b"}
    marked = {"type": "router:image_generation", "defer_loading": True, "strict": None}
    assert moved(marked) == marked


@pytest.mark.parametrize("inside", [True, False])
def test_tools_of_tools_and_of_plugins_too(inside: bool) -> None:
    tools = [{"type": "router:datetime", "timezone": "UTC"}]
    agent = {
        "type": "router:subagent",
        **({"parameters": {"tools": tools}} if inside else {"tools": tools}),
    }
    found = [{"type": "router:datetime", "parameters": {"timezone": "UTC"}}]
    assert moved(agent) == {"type": "router:subagent", "parameters": {"tools": found}}
    body = {"plugins": [{"id": "fusion", "tools": tools}, "x"]}
    assert with_settings_inside(body)["plugins"] == [{"id": "fusion", "tools": found}, "x"]
    space = {"type": "namespace", "name": "n", "tools": tools}
    assert moved(space) == {"type": "namespace", "name": "n", "tools": found}


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "function", "function": {"name": "f"}, "model": "x"},
        {"type": "web_search", "max_results": 1},
        {"type": "router:web_search"},
        {"type": "router:advisor", "model": None, "parameters": None},
        {"type": "router:advisor", "model": "a/b", "parameters": []},
        {"type": ["router:advisor"], "model": "a/b"},
        {"type": "router:unheard_of", "model": "a/b"},
        {"model": "a/b"},
        "router:advisor",
        None,
    ],
)
def test_everything_else_is_as_it_came(tool: Any) -> None:
    body = {"tools": [tool], "plugins": [{"id": "web"}]}
    assert with_settings_inside(body) is body


@pytest.mark.parametrize(
    "body", [{}, {"tools": None}, {"tools": "x"}, {"tools": [], "plugins": {}}]
)
def test_a_body_without_tools_is_as_it_came(body: dict[str, Any]) -> None:
    assert with_settings_inside(body) is body


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(SERVER_TOOLS),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "parameters", "tools", "name", "model", "max_uses"]), inner
        )
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["tools", "plugins", "model"]), JSON))
def test_nothing_breaks_it_and_twice_is_once(body: dict[str, Any]) -> None:
    once = with_settings_inside(body)
    assert with_settings_inside(once) == once


@pytest.mark.parametrize(
    ("tool", "path"),
    [
        ({"type": "router:web_fetch", "max_uses": "x"}, "max_uses"),
        ({"type": "router:datetime", "timezone": "Mars"}, "timezone"),
        ({"type": "router:advisor", "max_tool_calls": 26}, "max_tool_calls"),
        ({"type": "router:fusion", "analysis_models": []}, "analysis_models"),
        ({"type": "router:subagent", "inherit_functions": True}, "inherit_functions"),
        ({"type": "router:bash", "engine": "zz"}, "engine"),
    ],
)
def test_they_are_checked_like_those_inside(tool: dict[str, Any], path: str) -> None:
    assert paths(tools=[tool]) == [f"tools.0.parameters.{path}"]
