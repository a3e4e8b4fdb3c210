"""Searches that a provider would run, as the gateway's own."""

from typing import Any

import pytest
from django.test import override_settings

from routing.planning.server_tools import search_here
from tests.routing.formats.messages.bodies import BODIES as MESSAGES
from tests.routing.formats.messages.bodies import TOOL
from tests.routing.formats.responses.bodies import BODIES as RESPONSES
from tests.routing.formats.responses.bodies import FUNCTION

SEARCHING = {"ROUTER_SEARCH_ENGINE": "searxng", "ROUTER_SEARCH_URL": "http://127.0.0.1:9"}
PLACE = {"type": "approximate", "country": "CH"}
NATIVE = {"type": "web_search_20250305", "name": "web_search"}
SEARCH = {"type": "web_search"}
OWN = {"type": "router:web_search"}


@pytest.fixture
def searching(settings: Any) -> None:
    for name, value in SEARCHING.items():
        setattr(settings, name, value)


@pytest.mark.usefixtures("searching")
def test_settings_of_messages_are_the_gateways() -> None:
    same: dict[str, Any] = {"max_uses": 2, "user_location": PLACE, "allowed_domains": []}
    tool = NATIVE | same | {"blocked_domains": ["b.example"]}
    chat = search_here(MESSAGES.parse_fields(tools=[TOOL, tool]))
    own, search = chat.body["tools"]
    assert own["function"]["name"] == "f"
    assert search == {**OWN, "parameters": {**same, "excluded_domains": ["b.example"]}}
    assert (chat.native_tools, chat.server_tools) == ((), ["router:web_search"])
    assert chat.original is not None
    assert chat.original["tools"] == [TOOL]


@pytest.mark.usefixtures("searching")
@pytest.mark.parametrize(
    ("tool", "parameters"),
    [
        (SEARCH, {}),
        (
            {"type": "web_search_preview", "search_context_size": "low"},
            {"search_context_size": "low"},
        ),
        ({**SEARCH, "parameters": {"max_results": 2}}, {"max_results": 2}),
        (
            {"type": "web_search_2025_08_26", "filters": {"allowed_domains": ["a.example"]}},
            {"allowed_domains": ["a.example"]},
        ),
        ({**SEARCH, "filters": {"allowed_domains": "all"}}, {}),
        ({**SEARCH, "filters": None, "user_location": None}, {}),
    ],
)
def test_settings_of_responses_are_the_gateways(
    tool: dict[str, Any], parameters: dict[str, Any]
) -> None:
    chat = search_here(RESPONSES.parse_fields(tools=[tool]))
    assert chat.body["tools"] == [{**OWN, "parameters": parameters}]
    assert chat.original is not None
    assert chat.original["tools"] == [tool]


CHOSEN_F = {"type": "function", "function": {"name": "f"}}


@pytest.mark.usefixtures("searching")
@pytest.mark.parametrize(
    ("bodies", "tools", "choice", "chat"),
    [
        (MESSAGES, [NATIVE], {"type": "tool", "name": "web_search"}, OWN),
        (MESSAGES, [NATIVE, TOOL], {"type": "tool", "name": "f"}, CHOSEN_F),
        (MESSAGES, [NATIVE], {"type": "none"}, "none"),
        (MESSAGES, [NATIVE], {"type": "auto"}, "auto"),
        (MESSAGES, [NATIVE], {"type": "any"}, "required"),
        (RESPONSES, [SEARCH], {"type": "web_search_preview"}, OWN),
        *((RESPONSES, [SEARCH], word, word) for word in ("none", "auto", "required")),
    ],
)
def test_a_choice_goes_on(bodies: Any, tools: list[Any], choice: Any, chat: Any) -> None:
    request = search_here(bodies.parse_fields(tools=tools, tool_choice=choice))
    assert request.body["tool_choice"] == chat
    assert "tool_choice" in request.supplied_parameters


@pytest.mark.usefixtures("searching")
def test_one_call_at_a_time_goes_on() -> None:
    choice = {"type": "auto", "disable_parallel_tool_use": True}
    request = search_here(MESSAGES.parse_fields(tools=[NATIVE], tool_choice=choice))
    assert request.body["parallel_tool_calls"] is False


@pytest.mark.usefixtures("searching")
@pytest.mark.parametrize(("listed", "searches"), [(FUNCTION, False), (SEARCH, True)])
def test_only_an_allowed_search_is_run(listed: dict[str, Any], searches: bool) -> None:
    choice = {"type": "allowed_tools", "mode": "required", "tools": [listed]}
    chat = search_here(RESPONSES.parse_fields(tools=[FUNCTION, SEARCH], tool_choice=choice))
    assert ("router:web_search" in chat.server_tools) is searches
    assert (len(chat.body["tools"]), chat.body["tool_choice"]) == (1, "required")
    assert chat.native_tools == ()


def test_what_it_cannot_do_stays_as_it_is() -> None:
    alone = MESSAGES.parse_fields(tools=[NATIVE])
    beside = RESPONSES.parse_fields(tools=[SEARCH, {"type": "code_interpreter"}])
    assert search_here(alone) is alone
    with override_settings(**SEARCHING):
        for chat in (MESSAGES.parse_fields(tools=[TOOL]), beside):
            assert search_here(chat) is chat
        both = search_here(MESSAGES.parse_fields(tools=[{"type": "router:datetime"}, NATIVE]))
    assert both.server_tools == ["router:datetime", "router:web_search"]
    assert both.native_tools == ()
