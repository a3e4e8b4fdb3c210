"""Plugins of the web as server tools."""

from typing import Any

import pytest
from django.test import override_settings

from routing.formats.chat.format import CHAT
from routing.formats.chat.request import ChatInvalid
from routing.plugging import plugged
from routing.plugins.registry import missing
from routing.plugins.web import Web, WebFetch

SEARCHING = override_settings(
    ROUTER_SEARCH_ENGINE="searxng", ROUTER_SEARCH_URL="http://127.0.0.1:9"
)


def asked(**fields: Any) -> Any:
    body = {"model": "acme/solo", "messages": [{"role": "user", "content": "Hi"}], **fields}
    chat, _ = plugged(CHAT.parse(body, session_header=None, models_max=3), "acme/default")
    return chat


def test_settings_of_the_plugin_are_those_of_the_tool() -> None:
    place = {"type": "approximate", "country": "CH"}
    given = {
        "id": "web",
        "enabled": True,
        "engine": "auto",
        "mode": "deep",
        "max_results": 3,
        "max_uses": 2,
        "search_prompt": "Cite.",
        "include_domains": ["a.example"],
        "exclude_domains": ["b.example"],
        "user_location": place,
    }

    (tool,) = Web(given).tools()

    assert tool == {
        "type": "router:web_search",
        "parameters": {
            "engine": "auto",
            "mode": "deep",
            "max_results": 3,
            "max_uses": 2,
            "search_prompt": "Cite.",
            "allowed_domains": ["a.example"],
            "excluded_domains": ["b.example"],
            "user_location": place,
        },
    }
    fetching = {"max_uses": 1, "max_content_tokens": 10, "blocked_domains": ["c"]}
    (tool,) = WebFetch({"id": "web-fetch", **fetching}).tools()
    assert tool == {"type": "router:web_fetch", "parameters": fetching}


@pytest.mark.parametrize(
    "fields",
    [
        {"plugins": [{"id": "web"}]},
        {"model": "acme/solo:online"},
        {"model": "acme/solo:nitro:online"},
        {"models": ["acme/other", "acme/solo:online"]},
    ],
)
def test_a_request_gets_the_tool(fields: dict[str, Any]) -> None:
    with SEARCHING:
        chat = asked(**fields)
    assert chat.server_tools == ["router:web_search"]
    assert [tool["type"] for tool in chat.body["tools"]] == ["router:web_search"]
    assert chat.tools_given


@pytest.mark.parametrize(
    "fields",
    [
        {"plugins": [{"id": "web", "enabled": False}]},
        {"plugins": [{"id": "web", "enabled": False}], "model": "acme/solo:online"},
        {"model": "acme/solo:nitro"},
    ],
)
def test_what_is_switched_off_adds_none(fields: dict[str, Any]) -> None:
    with SEARCHING:
        assert asked(**fields).server_tools == []


def test_a_search_has_one_list_of_domains() -> None:
    one = {"id": "web", "include_domains": ["a.example"], "exclude_domains": []}
    asked(plugins=[one])
    with pytest.raises(ChatInvalid, match="exclude each other"):
        asked(plugins=[one | {"exclude_domains": ["b.example"]}])


def test_a_tool_of_the_callers_own_stays_as_it_is() -> None:
    own = {"type": "web_search", "max_results": 1}
    with SEARCHING:
        chat = asked(plugins=[{"id": "web", "max_results": 9}, {"id": "web-fetch"}], tools=[own])
    assert chat.body["tools"] == [own, {"type": "router:web_fetch", "parameters": {}}]


def test_without_an_engine_it_is_not_available() -> None:
    assert missing([{"id": "web"}, {"id": "web-fetch"}]) == ["web"]
    assert asked(plugins=[{"id": "web"}]).server_tools == []
    with SEARCHING:
        assert missing([{"id": "web"}]) == []
        assert missing([{"id": "web", "engine": "exa"}]) == ["web"]
