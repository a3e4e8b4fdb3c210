"""All the ways to ask for the web: plugins, suffixes, shorthands, providers' own tools, clients."""

import json
from typing import Any

import pytest
from anthropic import Anthropic
from openai import OpenAI

from tests.conformance.test_management_rows_presets import make_ok
from tests.conformance.web import FETCH, LINK, SEARCH, WebDesk, fetch, search

NATIVE: dict[str, Any] = {"type": "web_search_20250305", "name": "web_search", "max_uses": 2}
ONLINE = "acme/over-openai:online"


def test_all_spellings_of_searching(web: WebDesk) -> None:
    plugin = {"id": "web", "max_results": 2, "search_prompt": "Cite well."}
    make_ok(web.desk, "/seeking/chat/completions", {"model": ONLINE[:-7], "plugins": [plugin]})
    for asked in (
        {"plugins": [plugin]},
        {"model": "@preset/seeking"},
        {"model": ONLINE},
        {"tools": [{"type": "web_search_preview", "max_results": 2}]},
        {"tools": [{"type": "web_search", "parameters": {"engine": "auto"}}]},
    ):
        web.desk.upstream.clear()
        web.script(search(), {"text": LINK})

        said, raw, _ = web.answer("chat", **asked)

        assert said.text == LINK
        assert raw["usage"]["server_tool_use_details"]["web_search_requests"] == 1
        first, second = web.list_sent_bodies()
        assert [tool["function"]["name"] for tool in first["tools"]] == ["web_search"]
        told = json.loads(second["messages"][-1]["content"])
        by_plugin = "plugins" in asked or asked.get("model") == "@preset/seeking"
        assert told.get("instructions") == ("Cite well." if by_plugin else None)


# --- Searches of a provider's own -----------------------------------------------------------------


@pytest.mark.parametrize("kind", ["openai", "responses"])
def test_where_no_provider_searches_the_gateway_does(web: WebDesk, kind: str) -> None:
    for stream in (False, True):
        web.script(search(), {"text": LINK}, kind=kind)

        said, _, _ = web.answer("messages", kind=kind, stream=stream, tools=[NATIVE])

        assert said.text == LINK
        kinds = [block["type"] for block in said.native[0]["content"]]
        assert kinds == ["server_tool_use", "web_search_tool_result", "text"]


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
    (sent,) = web.list_sent_bodies()
    assert sent["tools"] == [tool]
    assert web.engine.asked == []


# --- Official clients -----------------------------------------------------------------------------


MESSAGES: Any = [{"role": "user", "content": "Hello"}]


def test_the_openai_client_reads_citations(web: WebDesk) -> None:
    key, url = web.desk.account.api_key, web.desk.server.base_url
    asked: Any = {"model": "acme/over-openai", "tools": [SEARCH]}
    web.script(*(search(), {"text": LINK}) * 2)
    with OpenAI(api_key=key, base_url=url, max_retries=0, timeout=20) as client:
        chat = client.chat.completions.create(messages=MESSAGES, **asked)
        answer = client.responses.create(input="Hello", **asked)

    annotations: Any = chat.choices[0].message.annotations
    (annotation,) = annotations
    assert annotation.url_citation.url == "https://one.example/a"
    assert answer.output_text == LINK
    message: Any = answer.output[-1]
    assert message.content[0].annotations[0].url == "https://one.example/a"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_the_anthropic_client_reads_results(web: WebDesk, stream: bool) -> None:
    key, url = web.desk.account.api_key, f"{web.desk.server.root_url}/api"
    web.script(search(), fetch(f"{web.site.url}/page"), {"text": LINK})
    asked: Any = {"model": "acme/over-openai", "max_tokens": 100, "messages": MESSAGES}
    asked["tools"] = [NATIVE, FETCH]
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
    used = message.usage.server_tool_use
    assert (used.web_search_requests, used.web_fetch_requests) == (1, 1)
