"""`router:web_search` at an engine of each kind, and at one that misbehaves."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import override_settings

from routing.tools.registry import missing
from routing.tools.web.search import WebSearch
from tests.routing.tools.made import context
from tests.support.promptness import in_time
from tests.support.search_engine import AGE, SearchEngine, serve_search_engine

KEY = "canary-key"
ENGINES = ["searxng", "brave", "tavily", "exa"]


@pytest.fixture(scope="module")
def running_engine() -> Iterator[SearchEngine]:
    with serve_search_engine() as engine:
        yield engine


@pytest.fixture
def engine(running_engine: SearchEngine) -> Iterator[SearchEngine]:
    running_engine.asked.clear()
    with chosen("searxng", running_engine.url):
        yield running_engine


def chosen(name: str, url: str, **more: Any) -> Any:
    given = {"ROUTER_SEARCH_ENGINE": name, "ROUTER_SEARCH_URL": url, "ROUTER_SEARCH_KEY": KEY}
    return override_settings(**(given | more))


def search(tool: WebSearch | None = None, query: Any = "cats", **given: Any) -> Any:
    return (tool or WebSearch(given)).run({"query": query}, context())


@pytest.mark.parametrize("name", ENGINES)
def test_every_engine_is_asked_in_its_way_and_read_alike(
    running_engine: SearchEngine, name: str
) -> None:
    running_engine.asked.clear()
    with chosen(name, running_engine.url):
        result = search(max_results=2)

    told = json.loads(result.text)
    assert told == {
        "query": "cats",
        "results": [
            {
                "title": "One & only",
                "url": "https://one.example/a",
                "text": "The first page & more.",
                "published": AGE,
            },
            {
                "title": "Two",
                "url": "https://two.example/b",
                "text": "The second page.",
                "published": AGE,
            },
        ],
    }
    assert (result.web_searches, result.search_results, result.search_engine) == (1, 2, name)
    assert [asked.query for asked in running_engine.asked] == ["cats"]
    assert KEY not in result.text


def test_what_each_format_shows_of_it(engine: SearchEngine) -> None:
    result = search(max_results=1)

    source = {"type": "url", "url": "https://one.example/a"}
    assert result.item == {"action": {"type": "search", "query": "cats", "sources": [source]}}
    assert result.block_type == "web_search_tool_result"
    assert result.block == [
        {
            "type": "web_search_result",
            "url": "https://one.example/a",
            "title": "One & only",
            "encrypted_content": "",
            "page_age": AGE,
        }
    ]
    (annotation,) = result.annotations
    assert annotation == {
        "type": "url_citation",
        "url_citation": {
            "url": "https://one.example/a",
            "title": "One & only",
            "content": "The first page & more.",
            "start_index": 0,
            "end_index": 0,
        },
    }


@pytest.mark.parametrize("name", ENGINES)
def test_domains_hold_whatever_the_engine_does(running_engine: SearchEngine, name: str) -> None:
    with chosen(name, running_engine.url):
        allowed = search(allowed_domains=["one.example"])
        excluded = search(excluded_domains=["one.example"])
    urls = [each["url"] for each in json.loads(allowed.text)["results"]]
    assert urls == ["https://one.example/a", "https://sub.one.example/c"]
    urls = [each["url"] for each in json.loads(excluded.text)["results"]]
    assert urls == ["https://two.example/b"]


def test_what_engines_are_told_of_the_wishes(running_engine: SearchEngine) -> None:
    wishes: dict[str, Any] = {
        "max_results": 25,
        "max_characters": 700,
        "mode": "deep",
        "allowed_domains": ["a.example", "b.example/path"],
        "user_location": {"type": "approximate", "country": "ch"},
    }
    asked = {}
    for name in ENGINES:
        running_engine.asked.clear()
        with chosen(name, running_engine.url):
            search(**wishes)
        (asked[name],) = running_engine.asked

    assert asked["searxng"].params["q"] == "cats site:a.example OR site:b.example"
    assert asked["searxng"].headers["authorization"] == f"Bearer {KEY}"
    assert (asked["brave"].params["count"], asked["brave"].params["country"]) == ("20", "CH")
    assert asked["tavily"].json == {
        "query": "cats",
        "max_results": 20,
        "search_depth": "advanced",
        "include_domains": ["a.example", "b.example"],
    }
    assert asked["exa"].json == {
        "query": "cats",
        "numResults": 25,
        "type": "deep",
        "contents": {"text": {"maxCharacters": 700}},
        "includeDomains": ["a.example", "b.example"],
        "userLocation": "CH",
    }


def test_a_searxng_without_a_key_is_sent_none(running_engine: SearchEngine) -> None:
    running_engine.asked.clear()
    with chosen("searxng", running_engine.url, ROUTER_SEARCH_KEY=""):
        search()
    assert "authorization" not in running_engine.asked[0].headers


def test_texts_are_as_long_as_was_wished(engine: SearchEngine) -> None:
    assert {len(each["text"]) for each in json.loads(search(max_characters=5).text)["results"]} == {
        5
    }


def test_a_prompt_of_the_callers_is_told_beside(engine: SearchEngine) -> None:
    told = json.loads(search(search_prompt="Cite well.").text)
    assert told["instructions"] == "Cite well."


def test_uses_and_results_are_counted_over_the_request(engine: SearchEngine) -> None:
    tool = WebSearch({"max_uses": 3, "max_results": 2, "max_total_results": 3})
    counts = [search(tool).search_results, search(tool).search_results]
    over = search(tool)
    assert counts == [2, 1]
    assert error_of(over) == ("max_uses_exceeded", "No more results may be had for this request")
    assert error_of(search(tool)) == (
        "max_uses_exceeded",
        "No more searches may be made for this request",
    )
    assert len(engine.asked) == 2


def test_results_that_were_not_got_are_not_counted(engine: SearchEngine) -> None:
    tool = WebSearch({"max_results": 2, "max_total_results": 2})
    assert search(tool, "odd").search_results == 0
    assert search(tool, "status 500").failed
    assert search(tool).search_results == 2


@pytest.mark.parametrize(
    ("query", "code", "told"),
    [
        (None, "invalid_tool_input", "query must be a text"),
        ("  ", "invalid_tool_input", "query must be a text"),
        (5, "invalid_tool_input", "query must be a text"),
        ("x" * 401, "query_too_long", "query is longer than 400 characters"),
        ("status 429", "too_many_requests", "The search engine answered with status 429"),
        ("status 302", "unavailable", "The search engine answered with status 302"),
        ("status 503", "unavailable", "The search engine answered with status 503"),
        ("html", "unavailable", "The search engine gave no answer"),
        ("huge", "unavailable", "The search engine failed"),
    ],
)
def test_what_goes_wrong_is_told_and_nothing_more(
    engine: SearchEngine, query: Any, code: str, told: str
) -> None:
    result = search(query=query)
    assert error_of(result) == (code, told)
    assert (result.web_searches, result.annotations) == (0, [])
    assert "secret-detail" not in result.text
    assert result.item["action"]["type"] == "search"


def error_of(result: Any) -> tuple[str, str]:
    assert result.failed
    assert result.block["type"] == "web_search_tool_result_error"
    return result.block["error_code"], json.loads(result.text)["error"]


@pytest.mark.parametrize("query", ["hang", "drip"])
def test_time_is_bounded(running_engine: SearchEngine, query: str) -> None:
    began = time.monotonic()
    with chosen("searxng", running_engine.url, ROUTER_SEARCH_TIMEOUT=0.3):
        result = search(query=query)
    assert error_of(result) == ("unavailable", "The search took too long")
    in_time(time.monotonic() - began, 3)


def test_an_engine_that_is_not_there(caplog: pytest.LogCaptureFixture) -> None:
    with chosen("searxng", "http://127.0.0.1:9/hidden-place"):
        result = search()
    assert error_of(result) == ("unavailable", "The search engine failed")
    assert "hidden-place" not in result.text + caplog.text


@pytest.mark.parametrize(
    ("engine_name", "wanted", "lacking"),
    [
        ("", "auto", True),
        ("searxng", "auto", False),
        ("searxng", "exa", True),
        ("searxng", "native", True),
        ("exa", "exa", False),
        ("exa", "auto", False),
        ("exa", "perplexity", True),
    ],
)
def test_an_engine_that_is_not_here_is_none(engine_name: str, wanted: str, lacking: bool) -> None:
    tools: list[dict[str, Any]] = [
        {"type": "router:web_search", "parameters": {"engine": wanted}},
        {"type": "web_search", "engine": wanted},
    ]
    with chosen(engine_name, ""):
        for tool in tools:
            assert missing([tool]) == (["router:web_search"] if lacking else [])
