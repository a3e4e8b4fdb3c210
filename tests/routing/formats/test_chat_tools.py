"""Tools, tool choice, plugins and stop conditions (inference 1.6, 1.7, 1.9, 1.10)."""

from typing import Any

import pytest

from routing.plugins.registry import BUILT_IN, OF_ROUTERS
from tests.routing.formats.chat_bodies import FUNCTION, accepted, paths, text_of
from tests.routing.formats.needing import needed

SERVER_TOOLS = [
    "router:advisor",
    "router:bash",
    "router:datetime",
    "router:files",
    "router:fusion",
    "router:image_generation",
    "router:experimental__search_models",
    "router:subagent",
    "router:web_fetch",
    "router:web_search",
]
SHORTHANDS = [
    "web_search",
    "web_search_preview",
    "web_search_preview_2025_03_11",
    "web_search_2025_08_26",
]


def tool_paths(kind: str, **parameters: Any) -> list[str]:
    tool = {"type": kind, "parameters": parameters}
    return [path.removeprefix("tools.0.parameters.") for path in paths(tools=[tool])]


def plugin_paths(plugin_id: str, **settings: Any) -> list[str]:
    plugin = {"id": plugin_id, **settings}
    return [path.removeprefix("plugins.0.") for path in paths(plugins=[plugin])]


def use(kind: str, **parameters: Any) -> None:
    accepted(tools=[{"type": kind, "parameters": parameters}])


def plug(plugin_id: str, **settings: Any) -> None:
    accepted(plugins=[{"id": plugin_id, **settings}])


@pytest.mark.parametrize("kind", SERVER_TOOLS)
def test_a_server_tool_needs_no_parameters_and_ignores_unknown_ones(kind: str) -> None:
    request = accepted(tools=[{"type": kind, "zz": 1}])
    assert request.server_tools == [kind]
    assert needed(request) == [kind]
    use(kind, zz=1)
    assert paths(tools=[{"type": kind, "parameters": []}]) == ["tools.0.parameters"]


@pytest.mark.parametrize("kind", SHORTHANDS)
def test_a_web_search_shorthand_counts_as_the_server_tool(kind: str) -> None:
    request = accepted(tools=[{"type": kind, "max_results": 25, "parameters": {"mode": "fast"}}])
    assert request.server_tools == ["router:web_search"]
    assert needed(request) == ["router:web_search"]
    assert paths(tools=[{"type": kind, "max_results": 26}]) == ["tools.0.max_results"]
    assert tool_paths(kind, mode="x") == ["mode"]


@pytest.mark.parametrize(
    "kind",
    ["router:apply_patch", "router:shell", "router:tool_search", "router:nope", "custom", "", None],
)
def test_row_20_a_tool_that_chat_does_not_have_is_refused(kind: Any) -> None:
    assert paths(tools=[FUNCTION, {"type": kind}]) == ["tools.1.type"]


def test_row_24_function_names() -> None:
    for good in ("f", "a-b_C9", "x" * 64):
        accepted(tools=[{"type": "function", "function": {"name": good}}])
    for bad in ("bad name!", "x" * 65, "", "é", "a\n", None, 5):
        odd = {"type": "function", "function": {"name": bad}}
        assert set(paths(tools=[odd])) == {"tools.0.function.name"}
    assert text_of(tools=[{"type": "function", "function": {"name": "bad name!"}}]) == (
        "tools.0.function.name: Invalid string: must match pattern /^[A-Za-z0-9_-]+$/"
    )


@pytest.mark.parametrize(
    ("function", "path"),
    [
        ({"name": "f", "description": 5}, "function.description"),
        ({"name": "f", "parameters": "x"}, "function.parameters"),
        ({"name": "f", "strict": "x"}, "function.strict"),
        ({}, "function.name"),
        (None, "function"),
    ],
)
def test_a_function_tool_is_checked_inside(function: Any, path: str) -> None:
    accepted(tools=[{"type": "function", "function": {"name": "f", "strict": None, "zz": 1}}])
    assert paths(tools=[{"type": "function", "function": function}]) == [f"tools.0.{path}"]


