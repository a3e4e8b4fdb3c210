"""Subagents that may call functions of the request, and what comes back of such calls."""

from typing import Any

import pytest

from routing.formats.chat.request import ChatRequest
from routing.formats.server_tools import FUNCTIONS, WAITING
from routing.tools.agents import Subagent
from routing.tools.interface import ModelAnswer
from routing.upstreams.responses.request import _filter_input
from tests.routing.formats.responses.bodies import FUNCTION, parse_fields, paths
from tests.routing.tools.made import context

SAID = [{"role": "user", "content": "Do it"}, {"role": "assistant", "tool_calls": []}]
STATE = {"type": "router:subagent_state", "name": None, "messages": SAID}
ITEM = {"type": "router:subagent", "id": "st_1", "status": "in_progress", "call_id": "a1"}
ASKED = {"role": "user", "content": "Hi"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "22"}
DONE = {**ITEM, "id": "st_2", "status": "completed", "call_id": "a2"}
WAIT = ("a1", "b1")
ANSWER = {"role": "assistant", "content": "So it is."}


def agent(**parameters: Any) -> dict[str, Any]:
    return {"type": "router:subagent", "parameters": parameters}


HEIR = agent(inherit_functions=True)


def agent_call(**fields: Any) -> dict[str, Any]:
    call = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
    return call | {"subagent_id": "a1", "subagent_items": [STATE]} | fields


def settings_of(request: ChatRequest, at: int = -1) -> dict[str, Any]:
    settings: dict[str, Any] = request.body["tools"][at]["parameters"]
    return settings


@pytest.mark.parametrize(
    ("wish", "names"),
    [
        ({}, []),
        ({"inherit_functions": False}, []),
        ({"inherit_functions": True}, ["f", "g"]),
        ({"inherited_function_names": [" g "]}, ["g"]),
        ({"inherit_functions": True, "inherited_function_names": ["nobody"]}, ["f", "g"]),
    ],
)
def test_which_functions_a_subagent_has(wish: dict[str, Any], names: list[str]) -> None:
    request = parse_fields(tools=[FUNCTION, {**FUNCTION, "name": "g"}, agent(**wish)])
    inherited = settings_of(request).get(FUNCTIONS, [])
    assert [each["function"]["name"] for each in inherited] == names


@pytest.mark.parametrize(
    ("wish", "path"),
    [
        ({"inherited_function_names": ["f", "nobody"]}, "inherited_function_names.1"),
        ({"inherited_function_names": [" "]}, "inherited_function_names.0"),
        ({FUNCTIONS: []}, FUNCTIONS),
        ({WAITING: []}, WAITING),
    ],
)
def test_functions_that_there_are_not(wish: dict[str, Any], path: str) -> None:
    assert paths(tools=[FUNCTION, agent(**wish)]) == [f"tools.1.parameters.{path}"]


def test_an_agent_that_waits_is_let_go_on_first() -> None:
    request = parse_fields(input=[ASKED, ITEM, agent_call(), OUTPUT], tools=[FUNCTION, HEIR])
    result = {"role": "tool", "tool_call_id": "c1", "content": "22"}
    assert settings_of(request)[WAITING] == [{"id": "a1", "messages": [*SAID, result]}]
    first, made, told = request.body["messages"]
    assert first == ASKED
    assert made["tool_calls"][0]["id"] == told["tool_call_id"] == "a1"
    assert made["tool_calls"][0]["function"]["name"] == "subagent"
    assert request.body["tool_choice"] == {"type": "router:subagent"}


def test_outputs_may_stand_between_the_calls_of_several() -> None:
    second = agent_call(call_id="c2", subagent_id="b1")
    items = [ASKED, ITEM, {**ITEM, "call_id": "b1"}, agent_call(), OUTPUT, second]
    tools = [FUNCTION, HEIR, agent(name="x")]
    request = parse_fields(input=[*items, {**OUTPUT, "call_id": "c2"}], tools=tools)
    assert [each["id"] for each in settings_of(request, 1)[WAITING]] == ["a1", "b1"]
    assert not settings_of(request).get(WAITING)
    assert request.body["tool_choice"] == "required"


