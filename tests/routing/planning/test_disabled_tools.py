"""Server tools that a workspace switched off, under every name a request may give them."""

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounts.caller import Caller
from accounts.models.account import SERVER_TOOLS
from routing.formats.server_tools import SHORTHANDS, WEB_SEARCH
from routing.planning.candidates import resolve
from routing.planning.server_tools import ToolDisabled, refuse_disabled_tools
from tests.routing.formats.chat_bodies import Bodies
from tests.routing.formats.messages.bodies import BODIES as MESSAGES
from tests.routing.formats.responses.bodies import BODIES as RESPONSES

SEARCH = {"type": "web_search"}
ONLINE = "acme/small:online"
FUNCTION = {
    "type": "function",
    "function": {"name": "f", "parameters": {"tools": [{"type": WEB_SEARCH}]}},
}


def check(body: dict[str, Any], disabled: str = WEB_SEARCH, **more: Any) -> None:
    refuse_disabled_tools(frozenset({disabled}), body, **more)


def check_refused(body: dict[str, Any], disabled: str = WEB_SEARCH, **more: Any) -> ToolDisabled:
    with pytest.raises(ToolDisabled, match=disabled) as refusal:
        check(body, disabled, **more)
    return refusal.value


def tool(kind: str, **parameters: Any) -> dict[str, Any]:
    return {"type": f"router:{kind}", "parameters": parameters}


@pytest.mark.parametrize("kind", [WEB_SEARCH, *sorted(SHORTHANDS)])
def test_each_spelling_names_the_tool(kind: str) -> None:
    error = check_refused({"tools": [FUNCTION, {"type": kind}]})
    assert error.status == 403
    assert error.text == 'Server tool "router:web_search" is disabled in this workspace'
    check_refused({"tool_choice": {"type": kind}})


@pytest.mark.parametrize(
    "inner",
    [
        tool("subagent", tools=[SEARCH]),
        tool("fusion", tools=[SEARCH]),
        # The suffix that searches counts on models that tools ask.
        tool("advisor", model=ONLINE),
        tool("fusion", model="acme/small:online:floor"),
        tool("fusion", analysis_models=["a/b", "a/b:online"]),
        tool("image_generation", model=ONLINE),
    ],
)
def test_a_tool_of_a_tool_counts(inner: dict[str, Any]) -> None:
    check_refused({"tools": [inner]})
    for agent in ("subagent", "fusion"):
        check_refused({"tools": [tool(agent, tools=[inner])]})


@pytest.mark.parametrize(
    ("plugin", "tool"),
    [
        ({"id": "web"}, WEB_SEARCH),
        ({"id": "web-fetch"}, "router:web_fetch"),
        ({"id": "fusion"}, "router:fusion"),
        ({"id": "fusion", "analysis_models": [ONLINE]}, WEB_SEARCH),
        ({"id": "fusion", "model": ONLINE}, WEB_SEARCH),
    ],
)
def test_a_plugin_that_does_the_same_counts_while_it_is_on(
    plugin: dict[str, Any], tool: str
) -> None:
    check_refused({}, tool, plugins=[plugin])
    check({}, tool, plugins=[plugin | {"enabled": False}, {"id": "moderation"}])


def test_the_suffix_that_searches_counts() -> None:
    check_refused({}, references=["acme/small", ONLINE])
    check({}, references=["acme/small:nitro", "online"])


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"tools": None, "tool_choice": "auto"},
        {"tools": [FUNCTION], "tool_choice": {"type": "function", "function": {"name": "f"}}},
        {"tools": [{"type": "router:datetime"}]},
        {"tools": [tool("subagent")]},
        {"tools": [tool("subagent", model="acme/small:floor")]},
        {"tools": [tool("files", model=ONLINE)]},
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
    own_names = {WEB_SEARCH if kind in SHORTHANDS else kind for kind in kinds}
    try:
        refuse_disabled_tools(disabled, {"tools": [{"type": kind} for kind in kinds]})
    except ToolDisabled:
        assert own_names & disabled
    else:
        assert not own_names & disabled


@pytest.mark.parametrize(
    ("kind", "tool"),
    [
        ("web_search_20250305", WEB_SEARCH),
        ("web_search_preview", WEB_SEARCH),
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
    check_refused({}, tool, native=[kind])
    check({}, "router:datetime", native=[kind])


FETCH = {"type": "router:web_fetch"}
SPACE = {"type": "namespace", "name": "n", "description": "d", "tools": [FETCH]}


@pytest.mark.parametrize(
    ("bodies", "tool", "disabled"),
    [
        (MESSAGES, {**SEARCH, "name": "web_search"}, WEB_SEARCH),
        (MESSAGES, {"type": "web_fetch_20250910", "name": "web_fetch"}, "router:web_fetch"),
        (RESPONSES, SPACE, "router:web_fetch"),
    ],
)
def test_a_whole_request_that_names_one_is_refused(
    bodies: Bodies, tool: dict[str, Any], disabled: str
) -> None:
    one = Caller(1, "h", False, uuid4(), uuid4(), "user_1", False, False, None, "")
    caller = replace(one, disabled_server_tools=frozenset({disabled}))
    with pytest.raises(ToolDisabled, match=disabled):
        resolve(bodies.parse_fields(tools=[tool]), caller)