@pytest.mark.parametrize(
    ("kind", "name", "good", "bad"),
    [
        ("datetime", "timezone", ["UTC", "Europe/Paris"], ["Mars/Base", "../etc", "", "Europe", 5]),
        ("experimental__search_models", "max_results", [1, 20.0], [0, 21, 1.5]),
        ("web_search", "max_results", [1, 25], [0, 26, True]),
        ("web_search", "max_characters", [1, 100_000], [0, 100_001]),
        ("web_search", "max_total_results", [1, 5000], [0]),
        ("web_search", "max_uses", [1], [0, "1"]),
        ("web_search", "engine", ["auto", "perplexity"], ["bing"]),
        ("web_search", "mode", ["instant", "deep-reasoning", "advanced"], ["slow"]),
        ("web_search", "search_context_size", ["low", "high"], ["max"]),
        ("web_search", "user_location", [{"type": "approximate", "city": None}], ["Paris"]),
        ("web_search", "allowed_domains", [[], ["x.org"]], ["x.org", [1]]),
        ("web_fetch", "engine", ["router", "firecrawl"], ["perplexity"]),
        ("web_fetch", "max_content_tokens", [1], [0]),
        ("web_fetch", "blocked_domains", [["x"]], [5]),
        ("image_generation", "model", ["a/b"], [True]),
        ("image_generation", "size", ["1k", 5, [1, 2]], [None, {}]),
        ("advisor", "name", ["a", " trim me ", "x" * 64], ["", "  ", "x" * 65, "a!"]),
        ("advisor", "max_tool_calls", [0, 25], [26, -1]),
        ("advisor", "forward_transcript", [True], ["yes"]),
        ("advisor", "stream", [False], [1]),
        ("advisor", "max_completion_tokens", [1], [0]),
        ("advisor", "temperature", [0, 2], [2.1]),
        ("advisor", "instructions", ["x"], [5]),
        ("subagent", "name", ["sub agent"], ["ä"]),
        ("subagent", "max_tool_calls", [1, 25], [0, 26]),
        ("subagent", "tools", [[], [{"type": "router:datetime"}], [{"type": "web_search"}]], [5]),
        ("subagent", "inherit_functions", [], [True, False]),
        ("subagent", "inherited_function_names", [], [["f"]]),
        ("fusion", "analysis_models", [["a"], ["a"] * 8], [[], ["a"] * 9]),
        ("fusion", "max_tool_calls", [1, 16], [0, 17]),
        ("fusion", "tools", [[{"type": "router:bash"}] * 8], [[{"type": "router:bash"}] * 9]),
        ("fusion", "cache_control", [{"type": "ephemeral"}], [5]),
        ("bash", "engine", ["auto", "native", "router"], ["zsh"]),
        ("bash", "environment", [{"type": "container_auto"}], [5]),
        ("bash", "sleep_after_seconds", [0, 2_592_000], [2_592_001, -1]),
    ],
)
def test_server_tool_parameters_keep_their_bounds(
    kind: str, name: str, good: list[Any], bad: list[Any]
) -> None:
    for value in good:
        use(f"router:{kind}", **{name: value})
    for value in bad:
        assert tool_paths(f"router:{kind}", **{name: value})[0].startswith(name)


def test_nested_tool_settings_are_named_at_their_path() -> None:
    reference = {"type": "container_reference", "container_id": "c" * 20}
    use("router:bash", environment=reference)
    long = {**reference, "container_id": "c" * 21}
    assert tool_paths("router:bash", environment=long) == ["environment.container_id"]
    assert tool_paths("router:bash", environment={"type": "x"}) == ["environment.type"]
    assert tool_paths("router:advisor", reasoning={"effort": "x"}) == ["reasoning.effort"]
    for odd in ("function", "router:subagent", "router:nope"):
        assert tool_paths("router:subagent", tools=[{"type": odd}]) == ["tools.0.type"]
    assert tool_paths("router:fusion", tools=[{"type": "function"}]) == ["tools.0.type"]


