"""What a model sees of server tools."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from routing.tools.toolbox import NAME_CHARS_MAX, Toolbox

NAMES = st.sampled_from(["datetime", "datetime_2", "advisor", "advisor_a", "advisor_a_b", "f"])
AGENTS = st.sampled_from(["a", "a b", "a_b", "x" * 64, " a "])


def function(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {}}}


@given(st.lists(NAMES, unique=True), st.lists(AGENTS, unique=True), st.booleans())
def test_no_two_tools_have_one_name_and_functions_keep_theirs(names, agents, clock) -> None:
    tools = [function(name) for name in names]
    tools += [{"type": "router:advisor", "parameters": {"name": each}} for each in agents]
    tools += [{"type": "router:datetime"}] if clock else []
    toolbox = Toolbox(tools)
    shown = [tool["function"]["name"] for tool in toolbox.shown]
    assert len(set(shown)) == len(shown) == len(tools)
    assert shown[: len(names)] == names
    assert all(len(name) <= NAME_CHARS_MAX for name in shown)
    assert all(tool["type"] == "function" for tool in toolbox.shown)
    assert [toolbox.find(name) is None for name in shown[: len(names)]] == [True] * len(names)
    for name in shown[len(names) :]:
        fitted = toolbox.find(name)
        assert fitted is not None
        assert fitted.name == name


def test_a_choice_is_told_by_the_name_that_the_model_knows() -> None:
    toolbox = Toolbox([function("datetime"), {"type": "router:datetime"}])
    chosen = toolbox.choice({"type": "router:datetime"})
    assert chosen == {"type": "function", "function": {"name": "datetime_2"}}
    assert toolbox.choice("auto") == "auto"
    own = {"type": "function", "function": {"name": "datetime"}}
    assert toolbox.choice(own) == own


def test_many_that_want_one_name_are_numbered_in_one_go() -> None:
    clocks = [{"type": "router:datetime"}] * 20_000
    named = [tool["function"]["name"] for tool in Toolbox(clocks).shown]
    assert len(set(named)) == 20_000
    assert named[:3] == ["datetime", "datetime_2", "datetime_3"]
