"""Another vendor's names become ours, and nothing that a caller wrote does."""

import json
from copy import deepcopy
from typing import Any

import pytest

from gateway import env
from gateway.http import vendor_names
from gateway.http.vendor_names import own_header_names, use_own_headers, use_own_names


@pytest.fixture(autouse=True)
def _every_name_is_a_routers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vendor_names, "_routers", [lambda theirs, ours: True])


def named(body: dict[str, Any]) -> dict[str, Any]:
    return use_own_names(deepcopy(body), json.dumps(body).encode())


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ({"model": "openrouter/auto"}, {"model": "router/auto"}),
        ({"models": ["a/b", "openrouter/free:floor"]}, {"models": ["a/b", "router/free:floor"]}),
        ({"fallbacks": [{"model": "openrouter/auto"}]}, {"fallbacks": [{"model": "router/auto"}]}),
        (
            {"tools": [{"type": "openrouter:web_search", "max_results": 3}]},
            {"tools": [{"type": "router:web_search", "max_results": 3}]},
        ),
        (
            {
                "tools": [
                    {
                        "parameters": {
                            "model": "openrouter/auto",
                            "tools": [{"type": "openrouter:datetime"}],
                        },
                        "type": "openrouter:subagent",
                    }
                ]
            },
            {
                "tools": [
                    {
                        "parameters": {
                            "model": "router/auto",
                            "tools": [{"type": "router:datetime"}],
                        },
                        "type": "router:subagent",
                    }
                ]
            },
        ),
        (
            {"tool_choice": {"type": "openrouter:datetime"}},
            {"tool_choice": {"type": "router:datetime"}},
        ),
        (
            {"plugins": [{"id": "fusion", "analysis_models": ["openrouter/auto"]}]},
            {"plugins": [{"id": "fusion", "analysis_models": ["router/auto"]}]},
        ),
        (
            {"input": [{"type": "openrouter:datetime", "id": "x"}]},
            {"input": [{"type": "router:datetime", "id": "x"}]},
        ),
        (
            {"stop_server_tools_when": [{"tool_name": "openrouter:datetime"}]},
            {"stop_server_tools_when": [{"tool_name": "router:datetime"}]},
        ),
        (
            {
                "disabled_server_tools": ["openrouter:bash"],
                "default_text_model": "openrouter/auto",
            },
            {"disabled_server_tools": ["router:bash"], "default_text_model": "router/auto"},
        ),
    ],
)
def test_names_in_their_places(theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    assert named(theirs) == ours
    assert named(ours) == ours


SCHEMA = {
    "type": "object",
    "properties": {"model": {"type": "string", "enum": ["openrouter/auto"]}},
    "model": "openrouter/auto",
}


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": "user", "content": "openrouter/auto", "type": "openrouter:bash"}]},
        {
            "system": "openrouter/auto",
            "user": "openrouter/auto",
            "metadata": {"model": "openrouter/auto"},
        },
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
    assert named(body) == body


def test_it_can_be_turned_off(settings: Any) -> None:
    settings.VENDOR_ALIASES = ()
    assert named({"model": "openrouter/auto"}) == {"model": "openrouter/auto"}
    assert own_header_names(()) == {}


def test_headers_have_our_names_too() -> None:
    names = own_header_names(["openrouter"])
    environ = {"HTTP_X_OPENROUTER_TITLE": "App", "HTTP_HOST": "h"}
    use_own_headers(environ, names)
    assert environ["HTTP_X_ROUTER_TITLE"] == "App"
    both = {"HTTP_X_OPENROUTER_CACHE_TTL": "1", "HTTP_X_ROUTER_CACHE_TTL": "2"}
    use_own_headers(both, names)
    assert both["HTTP_X_ROUTER_CACHE_TTL"] == "2"


def test_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VENDOR_ALIASES", raising=False)
    assert env.vendors("VENDOR_ALIASES", "openrouter") == ("openrouter",)
    monkeypatch.setenv("VENDOR_ALIASES", " ")
    assert env.vendors("VENDOR_ALIASES", "openrouter") == ()
    monkeypatch.setenv("VENDOR_ALIASES", "openruter")
    with pytest.raises(env.SettingError, match="VENDOR_ALIASES: expected openrouter, or nothing"):
        env.vendors("VENDOR_ALIASES", "openrouter")