def test_allowed_and_excluded_domains_exclude_each_other() -> None:
    both = {"allowed_domains": ["a"], "excluded_domains": ["b"]}
    use("router:web_search", allowed_domains=["a"], excluded_domains=[])
    assert paths(tools=[{"type": "router:web_search", "parameters": both}]) == [
        "tools.0.parameters"
    ]
    assert paths(tools=[{"type": "web_search", **both}]) == ["tools.0"]
    split = {
        "type": "web_search",
        "allowed_domains": ["a"],
        "parameters": {"excluded_domains": ["b"]},
    }
    assert paths(tools=[split]) == ["tools.0"]


@pytest.mark.parametrize("kind", ["router:advisor", "router:subagent"])
def test_helper_models_have_unique_names(kind: str) -> None:
    def named(name: str) -> dict[str, Any]:
        return {"type": kind, "parameters": {"name": name}}

    nameless = {"type": kind}
    accepted(tools=[named("a"), named("b"), nameless])
    accepted(tools=[named("a"), {"type": "router:datetime"}])
    assert paths(tools=[named("a"), named(" a ")]) == ["tools.1.parameters.name"]
    assert paths(tools=[nameless, named("a"), nameless]) == ["tools.2.parameters.name"]


def test_an_advisor_and_a_subagent_may_share_a_name() -> None:
    shared = {"parameters": {"name": "a"}}
    accepted(tools=[{"type": "router:advisor", **shared}, {"type": "router:subagent", **shared}])


def test_row_23_tool_choice_names_a_tool_that_is_there() -> None:
    named = {"type": "function", "function": {"name": "f"}}
    accepted(tools=[FUNCTION], tool_choice=named)
    absent = {"type": "function", "function": {"name": "x"}}
    assert paths(tools=[FUNCTION], tool_choice=absent) == ["tool_choice.function.name"]
    assert paths(tool_choice=absent) == ["tool_choice.function.name"]


def test_tool_choice_of_a_server_tool_takes_either_spelling() -> None:
    accepted(tools=[{"type": "web_search"}], tool_choice={"type": "router:web_search"})
    accepted(tools=[{"type": "router:web_search"}], tool_choice={"type": "web_search_preview"})
    assert paths(tools=[FUNCTION], tool_choice={"type": "web_search"}) == ["tool_choice.type"]


def test_tool_choice_words() -> None:
    for word in ("none", "auto"):
        accepted(tool_choice=word)
    accepted(tools=[FUNCTION], tool_choice="required")
    assert paths(tool_choice="required") == ["tool_choice"]
    assert paths(tools=[], tool_choice="required") == ["tool_choice"]
    assert text_of(tool_choice="any") == (
        'tool_choice: Invalid option: expected one of "none"|"auto"|"required"'
    )
    assert paths(tool_choice={"type": "x"}) == ["tool_choice.type"]
    assert paths(tool_choice={"type": "function"}) == ["tool_choice.function"]
    assert paths(tool_choice=1) == ["tool_choice"]


def test_row_22_stop_conditions_are_not_empty() -> None:
    assert text_of(stop_server_tools_when=[]) == (
        "stop_server_tools_when: Too small: expected array to have >=1 items"
    )


@pytest.mark.parametrize(
    ("kind", "field", "good", "bad"),
    [
        ("step_count_is", "step_count", [1, 2.0, 10**30], [0, 1.5, "1", None]),
        ("has_tool_call", "tool_name", ["t"], ["", 5, None]),
        ("max_tokens_used", "max_tokens", [1, 5.0], [1.5, "1", None]),
        ("max_cost", "max_cost_in_dollars", [0, 0.01], [-0.01, "1", None]),
        ("finish_reason_is", "reason", ["stop"], ["", None]),
    ],
)
def test_each_stop_condition_is_checked(
    kind: str, field: str, good: list[Any], bad: list[Any]
) -> None:
    for value in good:
        accepted(stop_server_tools_when=[{"type": kind, field: value}])
    for value in bad:
        condition = {"type": kind, field: value}
        assert paths(stop_server_tools_when=[condition]) == [f"stop_server_tools_when.0.{field}"]
    assert paths(stop_server_tools_when=[{"type": kind}]) == [f"stop_server_tools_when.0.{field}"]


