"""Functions that wait to be found."""

from typing import Any

import pytest

from routing.formats.chat.format import CHAT
from routing.serving.loop import Loop, with_tools
from routing.tools.tool_search import FOUND_MAX
from routing.tools.toolbox import Toolbox
from tests.routing.tools.made import context

SEARCH: dict[str, Any] = {"type": "router:tool_search"}


def function(name: str, about: str = "", *, deferred: bool = True, **properties: str) -> Any:
    described = {each: {"type": "string", "description": text} for each, text in properties.items()}
    parameters = {"type": "object", "properties": described}
    tool = {
        "type": "function",
        "function": {"name": name, "description": about, "parameters": parameters},
    }
    return tool | {"defer_loading": deferred}


TOOLS = [
    function("now", deferred=False),
    function("get_weather", "How warm it is.", city="Name of a town"),
    function("send_mail", "Sends a letter."),
    SEARCH,
]


def names(toolbox: Toolbox) -> list[str]:
    return [tool["function"]["name"] for tool in toolbox.shown]


def search(toolbox: Toolbox, query: str) -> Any:
    fitted = toolbox.find("tool_search")
    assert fitted is not None
    return fitted.tool.run({"query": query}, context())


def test_they_are_shown_once_they_were_found() -> None:
    toolbox = Toolbox(TOOLS)
    assert names(toolbox) == ["now", "tool_search"]
    found = search(toolbox, "a letter, please")
    assert found.item == {"query": "a letter, please", "tools": ["send_mail"]}
    references = [{"type": "tool_reference", "tool_name": "send_mail"}]
    assert found.block == {"type": "tool_search_tool_search_result", "tool_references": references}
    assert names(toolbox) == ["now", "send_mail", "tool_search"]


@pytest.mark.parametrize("query", ["weather", "WARM", "town", "city"])
def test_names_descriptions_and_parameters_are_searched(query: str) -> None:
    assert search(Toolbox(TOOLS), query).item["tools"] == ["get_weather"]


def test_nothing_found_is_no_failure_and_few_are_found_at_once() -> None:
    assert search(Toolbox(TOOLS), "?").item["tools"] == []
    many = [SEARCH, *(function(f"mail_{number}") for number in range(20))]
    assert len(search(Toolbox(many), "mail").item["tools"]) == FOUND_MAX


def test_without_a_search_nothing_waits() -> None:
    assert names(Toolbox(TOOLS[:3])) == ["now", "get_weather", "send_mail"]


def test_what_was_called_before_is_shown() -> None:
    assert names(Toolbox(TOOLS, ["send_mail", "none"])) == ["now", "send_mail", "tool_search"]


def test_the_next_turn_has_what_was_found() -> None:
    body = {"model": "acme/a", "messages": [{"role": "user", "content": "Hi"}], "tools": TOOLS[:3]}
    chat = CHAT.parse(body, session_header=None, models_max=3)
    chat.body["tools"] = TOOLS
    toolbox = Toolbox(TOOLS)
    chat = with_tools(chat, toolbox)
    loop = Loop(chat, toolbox)
    call = {"name": "tool_search", "arguments": '{"query": "mail"}'}
    message = {"tool_calls": [{"id": "c", "type": "function", "function": call}]}
    assert len(loop.take(message, finish="tool_calls")) == 1
    result = search(toolbox, "mail")
    loop.told([result])
    following = loop.next_request(chat)
    shown = [tool["function"]["name"] for tool in following.body["tools"]]
    assert shown == ["now", "send_mail", "tool_search"]
    assert following.text_bytes > chat.text_bytes + len(result.text)
