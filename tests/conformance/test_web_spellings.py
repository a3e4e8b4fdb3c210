"""All the ways to ask for the web: plugins, suffixes, shorthands, providers' own tools, clients."""

import json
from decimal import Decimal
from typing import Any

import pytest
from anthropic import Anthropic
from openai import OpenAI

from tests.conformance.web import FETCH, LINK, SEARCH, WebDesk, fetch, search

STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
FORMATS = pytest.mark.parametrize("format", ["chat", "messages", "responses"])
NATIVE: dict[str, Any] = {"type": "web_search_20250305", "name": "web_search", "max_uses": 2}


@pytest.mark.parametrize(
    "asked",
    [
        {"plugins": [{"id": "web", "max_results": 2, "search_prompt": "Cite well."}]},
        {"model": "acme/over-openai:online"},
        {"tools": [{"type": "web_search_preview", "max_results": 2}]},
        {"tools": [{"type": "web_search", "parameters": {"engine": "auto"}}]},
    ],
)
def test_all_spellings_of_searching(web: WebDesk, asked: dict[str, Any]) -> None:
    web.script(search(), {"text": LINK})

    said, raw, _ = web.answer("chat", **asked)

    assert said.text == LINK
    assert raw["usage"]["server_tool_use_details"]["web_search_requests"] == 1
    first, second = web.sent()
    assert [tool["function"]["name"] for tool in first["tools"]] == ["web_search"]
    told = json.loads(second["messages"][-1]["content"])
    assert told.get("instructions") == ("Cite well." if "plugins" in asked else None)


@FORMATS
def test_plugins_in_every_format(web: WebDesk, format: str) -> None:
    web.script(search(), fetch(f"{web.site.url}/plain"), {"text": "Done."})
    plugins = [{"id": "web"}, {"id": "web-fetch", "max_uses": 1}]

    said, _, _ = web.answer(format, plugins=plugins)

    assert said.text == "Done."
    assert (len(web.engine.asked), web.site.met) == (1, ["/plain"])


def test_a_preset_carries_a_plugin(web: WebDesk) -> None:
    server, key = web.desk.server, web.desk.account.api_key
    path = "/api/v1/presets/seeking/chat/completions"
    body = {"model": "acme/over-openai", "plugins": [{"id": "web", "max_results": 1}]}
    made = server.post(path, key=key, json={**body, "messages": [{"role": "user", "content": "x"}]})
    assert made.status_code in (200, 201), made.text
    web.script(search(), {"text": LINK})

    said, raw, _ = web.answer("chat", model="@preset/seeking")

    assert said.text == LINK
    assert len(raw["choices"][0]["message"]["annotations"]) == 1


@pytest.mark.parametrize(
    ("tool", "asked"),
    [
        ("router:web_search", {"tools": [SEARCH]}),
        ("router:web_search", {"tools": [{"type": "web_search_2025_08_26"}]}),
        ("router:web_search", {"plugins": [{"id": "web"}]}),
        ("router:web_search", {"model": "acme/over-openai:online"}),
        ("router:web_fetch", {"tools": [FETCH]}),
        ("router:web_fetch", {"plugins": [{"id": "web-fetch"}]}),
    ],
)
def test_a_workspace_switches_it_off(web: WebDesk, tool: str, asked: dict[str, Any]) -> None:
    response = web.desk.server.request(
        "PATCH",
        "/api/v1/workspaces/main",
        key=web.desk.account.management_key,
        json={"disabled_server_tools": [tool]},
    )
    assert response.status_code == 200, response.text

    web.desk.server.wait_until(lambda: web.post("chat", **asked).status_code == 403, within_s=10)

    told = web.post("chat", **asked).json()["error"]["message"]
    assert told == f'Server tool "{tool}" is disabled in this workspace'
    assert web.sent() == web.engine.asked == []


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"tools": [{"type": "web_search", "engine": "exa"}]}, "router:web_search"),
        ({"plugins": [{"id": "web", "engine": "native"}]}, "web"),
        (
            {"tools": [{"type": "router:web_fetch", "parameters": {"engine": "exa"}}]},
            "router:web_fetch",
        ),
    ],
)
def test_engines_that_are_not_here_are_refused(
    web: WebDesk, asked: dict[str, Any], named: str
) -> None:
    response = web.post("chat", **asked)

    assert response.status_code == 400
    assert response.json()["error"]["message"] == f"server tool not available: {named}"
    assert web.sent() == []


@pytest.mark.parametrize(
    "asked",
    [
        {"tools": [{"type": "router:web_fetch", "parameters": {"blocked_domains": ["[::1]"]}}]},
        {"tools": [{"type": "web_search", "excluded_domains": ["[::1]"]}]},
        {"plugins": [{"id": "web", "include_domains": ["[::1]"]}]},
    ],
)
def test_what_is_no_domain_is_refused(web: WebDesk, asked: dict[str, Any]) -> None:
    response = web.post("chat", **asked)

    assert response.status_code == 400
    assert response.json()["error"]["message"] == "Not a domain: '[::1]'"
    assert web.sent() == []


