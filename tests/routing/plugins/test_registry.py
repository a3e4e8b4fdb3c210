"""Which plugins there are, the tools some of them add, and what a request makes of them."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.http.errors import PermissionDenied
from routing.formats.chat.request import ChatInvalid, ChatRequest, parse_chat
from routing.plugins import registry
from routing.plugins.interface import Plugin, PluginContext, with_messages, with_more_tools
from routing.plugins.registry import (
    BUILT_IN,
    OF_ROUTERS,
    PRESETS,
    FusionOffer,
    WebFetchOffer,
    WebSearchOffer,
    add_plugins,
    build_plugins,
    list_missing,
)

HERE = "tests.routing.plugins.test_registry"
OWN = {"type": "function", "function": {"name": "own"}}
WEB_OFF = {"id": "web", "enabled": False}


class Clock(Plugin):
    """Adds a server tool that there is."""

    def tools(self) -> list[dict[str, Any]]:
        return [{"type": "router:datetime", "parameters": {"timezone": "Europe/Paris"}}]


class Hopeless(Plugin):
    """Adds one that nothing here runs."""

    def tools(self) -> list[dict[str, Any]]:
        return [{"type": "router:shell", "parameters": {"engine": "native"}}]


class OfBefore(Plugin):
    def asked(self, chat: ChatRequest, context: PluginContext) -> ChatRequest:
        return replace(chat, stream=True)

    def judged(self, chat: ChatRequest, context: PluginContext) -> Any:
        return PermissionDenied

    def answered(self, chat: ChatRequest, message: dict[str, Any]) -> dict[str, Any]:
        return {}


def request(**fields: Any) -> ChatRequest:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], **fields}
    return parse_chat(body, session_header=None)


def add_to_request(**fields: Any) -> ChatRequest:
    return add_plugins(request(**fields), "acme/default")[0]


@pytest.fixture
def backends(settings) -> None:
    settings.ROUTER_TOOL_BACKENDS = {"web": f"{HERE}.Clock", "web-fetch": f"{HERE}.Hopeless"}


@pytest.fixture
def searching(settings) -> None:
    settings.ROUTER_SEARCH_ENGINE = "searxng"
    settings.ROUTER_SEARCH_URL = "http://127.0.0.1:9"


# Search needs an engine of the operator's.
@pytest.mark.parametrize("plugin_id", sorted(BUILT_IN.keys() - {"web"}))
def test_what_is_built_in_runs(plugin_id: str) -> None:
    assert list_missing([{"id": plugin_id}]) == []
    (plugin,) = build_plugins([{"id": plugin_id}])
    assert plugin.annotations() == []


@pytest.mark.parametrize("plugin_id", sorted(OF_ROUTERS))
def test_plugins_of_routers_are_ignored(plugin_id: str) -> None:
    assert list_missing([{"id": plugin_id}]) == []
    assert build_plugins([{"id": plugin_id}]) == ()


def test_a_backend_makes_a_plugin_available_and_a_tool_that_is_not_there_does_not(backends) -> None:
    assert list_missing([{"id": "web"}, {"id": "web-fetch"}]) == ["web-fetch"]
    assert list_missing([{"id": "web-fetch", "enabled": False}]) == []


def test_without_an_engine_the_web_is_not_available() -> None:
    assert list_missing([{"id": "web"}, {"id": "web-fetch"}]) == ["web"]
    assert add_to_request(plugins=[{"id": "web"}]).server_tools == []


def test_another_engine_than_the_operators_is_not_available(searching) -> None:
    assert list_missing([{"id": "web"}]) == []
    assert list_missing([{"id": "web", "engine": "exa"}]) == ["web"]


def test_moderation_has_no_switch() -> None:
    on, off = {"id": "moderation", "enabled": False}, {"id": "response-healing", "enabled": False}
    assert [type(plugin) for plugin in build_plugins([on, off])] == [BUILT_IN["moderation"]]


def test_its_tools_join_those_of_the_request(backends) -> None:
    chat, plugins = add_plugins(request(plugins=[{"id": "web"}], tools=[OWN]), "")
    assert [type(plugin) for plugin in plugins] == [Clock]
    assert [tool["type"] for tool in chat.body["tools"]] == ["function", "router:datetime"]
    assert (chat.server_tools, chat.tools_given) == (["router:datetime"], True)
    assert chat.text_bytes > request(tools=[OWN]).text_bytes
    # One that the request names itself keeps its own settings.
    named = add_to_request(plugins=[{"id": "web"}], tools=[{"type": "router:datetime"}])
    assert named.body["tools"] == [{"type": "router:datetime"}]


@pytest.mark.parametrize(
    ("fields", "count"),
    [
        ({"plugins": [{"id": "web"}]}, 1),
        ({"model": "m:online"}, 1),
        ({"model": "m:nitro:online"}, 1),
        ({"models": ["a", "b:nitro:online"]}, 1),
        ({"model": "m:online", "plugins": [WEB_OFF]}, 0),
        ({"model": "m:free"}, 0),
        ({"plugins": [WEB_OFF]}, 0),
    ],
)
def test_a_request_gets_the_search_by_its_plugin_or_a_suffix(
    searching, fields: dict[str, Any], count: int
) -> None:
    chat, plugins = add_plugins(request(**fields), "")
    assert len(plugins) == count
    assert chat.server_tools == ["router:web_search"] * count
    tools = chat.body.get("tools", [])
    assert [tool["type"] for tool in tools] == chat.server_tools
    assert chat.tools_given is bool(count)


def test_a_suffix_of_the_default_model_counts_and_what_cannot_run_does_not(backends) -> None:
    plain = request()
    plain.candidates = []
    assert len(add_plugins(plain, "m:online")[1]) == 1
    assert add_plugins(request(plugins=[{"id": "web-fetch"}]), "")[1] == ()


def test_a_tool_of_the_callers_own_stays_as_it_is(searching) -> None:
    own = {"type": "web_search", "max_results": 1}
    chat = add_to_request(
        plugins=[{"id": "web", "max_results": 9}, {"id": "web-fetch"}], tools=[own]
    )
    assert chat.body["tools"] == [own, {"type": "router:web_fetch", "parameters": {}}]


def test_a_search_has_one_list_of_domains() -> None:
    one = {"id": "web", "include_domains": ["a.example"], "exclude_domains": []}
    add_to_request(plugins=[one])
    with pytest.raises(ChatInvalid, match="exclude each other"):
        add_to_request(plugins=[one | {"exclude_domains": ["b.example"]}])


def test_settings_of_the_web_plugins_are_those_of_the_tools() -> None:
    place = {"type": "approximate", "country": "CH"}
    same = {"engine": "auto", "mode": "deep", "max_results": 3, "max_uses": 2}
    same |= {"search_prompt": "Cite.", "user_location": place}
    lists = {"include_domains": ["a.example"], "exclude_domains": ["b.example"]}
    (tool,) = WebSearchOffer({"id": "web", "enabled": True, **same, **lists}).tools()
    domains = {"allowed_domains": ["a.example"], "excluded_domains": ["b.example"]}
    assert tool == {"type": "router:web_search", "parameters": {**same, **domains}}
    fetching = {"max_uses": 1, "max_content_tokens": 10, "blocked_domains": ["c"]}
    (tool,) = WebFetchOffer({"id": "web-fetch", **fetching}).tools()
    assert tool == {"type": "router:web_fetch", "parameters": fetching}


PANEL: dict[str, Any] = {"model": "m", "max_tool_calls": 2, "tools": [{"type": "router:datetime"}]}
FAST = {"preset": "general-fast"}


@pytest.mark.parametrize(
    ("settings", "given"),
    [
        ({}, {}),
        (PANEL, PANEL),
        (FAST, {"analysis_models": ["general-fast/a", "general-fast/b"]}),
        ({**FAST, "analysis_models": ["x"]}, {"analysis_models": ["x"]}),
    ],
)
def test_settings_of_a_fusion_are_those_of_the_tool(
    monkeypatch: pytest.MonkeyPatch, settings: Any, given: Any
) -> None:
    monkeypatch.setattr(registry, "choose_panel", lambda preset: [f"{preset}/a", f"{preset}/b"])
    (tool,) = FusionOffer({"id": "fusion", "enabled": True, **settings}).tools()
    assert tool == {"type": "router:fusion", "parameters": given}


@pytest.mark.django_db
@pytest.mark.parametrize("preset", PRESETS)
def test_an_empty_catalogue_has_no_panel(preset: str) -> None:
    assert FusionOffer({"preset": preset}).tools()[0]["parameters"].get("analysis_models", []) == []


def test_a_request_without_plugins_is_the_very_same() -> None:
    plain = request()
    assert add_plugins(plain, "m") == (plain, ())
    assert add_plugins(plain, "m")[0] is plain
    assert with_more_tools(plain, []) is plain


def test_other_messages_are_measured_anew() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    messages = [{"role": "user", "content": [{"type": "text", "text": "Größe"}, image]}]
    made_so, there = with_messages(request(), messages), request(messages=messages)
    assert made_so.rewritten
    for name in ("text_bytes", "prompt_text_chars", "message_count", "media_parts", "image_parts"):
        assert getattr(made_so, name) == getattr(there, name), name
    assert made_so.input_modalities == there.input_modalities == {"image"}
    back = with_messages(made_so, request().body["messages"])
    assert (back.text_bytes, back.media_parts) == (request().text_bytes, 0)


def test_methods_may_have_the_names_of_before() -> None:
    plugin, context = OfBefore({}), PluginContext(None, (), deadline=0.0)  # type: ignore[arg-type]  # It asks no caller.
    assert plugin.change_request(request(), context).stream
    assert plugin.find_refusal(request(), context) is PermissionDenied
    assert plugin.change_answer(request(), {"content": "a"}) == {}