@pytest.mark.parametrize("later", [[DONE, ANSWER], [ANSWER], [DONE]])
def test_one_that_has_gone_on_leaves_nothing(later: list[dict[str, Any]]) -> None:
    items = [ASKED, ITEM, agent_call(), OUTPUT, *later, {"role": "user", "content": "More"}]
    request = parse_fields(input=items, tools=[FUNCTION, HEIR])
    assert not settings_of(request).get(WAITING)
    assert {each["role"] for each in request.body["messages"]} <= {"user", "assistant"}
    assert all("tool_calls" not in each for each in request.body["messages"])
    assert "tool_choice" not in request.body
    # Nor is an upstream of this format sent any of it.
    assert all("call_id" not in item for item in _filter_input(items))


@pytest.mark.parametrize(
    ("arguments", "had_to_call", "goes_on"),
    [
        ({"resume": "b1"}, False, "b1"),
        ({"resume": "b1", "task": "Go on"}, False, "b1"),
        ({"resume": "a1", "task": "Go on"}, True, "a1"),
        ({}, False, "a1"),
        ({"resume": "nobody", "task": " "}, False, "a1"),
        ({"task": "Another one"}, True, "a1"),
        ({"task": "Another one"}, False, None),
        ({"resume": "nobody", "task": "Another one"}, False, None),
    ],
)
def test_which_agent_a_call_is_for(
    arguments: dict[str, Any], had_to_call: bool, goes_on: str | None
) -> None:
    asked: list[str] = []

    def ask(body: dict[str, Any]) -> ModelAnswer:
        (message,) = body["messages"]
        asked.append(message["content"])
        return ModelAnswer({"role": "assistant", "content": "Done."}, "acme/b")

    waiting = [{"id": each, "messages": [{"role": "user", "content": each}]} for each in WAIT]
    subagent = Subagent({WAITING: waiting})
    subagent.run(arguments, context(ask=ask, had_to_call=had_to_call))
    # Whoever was not meant still waits.
    others = [each for each in WAIT if each != goes_on]
    for each in others:
        subagent.run({"resume": each}, context(ask=ask))
    assert asked == [goes_on or "Another one", *others]


def test_one_that_has_the_id_of_an_earlier_one_is_another() -> None:
    earlier = {**STATE, "messages": [{"role": "user", "content": "Before"}]}
    items = [ASKED, ITEM, agent_call(call_id="c0", subagent_items=[earlier])]
    items += [{**OUTPUT, "call_id": "c0"}, DONE, ASKED, ITEM, agent_call(), OUTPUT]
    (waiting,) = settings_of(parse_fields(input=items, tools=[FUNCTION, HEIR]))[WAITING]
    assert waiting["messages"][:2] == SAID


def test_a_choice_of_the_caller_s_stays() -> None:
    given: dict[str, Any] = {"input": [ASKED, agent_call(), OUTPUT], "tools": [FUNCTION, agent()]}
    assert parse_fields(**given, tool_choice="none").body["tool_choice"] == "none"
    assert "tool_choice" not in parse_fields(**given, reasoning={"effort": "low"}).body


@pytest.mark.parametrize(
    ("items", "tools", "path"),
    [
        ([agent_call()], [FUNCTION, agent()], "call_id"),
        ([agent_call(), OUTPUT], [FUNCTION], "subagent_id"),
        ([agent_call(), OUTPUT], [FUNCTION, agent(name="x")], "subagent_id"),
        ([agent_call(subagent_items=[]), OUTPUT], [FUNCTION, agent()], "subagent_items"),
        ([agent_call(subagent_items=[5]), OUTPUT], [agent()], "subagent_items.0"),
        ([agent_call(subagent_id=""), OUTPUT], [agent()], "subagent_id"),
    ],
)
def test_calls_that_nothing_goes_on_with(items: list[Any], tools: list[Any], path: str) -> None:
    assert paths(input=[ASKED, *items], tools=tools) == [f"input.1.{path}"]


def test_so_many_functions_are_inherited_and_so_many_agents_wait_and_no_more() -> None:
    functions = [{**FUNCTION, "name": f"f{number}"} for number in range(32)]
    heirs = [agent(name=f"a{number}", inherit_functions=True) for number in range(33)]
    assert parse_fields(tools=[*functions, *heirs[:32]])
    assert paths(tools=[*functions, *heirs]) == ["tools"]

    def waiting(count: int) -> list[dict[str, Any]]:
        numbers = [str(number) for number in range(count)]
        calls = [agent_call(call_id=each, subagent_id=each) for each in numbers]
        return [ASKED, *calls, *({**OUTPUT, "call_id": each} for each in numbers)]

    assert parse_fields(input=waiting(128), tools=[FUNCTION, HEIR])
    assert paths(input=waiting(129), tools=[FUNCTION, HEIR]) == ["input"]
