"""Another vendor's names become ours, and nothing that a caller wrote does."""

import json
from typing import Any

import pytest
from django.test import RequestFactory

from gateway.http import vendor_names
from gateway.http.body import read_object
from gateway.http.vendor_names import map_header_names, replace_vendor_headers


@pytest.fixture(autouse=True)
def _every_name_is_a_routers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vendor_names, "_routers", [lambda theirs, ours: True])


def rename(body: dict[str, Any]) -> dict[str, Any]:
    request = RequestFactory().post("/", json.dumps(body), content_type="application/json")
    return read_object(request, bytes_max=100_000_000)


BELOW = {"model": "openrouter/auto", "tools": [{"type": "openrouter:datetime"}]}


@pytest.mark.parametrize(
    "theirs",
    [
        {"model": "openrouter/auto"},
        {"models": ["a/b", "openrouter/free:floor"]},
        {"fallbacks": [{"model": "openrouter/auto"}]},
        {"tools": [{"type": "openrouter:web_search", "max_results": 3}]},
        {"tools": [{"parameters": BELOW, "type": "openrouter:subagent"}]},
        {"tool_choice": {"type": "openrouter:datetime"}},
        {"plugins": [{"id": "fusion", "analysis_models": ["openrouter/auto"]}]},
        {"input": [{"type": "openrouter:datetime", "id": "x"}]},
        {"stop_server_tools_when": [{"tool_name": "openrouter:datetime"}]},
        {"disabled_server_tools": ["openrouter:bash"], "default_text_model": "openrouter/auto"},
    ],
)
def test_names_in_their_places(theirs: dict[str, Any]) -> None:
    ours = json.loads(json.dumps(theirs).replace("openrouter", "router"))
    assert rename(theirs) == ours
    assert rename(ours) == ours


SCHEMA = {
    "type": "object",
    "properties": {"model": {"type": "string", "enum": ["openrouter/auto"]}},
    "model": "openrouter/auto",
}


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": "user", "content": "openrouter/auto", "type": "openrouter:bash"}]},
        {"system": "openrouter/auto", "user": "openrouter/auto"},
        {"metadata": {"model": "openrouter/auto"}},
        {"tools": [{"type": "function", "name": "f", "parameters": SCHEMA}]},
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}]},
        {"tools": [{"name": "openrouter:f", "input_schema": SCHEMA}]},
        {"input": "openrouter:datetime"},
        {"input": [{"type": "message", "content": [{"type": "openrouter:x"}]}]},
        {"model": "openrouterx/auto", "tools": ["openrouter:bash", None, 1], "plugins": None},
        {"model": 1, "models": {"model": "openrouter/auto"}},
        {"allowed_models": ["openrouter/*"]},
    ],
)
def test_what_callers_wrote_is_theirs(body: dict[str, Any]) -> None:
    assert rename(body) == body


def test_headers_have_our_names_too() -> None:
    names = map_header_names(["openrouter"])
    for given, ours in (
        ({"HTTP_X_OPENROUTER_TITLE": "App"}, {"HTTP_X_ROUTER_TITLE": "App"}),
        (
            {"HTTP_X_OPENROUTER_TITLE": "1", "HTTP_X_ROUTER_TITLE": "2"},
            {"HTTP_X_ROUTER_TITLE": "2"},
        ),
    ):
        environ = dict(given)
        replace_vendor_headers(environ, names)
        assert environ == environ | ours


def test_it_can_be_turned_off(settings: Any) -> None:
    settings.VENDOR_ALIASES = ()
    assert rename({"model": "openrouter/auto"}) == {"model": "openrouter/auto"}
    assert map_header_names(()) == {}