# --- Searches of a provider's own -----------------------------------------------------------------


@STREAMED
@pytest.mark.parametrize("kind", ["openai", "responses"])
def test_where_no_provider_searches_the_gateway_does(web: WebDesk, kind: str, stream: bool) -> None:
    web.script(search(), {"text": LINK}, kind=kind)

    said, _, _ = web.answer("messages", kind=kind, stream=stream, tools=[NATIVE])

    assert said.text == LINK
    kinds = [block["type"] for block in said.native[0]["content"]]
    assert kinds == ["server_tool_use", "web_search_tool_result", "text"]


def test_responses_do_the_same(web: WebDesk) -> None:
    web.script(search(), {"text": LINK})
    tool = {"type": "web_search", "filters": {"allowed_domains": ["two.example"]}}

    said, _, _ = web.answer("responses", tools=[tool])

    (source,) = said.native[0]["action"]["sources"]
    assert source["url"] == "https://two.example/b"
    assert web.engine.asked[0].params["q"] == "cats site:two.example"


@pytest.mark.parametrize(
    ("format", "kind", "tool"),
    [("messages", "anthropic", NATIVE), ("responses", "responses", {"type": "web_search"})],
)
def test_a_provider_that_searches_does_it_itself(
    web: WebDesk, format: str, kind: str, tool: dict[str, Any]
) -> None:
    web.script({"text": "Found."}, kind=kind)

    said, _, _ = web.answer(format, kind=kind, tools=[tool])

    assert said.text == "Found."
    (sent,) = web.sent()
    assert sent["tools"] == [tool]
    assert web.engine.asked == []


def test_beside_tools_of_the_gateways_it_is_the_gateways_too(web: WebDesk) -> None:
    web.script(search(), {"text": LINK}, kind="anthropic")
    choice = {"type": "tool", "name": "web_search"}

    said, _, _ = web.answer(
        "messages",
        kind="anthropic",
        tools=[{"type": "router:datetime"}, NATIVE],
        tool_choice=choice,
    )

    assert said.text == LINK
    first, second = web.sent()
    assert [tool["name"] for tool in first["tools"]] == ["datetime", "web_search"]
    assert first["tool_choice"] == choice
    assert second["tool_choice"] == {"type": "auto"}


# --- Official clients -----------------------------------------------------------------------------


MESSAGES: Any = [{"role": "user", "content": "Hello"}]


def test_the_openai_client_reads_citations(web: WebDesk) -> None:
    key, url = web.desk.account.api_key, web.desk.server.base_url
    tools: Any = [SEARCH]
    with OpenAI(api_key=key, base_url=url, max_retries=0, timeout=20) as client:
        web.script(search(), {"text": LINK})
        chat = client.chat.completions.create(
            model="acme/over-openai", messages=MESSAGES, tools=tools
        )
        web.script(search(), {"text": LINK})
        answer = client.responses.create(model="acme/over-openai", input="Hello", tools=tools)

    annotations: Any = chat.choices[0].message.annotations
    (annotation,) = annotations
    assert annotation.url_citation.url == "https://one.example/a"
    assert answer.output_text == LINK
    message: Any = answer.output[-1]
    assert message.content[0].annotations[0].url == "https://one.example/a"


@STREAMED
def test_the_anthropic_client_reads_results(web: WebDesk, stream: bool) -> None:
    key, url = web.desk.account.api_key, f"{web.desk.server.root_url}/api"
    web.script(search(), fetch(f"{web.site.url}/page"), {"text": LINK})
    asked: Any = {
        "model": "acme/over-openai",
        "max_tokens": 100,
        "messages": MESSAGES,
        "tools": [NATIVE, {"type": "router:web_fetch"}],
    }
    with Anthropic(api_key=key, base_url=url, max_retries=0, timeout=20) as client:
        if stream:
            with client.messages.stream(**asked) as events:
                message: Any = events.get_final_message()
        else:
            message = client.messages.create(**asked)

    _, found, _, fetched, text = message.content
    assert [result.url for result in found.content][:1] == ["https://one.example/a"]
    assert fetched.content.content.title == "On cats"
    assert text.citations[0].url == "https://one.example/a"
    assert message.usage.server_tool_use.web_search_requests == 1
    assert message.usage.server_tool_use.web_fetch_requests == 1


def test_the_price_of_a_search_is_the_endpoints(web: WebDesk) -> None:
    web.script(search(), search(), {"text": LINK})

    _, raw, _ = web.answer("chat", tools=[SEARCH])

    assert raw["usage"]["cost"] >= Decimal("0.01")
    assert raw["usage"]["server_tool_use_details"]["web_search_requests"] == 2