def test_an_unknown_stop_condition_is_refused() -> None:
    assert paths(stop_server_tools_when=[{"type": "never"}]) == ["stop_server_tools_when.0.type"]


def test_row_26_an_unknown_plugin_is_refused() -> None:
    assert paths(plugins=[{"id": "unknown"}]) == ["plugins.0.id"]
    assert paths(plugins=[{}]) == ["plugins.0.id"]
    assert paths(plugins=["web"]) == ["plugins.0"]


@pytest.mark.parametrize(
    ("plugin", "name", "good", "bad"),
    [
        ("auto-router", "allowed_models", [["a"] * 1024, ["x" * 1024] * 64], [["a"] * 1025]),
        ("auto-router", "excluded_models", [["x" * 1024]], [["x" * 1025], ["x" * 1024] * 65]),
        ("auto-router", "cost_tier", ["low", "max"], ["free"]),
        ("auto-router", "cost_quality_tradeoff", [0, 10.0], [-1, 11, 5.5]),
        ("auto-router", "pin_model", [True], [1]),
        ("auto-beta-router", "allowed_models", [[]], [["a"] * 1025]),
        ("pareto-router", "min_coding_score", [0, 1], [-0.1, 1.1]),
        ("pareto-router", "max_price", [0], [-1, "1"]),
        ("pareto-router", "price_source", ["prompt", "weighted_avg"], ["x"]),
        ("web", "engine", ["native"], ["x"]),
        ("web", "max_results", [1, 5.0], [0]),
        ("web", "search_prompt", ["x"], [5]),
        ("web", "include_domains", [["x"]], ["x"]),
        ("web-fetch", "max_uses", [1], [0]),
        (
            "file-parser",
            "pdf",
            [{}, {"engine": "pdf-text"}, {"engine": "native"}],
            [{"engine": "x"}],
        ),
        ("context-compression", "engine", ["middle-out"], ["x"]),
        ("fusion", "analysis_models", [["a"] * 8], [[], ["a"] * 9]),
        ("fusion", "max_tool_calls", [1, 16], [0, 17]),
        ("fusion", "preset", ["general-fast"], ["x"]),
        ("jev-router", "models", [["a"]], ["a"]),
        ("switchyard-router", "algorithm", ["stage", "passthrough"], ["x"]),
        ("response-healing", "enabled", [True, False], [1]),
    ],
)
def test_plugin_settings_keep_their_bounds(
    plugin: str, name: str, good: list[Any], bad: list[Any]
) -> None:
    for value in good:
        plug(plugin, **{name: value}, zz=1)
    for value in bad:
        assert plugin_paths(plugin, **{name: value})[0].startswith(name)


@pytest.mark.parametrize("plugin", ["web"])
def test_a_plugin_that_nothing_runs_is_unavailable_while_switched_on(plugin: str) -> None:
    assert needed(accepted(plugins=[{"id": plugin}])) == [plugin]
    assert needed(accepted(plugins=[{"id": plugin, "enabled": True}])) == [plugin]
    assert needed(accepted(plugins=[{"id": plugin, "enabled": False}])) == []


@pytest.mark.parametrize("plugin", sorted((OF_ROUTERS | BUILT_IN.keys()) - {"web"}))
def test_router_plugins_and_built_in_ones_are_no_obstacle(plugin: str) -> None:
    assert needed(accepted(plugins=[{"id": plugin}])) == []


def test_of_one_plugin_twice_the_last_entry_counts() -> None:
    twice = [{"id": "web"}, {"id": "moderation"}, {"id": "web", "enabled": False}]
    request = accepted(plugins=twice)
    assert request.plugins == [{"id": "web", "enabled": False}, {"id": "moderation"}]
    assert needed(request) == []


def test_transforms_switch_context_compression() -> None:
    on = accepted(transforms=["middle-out"])
    assert on.plugins == [{"id": "context-compression", "enabled": True}]
    off = accepted(transforms=[])
    assert off.plugins == [{"id": "context-compression", "enabled": False}]
    explicit = accepted(transforms=["middle-out"], plugins=[*off.plugins])
    assert explicit.plugins == off.plugins
