"""Searches that a provider would run, as the gateway's own."""

from typing import Any

import pytest
from django.test import override_settings

from routing.formats.caller import CallerFormat
from routing.formats.chat.request import ChatRequest
from routing.formats.messages.format import MESSAGES
from routing.formats.responses.format import RESPONSES
from routing.own_search import beside_own_tools, searching_here

SEARCHING = override_settings(
    ROUTER_SEARCH_ENGINE="searxng", ROUTER_SEARCH_URL="http://127.0.0.1:9"
)
PLACE = {"type": "approximate", "country": "CH"}
NATIVE = {"type": "web_search_20250305", "name": "web_search"}
FUNCTION = {"name": "f", "input_schema": {"type": "object"}}


def asked(format: CallerFormat, *tools: dict[str, Any], **more: Any) -> ChatRequest:
    said = (
        {"input": "Hi"}
        if format is RESPONSES
        else {"messages": [{"role": "user", "content": "Hi"}]}
    )
    body = {"model": "acme/solo", "max_tokens": 5, "tools": list(tools), **said, **more}
    return format.parse(body, session_header=None, models_max=3)


def test_settings_of_messages_are_the_gateways() -> None:
    tool = NATIVE | {
        "max_uses": 2,
        "allowed_domains": [],
        "blocked_domains": ["b.example"],
        "user_location": PLACE,
    }
    with SEARCHING:
        chat = searching_here(asked(MESSAGES, FUNCTION, tool))

    own, search = chat.body["tools"]
    assert own["function"]["name"] == "f"
    assert search == {
        "type": "router:web_search",
        "parameters": {
            "max_uses": 2,
            "user_location": PLACE,
            "allowed_domains": [],
            "excluded_domains": ["b.example"],
        },
    }
    assert (chat.native_tools, chat.server_tools) == ((), ["router:web_search"])
    assert chat.original is not None
    assert [tool["name"] for tool in chat.original["tools"]] == ["f"]


@pytest.mark.parametrize(
    ("tool", "parameters"),
    [
        ({"type": "web_search"}, {}),
        (
            {"type": "web_search_preview", "search_context_size": "low"},
            {"search_context_size": "low"},
        ),
        ({"type": "web_search", "parameters": {"max_results": 2}}, {"max_results": 2}),
        (
            {"type": "web_search_2025_08_26", "filters": {"allowed_domains": ["a.example"]}},
            {"allowed_domains": ["a.example"]},
        ),
        ({"type": "web_search", "filters": {"allowed_domains": "all"}}, {}),
        ({"type": "web_search", "filters": None, "user_location": None}, {}),
    ],
)
def test_settings_of_responses_are_the_gateways(
    tool: dict[str, Any], parameters: dict[str, Any]
) -> None:
    with SEARCHING:
        chat = searching_here(asked(RESPONSES, tool))

    assert chat.body["tools"] == [{"type": "router:web_search", "parameters": parameters}]
    assert chat.original is not None
    assert chat.original["tools"] == [tool]


def test_a_choice_of_it_goes_on() -> None:
    with SEARCHING:
        messages = asked(MESSAGES, NATIVE, tool_choice={"type": "tool", "name": "web_search"})
        responses = asked(
            RESPONSES, {"type": "web_search"}, tool_choice={"type": "web_search_preview"}
        )
        for chat in (messages, responses):
            assert searching_here(chat).body["tool_choice"] == {"type": "router:web_search"}
        other = asked(MESSAGES, NATIVE, FUNCTION, tool_choice={"type": "tool", "name": "f"})
        assert searching_here(other).body["tool_choice"]["type"] == "function"


@pytest.mark.parametrize(
    ("kind", "chat"), [("none", "none"), ("auto", "auto"), ("any", "required")]
)
def test_a_choice_in_messages_that_names_no_tool_goes_on(kind: str, chat: str) -> None:
    with SEARCHING:
        request = searching_here(asked(MESSAGES, NATIVE, tool_choice={"type": kind}))

    assert request.body["tool_choice"] == chat
    assert "tool_choice" in request.supplied_parameters


def test_one_call_at_a_time_goes_on() -> None:
    choice = {"type": "auto", "disable_parallel_tool_use": True}
    with SEARCHING:
        request = searching_here(asked(MESSAGES, NATIVE, tool_choice=choice))

    assert request.body["parallel_tool_calls"] is False


@pytest.mark.parametrize("choice", ["none", "auto", "required"])
def test_a_choice_in_a_word_goes_on(choice: str) -> None:
    with SEARCHING:
        request = searching_here(asked(RESPONSES, {"type": "web_search"}, tool_choice=choice))

    assert request.body["tool_choice"] == choice


@pytest.mark.parametrize(("listed", "searches"), [("function", False), ("web_search", True)])
def test_only_an_allowed_search_is_run(listed: str, searches: bool) -> None:
    function = {"type": "function", "name": "f", "parameters": {}}
    allowed = [{"type": listed} | ({"name": "f"} if listed == "function" else {})]
    choice = {"type": "allowed_tools", "mode": "required", "tools": allowed}
    with SEARCHING:
        tools = function, {"type": "web_search"}
        request = searching_here(asked(RESPONSES, *tools, tool_choice=choice))

    assert ("router:web_search" in request.server_tools) is searches
    assert len(request.body["tools"]) == 1
    assert request.body["tool_choice"] == "required"
    assert request.native_tools == ()


def test_what_it_cannot_do_stays_as_it_is() -> None:
    others = [
        asked(MESSAGES, FUNCTION),
        asked(RESPONSES, {"type": "web_search"}, {"type": "code_interpreter"}),
    ]
    with SEARCHING:
        for chat in others:
            assert searching_here(chat) is chat
        alone = asked(MESSAGES, NATIVE)
        assert beside_own_tools(alone) is alone
    alone = asked(MESSAGES, NATIVE)
    assert searching_here(alone) is alone


def test_beside_a_tool_of_the_gateways() -> None:
    with SEARCHING:
        chat = beside_own_tools(asked(MESSAGES, {"type": "router:datetime"}, NATIVE))

    assert chat.server_tools == ["router:datetime", "router:web_search"]
    assert chat.native_tools == ()
