"""Tools that only tell: of the time, of models, of functions that wait to be found. And by which
names a model sees tools at all."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounts.models.account import SERVER_TOOLS
from routing.formats.server_tools import TOOLS as SPECS
from routing.serving.request.loop import Loop, with_tools
from routing.tools.datetime import Datetime
from routing.tools.interface import ToolFailed
from routing.tools.registry import BUILT_IN
from routing.tools.search_models import SearchModels, rank_models
from routing.tools.tool_search import FOUND_MAX
from routing.tools.toolbox import NAME_CHARS_MAX, Toolbox
from tests.routing.formats.chat_bodies import parse_fields
from tests.routing.selection.entries import model
from tests.routing.tools.made import context

CLOCK = {"type": "router:datetime"}
SEARCH: dict[str, Any] = {"type": "router:tool_search"}


@pytest.mark.parametrize(
    ("settings", "arguments", "time", "zone"),
    [
        ({}, {}, "12:00:00+00:00", "UTC"),
        ({}, {"timezone": {}}, "12:00:00+00:00", "UTC"),
        ({"timezone": "Europe/Paris"}, {}, "13:00:00+01:00", "Europe/Paris"),
        ({"timezone": "Europe/Paris"}, {"timezone": None}, "13:00:00+01:00", "Europe/Paris"),
        (
            {"timezone": "Europe/Paris"},
            {"timezone": "Asia/Kolkata"},
            "17:30:00+05:30",
            "Asia/Kolkata",
        ),
    ],
)
def test_the_time_in_a_zone(settings, arguments, time: str, zone: str) -> None:
    result = Datetime(settings).run(arguments, context())
    told = {"datetime": f"2026-03-01T{time}", "timezone": zone}
    assert json.loads(result.text) == result.item == told


@pytest.mark.parametrize("name", ["Nowhere/At_All", "../../etc/passwd", "x" * 5000, 5, ["UTC"]])
def test_a_zone_that_there_is_not_is_told_to_the_model(name) -> None:
    with pytest.raises(ToolFailed):
        Datetime({}).run({"timezone": name}, context())


SMALL = replace(model(id="acme/small"), description="Quick and cheap.")
VISION = replace(model(id="acme/vision"), input_modalities=("text", "image"))
CODER = replace(model(id="other/coder"), description="Writes code, reads images too.")


@pytest.mark.parametrize("arguments", [{}, {"query": ""}, {"query": "  "}, {"query": 5}])
def test_a_search_for_no_model_is_told_to_the_model(arguments) -> None:
    with pytest.raises(ToolFailed):
        SearchModels({}).run(arguments, context())


@pytest.mark.parametrize(
    ("words", "most", "found"),
    [
        (["acme"], 5, [SMALL, VISION]),
        (["acme"], 1, [SMALL]),
        (["image"], 5, [VISION, CODER]),
        (["acme", "image"], 5, [VISION, SMALL, CODER]),
        (["cheap"], 5, [SMALL]),
        (["nothing"], 5, []),
    ],
)
def test_names_count_for_more_than_descriptions(words, most, found) -> None:
    assert rank_models([SMALL, VISION, CODER], words, most) == found


def function(name: str, about: str = "", *, deferred: bool = True, **properties: str) -> Any:
    described = {each: {"type": "string", "description": text} for each, text in properties.items()}
    parameters = {"type": "object", "properties": described}
    declared = {"name": name, "description": about, "parameters": parameters}
    return {"type": "function", "function": declared, "defer_loading": deferred}


TOOLS = [
    function("now", deferred=False),
    function("get_weather", "How warm it is.", city="Name of a town"),
    function("send_mail", "Sends a letter."),
    SEARCH,
]


def names(tools: list[Any]) -> list[str]:
    return [tool["function"]["name"] for tool in tools]


def search(toolbox: Toolbox, query: str) -> Any:
    fitted = toolbox.find("tool_search")
    assert fitted is not None
    return fitted.tool.run({"query": query}, context())


def test_functions_are_shown_once_they_were_found_or_called() -> None:
    toolbox = Toolbox(TOOLS)
    assert names(toolbox.visible_tools) == ["now", "tool_search"]
    found = search(toolbox, "a letter, please")
    assert found.item == {"query": "a letter, please", "tools": ["send_mail"]}
    references = [{"type": "tool_reference", "tool_name": "send_mail"}]
    assert found.block == {"type": "tool_search_tool_search_result", "tool_references": references}
    for after in (toolbox, Toolbox(TOOLS, ["send_mail", "none"])):
        assert names(after.visible_tools) == ["now", "send_mail", "tool_search"]
    # Without a search nothing waits.
    assert names(Toolbox(TOOLS[:3]).visible_tools) == ["now", "get_weather", "send_mail"]


@pytest.mark.parametrize("query", ["weather", "WARM", "town", "city"])
def test_names_descriptions_and_parameters_are_searched(query: str) -> None:
    assert search(Toolbox(TOOLS), query).item["tools"] == ["get_weather"]


def test_nothing_found_is_no_failure_and_few_are_found_at_once() -> None:
    assert search(Toolbox(TOOLS), "?").item["tools"] == []
    many = [SEARCH, *(function(f"mail_{number}") for number in range(20))]
    assert len(search(Toolbox(many), "mail").item["tools"]) == FOUND_MAX


def test_the_next_turn_has_what_was_found() -> None:
    chat = parse_fields(tools=TOOLS[:3])
    chat.body["tools"] = TOOLS
    toolbox = Toolbox(TOOLS)
    chat = with_tools(chat, toolbox)
    loop = Loop(chat, toolbox)
    call = {"name": "tool_search", "arguments": '{"query": "mail"}'}
    message = {"tool_calls": [{"id": "c", "type": "function", "function": call}]}
    assert len(loop.take(message, finish="tool_calls")) == 1
    result = search(toolbox, "mail")
    loop.add_results([result])
    following = loop.next_request(chat)
    assert names(following.body["tools"]) == ["now", "send_mail", "tool_search"]
    assert following.text_bytes > chat.text_bytes + len(result.text)


NAMES = st.sampled_from(["datetime", "datetime_2", "advisor", "advisor_a", "advisor_a_b", "f"])
AGENTS = st.sampled_from(["a", "a b", "a_b", "x" * 64, " a "])


@given(st.lists(NAMES, unique=True), st.lists(AGENTS, unique=True), st.booleans())
def test_no_two_tools_have_one_name_and_functions_keep_theirs(own, agents, clock) -> None:
    tools = [function(name, deferred=False) for name in own]
    tools += [{"type": "router:advisor", "parameters": {"name": each}} for each in agents]
    toolbox = Toolbox([*tools, *[CLOCK] * clock])
    shown = names(toolbox.visible_tools)
    assert len(set(shown)) == len(shown) == len(tools) + clock
    assert shown[: len(own)] == own
    assert all(len(name) <= NAME_CHARS_MAX for name in shown)
    assert all(tool["type"] == "function" for tool in toolbox.visible_tools)
    fitted = [toolbox.find(name) for name in shown]
    assert [each and each.name for each in fitted] == [None] * len(own) + shown[len(own) :]


def test_a_choice_is_told_by_the_name_that_the_model_knows() -> None:
    toolbox = Toolbox([function("datetime"), CLOCK])
    chosen = {"type": "function", "function": {"name": "datetime_2"}}
    assert toolbox.choice(CLOCK) == chosen
    assert toolbox.choice("auto") == "auto"
    own = {"type": "function", "function": {"name": "datetime"}}
    assert toolbox.choice(own) == own


def test_many_that_want_one_name_are_numbered_in_one_go() -> None:
    named = names(Toolbox([CLOCK] * 20_000).visible_tools)
    assert len(set(named)) == 20_000
    assert named[:3] == ["datetime", "datetime_2", "datetime_3"]


def test_workspaces_can_switch_off_the_tools_whose_specs_say_so() -> None:
    assert {name for name, spec in SPECS.items() if spec.can_disable} == set(SERVER_TOOLS)


def test_every_spec_names_the_class_that_runs_the_tool() -> None:
    assert BUILT_IN.keys() == SPECS.keys()
    for name, spec in SPECS.items():
        assert BUILT_IN[name].__module__ == spec.maker.rpartition(".")[0]
