"""Which plugins there are, and what a request makes of them."""

from typing import Any

import pytest

from routing.formats.chat.request import ChatRequest, parse_chat
from routing.plugging import plugged
from routing.plugins.interface import Plugin
from routing.plugins.registry import BUILT_IN, OF_ROUTERS, made, missing
from routing.plugins.texts import with_messages, with_more_tools

HERE = "tests.routing.plugins.test_registry"
OWN = {"type": "function", "function": {"name": "own"}}


class Clock(Plugin):
    """Adds a server tool that there is."""

    def tools(self) -> list[dict[str, Any]]:
        return [{"type": "router:datetime", "parameters": {"timezone": "Europe/Paris"}}]


class Hopeless(Plugin):
    """Adds one that nothing here runs."""

    def tools(self) -> list[dict[str, Any]]:
        return [{"type": "router:shell", "parameters": {"engine": "native"}}]


def request(**fields: Any) -> ChatRequest:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], **fields}
    return parse_chat(body, session_header=None)


@pytest.fixture
def backends(settings) -> None:
    settings.ROUTER_TOOL_BACKENDS = {"web": f"{HERE}.Clock", "web-fetch": f"{HERE}.Hopeless"}


# Search needs an engine of the operator's.
@pytest.mark.parametrize("plugin_id", sorted(BUILT_IN.keys() - {"web"}))
def test_what_is_built_in_runs(plugin_id: str) -> None:
    assert missing([{"id": plugin_id}]) == []
    (plugin,) = made([{"id": plugin_id}])
    assert plugin.annotations() == []


@pytest.mark.parametrize("plugin_id", sorted(OF_ROUTERS))
def test_plugins_of_routers_are_ignored(plugin_id: str) -> None:
    assert missing([{"id": plugin_id}]) == []
    assert made([{"id": plugin_id}]) == ()


def test_a_backend_makes_a_plugin_available_and_a_tool_that_is_not_there_does_not(backends) -> None:
    assert missing([{"id": "web"}, {"id": "web-fetch"}]) == ["web-fetch"]
    assert missing([{"id": "web-fetch", "enabled": False}]) == []


def test_moderation_has_no_switch() -> None:
    on, off = {"id": "moderation", "enabled": False}, {"id": "response-healing", "enabled": False}
    assert [type(plugin) for plugin in made([on, off])] == [BUILT_IN["moderation"]]


def test_its_tools_join_those_of_the_request(backends) -> None:
    chat, plugins = plugged(request(plugins=[{"id": "web"}], tools=[OWN]), "")
    assert [type(plugin) for plugin in plugins] == [Clock]
    assert [tool["type"] for tool in chat.body["tools"]] == ["function", "router:datetime"]
    assert chat.server_tools == ["router:datetime"]
    assert chat.tools_given
    assert chat.text_bytes > request(tools=[OWN]).text_bytes


def test_a_tool_that_the_request_names_itself_has_its_own_settings(backends) -> None:
    asked = request(plugins=[{"id": "web"}], tools=[{"type": "router:datetime"}])
    assert plugged(asked, "")[0].body["tools"] == [{"type": "router:datetime"}]


@pytest.mark.parametrize(
    ("fields", "count"),
    [
        ({"model": "m:online"}, 1),
        ({"models": ["a", "b:nitro:online"]}, 1),
        ({"model": "m:online", "plugins": [{"id": "web", "enabled": False}]}, 0),
        ({"model": "m:free"}, 0),
        ({"plugins": [{"id": "web", "enabled": False}]}, 0),
        ({"plugins": [{"id": "web-fetch"}]}, 0),
    ],
)
def test_a_suffix_stands_for_a_plugin(backends, fields: dict[str, Any], count: int) -> None:
    chat, plugins = plugged(request(**fields), "")
    assert len(plugins) == count
    assert bool(chat.server_tools) is bool(count)


def test_so_does_one_of_the_default_model(backends) -> None:
    asked = request()
    asked.candidates = []
    assert len(plugged(asked, "m:online")[1]) == 1


def test_a_request_without_plugins_is_the_very_same() -> None:
    asked = request()
    assert plugged(asked, "m") == (asked, ())
    assert plugged(asked, "m")[0] is asked
    assert with_more_tools(asked, []) is asked


def test_other_messages_are_measured_anew() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    messages = [{"role": "user", "content": [{"type": "text", "text": "Größe"}, image]}]
    made_so = with_messages(request(), messages)
    there = request(messages=messages)
    assert made_so.rewritten
    for name in ("text_bytes", "prompt_text_chars", "message_count", "media_parts", "image_parts"):
        assert getattr(made_so, name) == getattr(there, name), name
    assert made_so.input_modalities == there.input_modalities == {"image"}
    back = with_messages(made_so, request().body["messages"])
    assert (back.text_bytes, back.media_parts) == (request().text_bytes, 0)
