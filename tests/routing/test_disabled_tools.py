"""Server tools that a workspace switched off, under every name a request may give them."""

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounts.caller import Caller
from accounts.models.account import SERVER_TOOLS
from routing.disabled_tools import ToolDisabled, refuse_disabled_tools
from routing.formats.caller import CallerFormat
from routing.formats.messages.format import MESSAGES
from routing.formats.responses.format import RESPONSES
from routing.formats.server_tools import SHORTHANDS, WEB_SEARCH
from routing.pipeline import asked_of

SEARCH = frozenset({"router:web_search"})
FUNCTION = {
    "type": "function",
    "function": {"name": "f", "parameters": {"tools": [{"type": "router:web_search"}]}},
}


def check(body: dict[str, Any], disabled: frozenset[str] = SEARCH, **more: Any) -> None:
    refuse_disabled_tools(disabled, body, **more)


@pytest.mark.parametrize("kind", ["router:web_search", *sorted(SHORTHANDS)])
def test_each_spelling_names_the_tool(kind: str) -> None:
    with pytest.raises(ToolDisabled) as refusal:
        check({"tools": [FUNCTION, {"type": kind}]})

    assert refusal.value.status == 403
    assert refusal.value.text == ('Server tool "router:web_search" is disabled in this workspace')
    with pytest.raises(ToolDisabled):
        check({"tool_choice": {"type": kind}})


@pytest.mark.parametrize("agent", ["router:subagent", "router:fusion"])
def test_a_tool_of_a_tool_counts(agent: str) -> None:
    inner = {"type": agent, "parameters": {"tools": [{"type": "web_search"}]}}

    with pytest.raises(ToolDisabled):
        check({"tools": [inner]})
    with pytest.raises(ToolDisabled):
        check({"tools": [{"type": agent, "parameters": {"tools": [inner]}}]})


@pytest.mark.parametrize(
    ("plugin", "tool"),
    [("web", "router:web_search"), ("web-fetch", "router:web_fetch"), ("fusion", "router:fusion")],
)
def test_a_plugin_that_does_the_same_counts_while_it_is_on(plugin: str, tool: str) -> None:
    disabled = frozenset({tool})

    with pytest.raises(ToolDisabled, match=tool):
        check({}, disabled, plugins=[{"id": plugin}])
    check({}, disabled, plugins=[{"id": plugin, "enabled": False}, {"id": "moderation"}])


def test_the_suffix_that_searches_counts() -> None:
    with pytest.raises(ToolDisabled):
        check({}, references=["acme/small", "acme/small:online"])
    check({}, references=["acme/small:nitro", "online"])


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "router:advisor", "parameters": {"model": "acme/small:online"}},
        {"type": "router:fusion", "parameters": {"model": "acme/small:online:floor"}},
        {"type": "router:fusion", "parameters": {"analysis_models": ["a/b", "a/b:online"]}},
        {"type": "router:image_generation", "parameters": {"model": "acme/small:online"}},
    ],
)
def test_the_suffix_counts_on_models_that_tools_ask(tool: dict[str, Any]) -> None:
    with pytest.raises(ToolDisabled, match=WEB_SEARCH):
        check({"tools": [tool]})
    with pytest.raises(ToolDisabled):
        check({"tools": [{"type": "router:subagent", "parameters": {"tools": [tool]}}]})


def test_the_suffix_counts_on_models_that_a_plugin_asks() -> None:
    panel = {"id": "fusion", "analysis_models": ["acme/small:online"]}

    with pytest.raises(ToolDisabled, match=WEB_SEARCH):
        check({}, plugins=[panel])
    with pytest.raises(ToolDisabled, match=WEB_SEARCH):
        check({}, plugins=[{"id": "fusion", "model": "acme/small:online"}])
    check({}, plugins=[panel | {"enabled": False}])


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"tools": None, "tool_choice": "auto"},
        {"tools": [FUNCTION], "tool_choice": {"type": "function", "function": {"name": "f"}}},
        {"tools": [{"type": "router:datetime"}]},
        {"tools": [{"type": "router:subagent", "parameters": {}}]},
        {"tools": [{"type": "router:subagent", "parameters": {"model": "acme/small:floor"}}]},
        {"tools": [{"type": "router:files", "parameters": {"model": "acme/small:online"}}]},
    ],
)
def test_anything_else_passes(body: dict[str, Any]) -> None:
    check(body)


@given(
    st.lists(st.sampled_from([*SERVER_TOOLS, *sorted(SHORTHANDS), "function"])),
    st.frozensets(st.sampled_from(SERVER_TOOLS)),
)
def test_a_request_is_refused_exactly_if_it_names_one(
    kinds: list[str], disabled: frozenset[str]
) -> None:
    own_names = {"router:web_search" if kind in SHORTHANDS else kind for kind in kinds}
    body = {"tools": [{"type": kind} for kind in kinds]}

    try:
        check(body, disabled)
    except ToolDisabled:
        assert own_names & disabled
    else:
        assert not own_names & disabled


@pytest.mark.parametrize(
    ("kind", "tool"),
    [
        ("web_search_20250305", "router:web_search"),
        ("web_search_preview", "router:web_search"),
        ("local_shell", "router:shell"),
        ("image_generation", "router:image_generation"),
        ("web_fetch_20250910", "router:web_fetch"),
        ("advisor_20260301", "router:advisor"),
        ("tool_search_tool_regex", "router:tool_search"),
        ("tool_search_tool_regex_20251119", "router:tool_search"),
        ("bash_20250124", "router:bash"),
    ],
)
def test_a_tool_that_the_provider_runs_counts_as_ours(kind: str, tool: str) -> None:
    with pytest.raises(ToolDisabled):
        check({}, frozenset({tool}), native=[kind])
    check({}, frozenset({"router:datetime"}), native=[kind])


HELLO = [{"role": "user", "content": "Hi"}]


@pytest.mark.parametrize(
    ("format", "tool", "disabled"),
    [
        (MESSAGES, {"type": "web_search", "name": "web_search"}, "router:web_search"),
        (MESSAGES, {"type": "web_fetch_20250910", "name": "web_fetch"}, "router:web_fetch"),
        (
            RESPONSES,
            {
                "type": "namespace",
                "name": "n",
                "description": "d",
                "tools": [{"type": "router:web_fetch"}],
            },
            "router:web_fetch",
        ),
    ],
)
def test_a_whole_request_that_names_one_is_refused(
    format: CallerFormat, tool: dict[str, Any], disabled: str
) -> None:
    said = {"input": "Hi"} if format is RESPONSES else {"messages": HELLO, "max_tokens": 5}
    body = {"model": "acme/solo", "tools": [tool], **said}
    chat = format.parse(body, session_header=None, models_max=3)
    one = Caller(1, "h", False, uuid4(), uuid4(), "user_1", False, False, None, "")

    with pytest.raises(ToolDisabled, match=disabled):
        asked_of(chat, replace(one, disabled_server_tools=frozenset({disabled})))
