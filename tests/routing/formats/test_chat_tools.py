"""Tools, tool choice, plugins and stop conditions (inference 1.6, 1.7, 1.9, 1.10). Messages and
responses check the settings of server tools and plugins by the same schemas."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.formats.open_tools import move_tool_settings
from tests.routing.formats.chat_bodies import FUNCTION, parse_fields, paths
from tests.routing.formats.test_fields import FORMATS

# Which formats have a server tool: chat, messages, responses.
SERVER_TOOLS = {
    **dict.fromkeys(("advisor", "bash", "datetime", "fusion", "subagent", "web_search"), "cmr"),
    **dict.fromkeys(("experimental__search_models", "image_generation", "web_fetch"), "cmr"),
    **dict.fromkeys(("shell", "tool_search"), "mr"),
    "files": "cr",
    "apply_patch": "r",
    "nope": "",
    "": "",
}
DATETIME = {"type": "router:datetime"}


def tool_paths(kind: str, **parameters: Any) -> list[str]:
    found = paths(tools=[{"type": kind, "parameters": parameters}])
    return [path.removeprefix("tools.0.parameters.") for path in found]


def use(kind: str, **parameters: Any) -> None:
    parse_fields(tools=[{"type": kind, "parameters": parameters}])


@pytest.mark.parametrize(("name", "formats"), SERVER_TOOLS.items())
def test_a_server_tool_needs_no_parameters_and_ignores_unknown_ones(
    name: str, formats: str
) -> None:
    tool: dict[str, Any] = {"type": f"router:{name}", "zz": 1}
    for letter, bodies in FORMATS.items():
        if letter not in formats:
            assert bodies.paths(tools=[tool]) == ["tools.0.type"]
            continue
        assert bodies.parse_fields(tools=[tool]).server_tools == [tool["type"]]
        odd = {**tool, "parameters": []}
        assert bodies.paths(tools=[odd]) == ["tools.0.parameters"]


@pytest.mark.parametrize(
    "kind",
    [
        *("web_search", "web_search_preview", "web_search_preview_2025_03_11"),
        "web_search_2025_08_26",
    ],
)
def test_a_web_search_shorthand_counts_as_the_server_tool(kind: str) -> None:
    request = parse_fields(
        tools=[{"type": kind, "max_results": 25, "parameters": {"mode": "fast"}}]
    )
    assert request.server_tools == ["router:web_search"]
    assert paths(tools=[{"type": kind, "max_results": 26}]) == ["tools.0.max_results"]
    assert tool_paths(kind, mode="x") == ["mode"]


@pytest.mark.parametrize("kind", ["custom", "", None])
def test_a_tool_that_chat_does_not_have_is_refused(kind: Any) -> None:
    assert paths(tools=[FUNCTION, {"type": kind}]) == ["tools.1.type"]


@pytest.mark.parametrize(
    ("function", "path"),
    [
        *(({"name": bad}, "function.name") for bad in ("bad name!", "x" * 65, "", "é", "a\n", 5)),
    ],
)
def test_a_function_tool_is_checked_inside(function: Any, path: str) -> None:
    for good in ("f", "a-b_C9", "x" * 64):
        parse_fields(
            tools=[{"type": "function", "function": {"name": good, "strict": None, "zz": 1}}]
        )
    odd = {"type": "function", "function": function}
    assert set(paths(tools=[odd])) == {f"tools.0.{path}"}


REFERENCE = {"type": "container_reference", "container_id": "c" * 20}
BASH = {"type": "router:bash"}
# Of a tool: a setting, what it takes, what it refuses and, where that is deeper, at which path.
SETTINGS: list[tuple[str, str, list[Any], list[Any]]] = [
    ("datetime", "timezone", ["UTC", "Europe/Paris"], ["Mars/Base", "../etc", "", "Europe", 5]),
    ("experimental__search_models", "max_results", [1, 20.0], [0, 21, 1.5]),
    ("web_search", "max_results", [1, 25], [0, 26, True]),
    ("web_search", "max_characters", [1, 100_000], [0, 100_001]),
    ("web_search", "max_total_results", [1, 5000], [0]),
    ("web_search", "max_uses", [1], [0, "1"]),
    ("web_search", "engine", ["auto", "perplexity"], ["bing"]),
    ("web_search", "mode", ["instant", "deep-reasoning", "advanced"], ["slow"]),
    ("web_search", "search_context_size", ["low", "high"], ["max"]),
    ("web_fetch", "engine", ["router", "firecrawl"], ["perplexity"]),
    ("web_fetch", "max_content_tokens", [1], [0]),
    ("image_generation", "size", ["1k", 5, [1, 2]], [None, {}]),
    ("advisor", "name", ["a", " trim me ", "x" * 64], ["", "  ", "x" * 65, "a!"]),
    ("advisor", "max_tool_calls", [0, 25], [26, -1]),
    ("advisor", "max_completion_tokens", [1], [0]),
    ("advisor", "temperature", [0, 2], [2.1]),
    ("advisor", "reasoning.effort", [], [{"effort": "x"}]),
    ("subagent", "name", ["sub agent"], ["ä"]),
    ("subagent", "max_tool_calls", [1, 25], [0, 26]),
    ("subagent", "tools", [[], [DATETIME], [{"type": "web_search"}]], [5]),
    ("subagent", "tools.0.type", [], [[{"type": t}] for t in ("function", "router:subagent", "x")]),
    ("subagent", "inherit_functions", [], [True, False]),
    ("subagent", "inherited_function_names", [], [["f"]]),
    ("fusion", "analysis_models", [["a"], ["a"] * 8], [[], ["a"] * 9]),
    ("fusion", "max_tool_calls", [1, 16], [0, 17]),
    ("fusion", "tools", [[BASH] * 8], [[BASH] * 9]),
    ("fusion", "tools.0.type", [], [[{"type": "function"}]]),
    ("bash", "engine", ["auto", "native", "router"], ["zsh"]),
    ("bash", "environment", [{"type": "container_auto"}, REFERENCE], [5]),
    ("bash", "environment.type", [], [{"type": "x"}]),
    ("bash", "environment.container_id", [], [{**REFERENCE, "container_id": "c" * 21}]),
    ("bash", "sleep_after_seconds", [0, 2_592_000], [2_592_001, -1]),
]


@pytest.mark.parametrize(
    ("kind", "path", "good", "bad"), SETTINGS, ids=[f"{row[0]}.{row[1]}" for row in SETTINGS]
)
def test_server_tool_parameters_keep_their_bounds(
    kind: str, path: str, good: list[Any], bad: list[Any]
) -> None:
    name = path.partition(".")[0]
    for value in good:
        use(f"router:{kind}", **{name: value})
    for value in bad:
        assert tool_paths(f"router:{kind}", **{name: value})[0].startswith(path)


def test_allowed_and_excluded_domains_exclude_each_other() -> None:
    allowed, excluded = {"allowed_domains": ["a"]}, {"excluded_domains": ["b"]}
    use("router:web_search", **allowed, excluded_domains=[])
    both = {"type": "router:web_search", "parameters": allowed | excluded}
    assert paths(tools=[both]) == ["tools.0.parameters"]
    assert paths(tools=[{"type": "web_search", **allowed, **excluded}]) == ["tools.0"]
    assert paths(tools=[{"type": "web_search", **allowed, "parameters": excluded}]) == ["tools.0"]


@pytest.mark.parametrize("kind", ["router:advisor", "router:subagent"])
def test_helper_models_have_unique_names(kind: str) -> None:
    def named_tool(name: str, of: str = kind) -> dict[str, Any]:
        return {"type": of, "parameters": {"name": name}}

    nameless = {"type": kind}
    for bodies in FORMATS.values():
        bodies.parse_fields(tools=[named_tool("a"), named_tool("b"), nameless, DATETIME])
        bodies.parse_fields(
            tools=[named_tool("a", "router:advisor"), named_tool("a", "router:subagent")]
        )
        assert bodies.paths(tools=[named_tool("a"), named_tool(" a ")]) == [
            "tools.1.parameters.name"
        ]
        twice = [nameless, named_tool("a"), nameless]
        assert bodies.paths(tools=twice) == ["tools.2.parameters.name"]


NAMED = {"type": "function", "function": {"name": "f"}}
ABSENT = {"type": "function", "function": {"name": "x"}}
SEARCH = {"type": "web_search"}


@pytest.mark.parametrize(
    ("tools", "choice", "path"),
    [
        ([], "none", None),
        ([], "auto", None),
        ([FUNCTION], "required", None),
        ([], "required", "tool_choice"),
        ([FUNCTION], NAMED, None),
        ([FUNCTION], ABSENT, "tool_choice.function.name"),
        ([], ABSENT, "tool_choice.function.name"),
        ([SEARCH], {"type": "router:web_search"}, None),
        ([{"type": "router:web_search"}], {"type": "web_search_preview"}, None),
        ([FUNCTION], SEARCH, "tool_choice.type"),
        ([FUNCTION], {"type": "x"}, "tool_choice.type"),
        ([FUNCTION], {"type": "function"}, "tool_choice.function"),
        ([FUNCTION], 1, "tool_choice"),
    ],
)
def test_a_choice_names_a_tool_that_is_there(
    tools: list[Any], choice: Any, path: str | None
) -> None:
    if path is None:
        parse_fields(tools=tools, tool_choice=choice)
    else:
        assert paths(tools=tools, tool_choice=choice) == [path]


@pytest.mark.parametrize(
    ("kind", "field", "good", "bad"),
    [
        ("step_count_is", "step_count", [1, 2.0, 10**30], [0, 1.5, "1", None]),
        ("has_tool_call", "tool_name", ["t"], ["", 5, None]),
        ("max_tokens_used", "max_tokens", [1, 5.0], [1.5, "1", None]),
        ("max_cost", "max_cost_in_dollars", [0, 0.01], [-0.01, "1", None]),
        ("finish_reason_is", "reason", ["stop"], ["", None]),
        ("never", "type", [], ["never"]),
    ],
)
def test_each_stop_condition_is_checked(
    kind: str, field: str, good: list[Any], bad: list[Any]
) -> None:
    for value in good:
        parse_fields(stop_server_tools_when=[{"type": kind, field: value}])
    for odd in ({"type": kind}, *({"type": kind, field: value} for value in bad)):
        assert paths(stop_server_tools_when=[odd]) == [f"stop_server_tools_when.0.{field}"]


@pytest.mark.parametrize(
    ("plugin", "name", "good", "bad"),
    [
        ("auto-router", "allowed_models", [["a"] * 1024, ["x" * 1024] * 64], [["a"] * 1025]),
        ("auto-router", "excluded_models", [["x" * 1024]], [["x" * 1025], ["x" * 1024] * 65]),
        ("auto-router", "cost_tier", ["low", "max"], ["free"]),
        ("auto-router", "cost_quality_tradeoff", [0, 10.0], [-1, 11, 5.5]),
        ("auto-beta-router", "allowed_models", [[]], [["a"] * 1025]),
        ("pareto-router", "min_coding_score", [0, 1], [-0.1, 1.1]),
        ("pareto-router", "max_price", [0], [-1, "1"]),
        ("pareto-router", "price_source", ["prompt", "weighted_avg"], ["x"]),
        ("web", "engine", ["native"], ["x"]),
        ("web", "max_results", [1, 5.0], [0]),
        ("web-fetch", "max_uses", [1], [0]),
        ("file-parser", "pdf", [{}, {"engine": "pdf-text"}], [{"engine": "x"}]),
        ("context-compression", "engine", ["middle-out"], ["x"]),
        ("fusion", "analysis_models", [["a"] * 8], [[], ["a"] * 9]),
        ("fusion", "max_tool_calls", [1, 16], [0, 17]),
        ("fusion", "preset", ["general-fast"], ["x"]),
        ("switchyard-router", "algorithm", ["stage", "passthrough"], ["x"]),
    ],
)
def test_plugin_settings_keep_their_bounds(
    plugin: str, name: str, good: list[Any], bad: list[Any]
) -> None:
    for value in good:
        parse_fields(plugins=[{"id": plugin, name: value, "zz": 1}])
    for value in bad:
        found = paths(plugins=[{"id": plugin, name: value}])
        assert found[0].startswith(f"plugins.0.{name}")


def test_of_one_plugin_twice_the_last_entry_counts() -> None:
    off = {"id": "web", "enabled": False}
    request = parse_fields(plugins=[{"id": "web"}, {"id": "moderation"}, off])
    assert request.plugins == [off, {"id": "moderation"}]


def test_transforms_switch_context_compression() -> None:
    on, off = ([{"id": "context-compression", "enabled": each}] for each in (True, False))
    assert parse_fields(transforms=["middle-out"]).plugins == on
    assert parse_fields(transforms=[]).plugins == off
    assert parse_fields(transforms=["middle-out"], plugins=off).plugins == off


def move_settings(tool: Any) -> Any:
    return move_tool_settings({"tools": [tool]})["tools"][0]


INNER = [{"type": "router:datetime", "timezone": "UTC"}]
INNER_MOVED = [{"type": "router:datetime", "parameters": {"timezone": "UTC"}}]


@pytest.mark.parametrize(
    ("kind", "beside", "expected"),
    [
        ("web_fetch", {"max_uses": 1, "zz": 1}, {"zz": 1, "parameters": {"max_uses": 1}}),
        # In both places the one inside counts, and a null is no setting.
        ("bash", {"engine": "a", "parameters": {"engine": "b"}}, {"parameters": {"engine": "b"}}),
        ("bash", {"engine": "a", "parameters": {"engine": None}}, {"parameters": {"engine": "a"}}),
        ("bash", {"engine": "a", "parameters": None}, {"parameters": {"engine": "a"}}),
        # An agent keeps its name for who chooses it.
        (
            "advisor",
            {"name": "n", "model": "m", "cache_control": {}},
            {"name": "n", "cache_control": {}, "parameters": {"name": "n", "model": "m"}},
        ),
        # Any setting of pictures is one, but what marks a tool of any kind is none.
        ("image_generation", {"ratio": "1:1"}, {"parameters": {"ratio": "1:1"}}),
        ("image_generation", {"defer_loading": True}, {"defer_loading": True}),
        ("image_generation", {"strict": None}, {"strict": None}),
        ("subagent", {"tools": INNER}, {"parameters": {"tools": INNER_MOVED}}),
        ("subagent", {"parameters": {"tools": INNER}}, {"parameters": {"tools": INNER_MOVED}}),
    ],
)
def test_settings_beside_the_type_are_moved_inside(
    kind: str, beside: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert move_settings({"type": f"router:{kind}", **beside}) == {
        "type": f"router:{kind}",
        **expected,
    }


def test_settings_of_tools_in_plugins_and_namespaces_are_moved_too() -> None:
    body = {"plugins": [{"id": "fusion", "tools": INNER}, "x"]}
    assert move_tool_settings(body)["plugins"] == [{"id": "fusion", "tools": INNER_MOVED}, "x"]
    space = {"type": "namespace", "name": "n", "tools": INNER}
    assert move_settings(space) == {**space, "tools": INNER_MOVED}


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
    tools: tuple[Any, ...] = ({"tools": [tool], "plugins": [{"id": "web"}]}, {}, {"tools": "x"})
    for body in (*tools, {"tools": None}, {"tools": [], "plugins": {}}):
        assert move_tool_settings(body) is body


KEYS = st.sampled_from(["type", "parameters", "tools", "name", "model", "max_uses"])
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([f"router:{name}" for name in SERVER_TOOLS]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["tools", "plugins", "model"]), JSON))
def test_nothing_breaks_the_move_and_twice_is_once(body: dict[str, Any]) -> None:
    once = move_tool_settings(body)
    assert move_tool_settings(once) == once


def test_settings_beside_the_type_are_checked_like_those_inside() -> None:
    tools = [{"type": "router:web_fetch", "max_uses": "x"}, {"type": "router:bash", "engine": "z"}]
    assert paths(tools=tools) == ["tools.0.parameters.max_uses", "tools.1.parameters.engine"]
