"""`router:web_search` at an engine of each kind, and at one that misbehaves."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import override_settings

from routing.tools.registry import list_missing
from routing.tools.web.search import WebSearch
from tests.routing.tools.made import context
from tests.support.promptness import in_time
from tests.support.search_engine import AGE, SearchEngine, serve_search_engine

KEY = "canary-key"
ENGINES = ["searxng", "brave", "tavily", "exa"]
ONE, TWO = "https://one.example/a", "https://two.example/b"


@pytest.fixture(scope="module")
def running_engine() -> Iterator[SearchEngine]:
    with serve_search_engine() as engine:
        yield engine


@pytest.fixture
def engine(running_engine: SearchEngine) -> Iterator[SearchEngine]:
    running_engine.asked.clear()
    with override_engine("searxng", running_engine.url):
        yield running_engine


def override_engine(name: str, url: str, **more: Any) -> Any:
    given = {"ROUTER_SEARCH_ENGINE": name, "ROUTER_SEARCH_URL": url, "ROUTER_SEARCH_KEY": KEY}
    return override_settings(**(given | more))


def search(tool: WebSearch | None = None, query: Any = "cats", **given: Any) -> Any:
    return (tool or WebSearch(given)).run({"query": query}, context())


def results(**given: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(search(**given).text)["results"]
    return found


def error_of(result: Any) -> tuple[str, str]:
    assert result.failed
    assert result.block["type"] == "web_search_tool_result_error"
    return result.block["error_code"], json.loads(result.text)["error"]


@pytest.mark.parametrize("name", ENGINES)
def test_every_engine_is_asked_in_its_way_and_read_alike(
    running_engine: SearchEngine, name: str
) -> None:
    running_engine.asked.clear()
    with override_engine(name, running_engine.url):
        result = search(max_results=2)
        allowed = results(allowed_domains=["one.example"])
        excluded = results(excluded_domains=["one.example"])
    first = {"title": "One & only", "url": ONE, "text": "The first page & more."}
    second = {"title": "Two", "url": TWO, "text": "The second page."}
    found = [{**each, "published": AGE} for each in (first, second)]
    assert json.loads(result.text) == {"query": "cats", "results": found}
    assert (result.web_searches, result.search_results, result.search_engine) == (1, 2, name)
    assert running_engine.asked[0].query == "cats"
    assert len(running_engine.asked) == 3
    assert KEY not in result.text
    # Domains hold whatever the engine does.
    assert [each["url"] for each in allowed] == [ONE, "https://sub.one.example/c"]
    assert [each["url"] for each in excluded] == [TWO]


def test_what_each_format_shows_of_it(engine: SearchEngine) -> None:
    result = search(max_results=1)
    sources = [{"type": "url", "url": ONE}]
    assert result.item == {"action": {"type": "search", "query": "cats", "sources": sources}}
    assert result.block_type == "web_search_tool_result"
    page = {"url": ONE, "title": "One & only"}
    block = {"type": "web_search_result", **page, "encrypted_content": "", "page_age": AGE}
    assert result.block == [block]
    place = {"content": "The first page & more.", "start_index": 0, "end_index": 0}
    citation = {"type": "url_citation", "url_citation": {**page, **place}}
    assert list(result.annotations) == [citation]


def test_what_engines_are_told_of_the_wishes(running_engine: SearchEngine) -> None:
    wishes: dict[str, Any] = {
        "max_results": 25,
        "max_characters": 700,
        "mode": "deep",
        "allowed_domains": ["a.example", "b.example/path"],
        "user_location": {"type": "approximate", "country": "ch"},
    }
    running_engine.asked.clear()
    for name in ENGINES:
        with override_engine(name, running_engine.url):
            search(**wishes)
    with override_engine("searxng", running_engine.url, ROUTER_SEARCH_KEY=""):
        search()
    searxng, brave, tavily, exa, keyless = running_engine.asked
    assert searxng.params["q"] == "cats site:a.example OR site:b.example"
    assert searxng.headers["authorization"] == f"Bearer {KEY}"
    assert "authorization" not in keyless.headers
    assert (brave.params["count"], brave.params["country"]) == ("20", "CH")
    domains = ["a.example", "b.example"]
    depth = {"max_results": 20, "search_depth": "advanced", "include_domains": domains}
    assert tavily.json == {"query": "cats", **depth}
    assert exa.json == {
        "query": "cats",
        "numResults": 25,
        "type": "deep",
        "contents": {"text": {"maxCharacters": 700}},
        "includeDomains": domains,
        "userLocation": "CH",
    }


def test_texts_are_as_long_as_was_wished_and_a_prompt_is_told_beside(engine: SearchEngine) -> None:
    assert {len(each["text"]) for each in results(max_characters=5)} == {5}
    told = json.loads(search(search_prompt="Cite well.").text)
    assert told["instructions"] == "Cite well."


def test_uses_and_results_are_counted_over_the_request(engine: SearchEngine) -> None:
    tool = WebSearch({"max_uses": 3, "max_results": 2, "max_total_results": 3})
    assert [search(tool).search_results, search(tool).search_results] == [2, 1]
    for told in (
        "No more results may be had for this request",
        "No more searches may be made for this request",
    ):
        assert error_of(search(tool)) == ("max_uses_exceeded", told)
    assert len(engine.asked) == 2
    # Results that were not got are not counted.
    tool = WebSearch({"max_results": 2, "max_total_results": 2})
    assert search(tool, "odd").search_results == 0
    assert search(tool, "status 500").failed
    assert search(tool).search_results == 2


@pytest.mark.parametrize(
    ("query", "code", "told"),
    [
        *((odd, "invalid_tool_input", "query must be a text") for odd in (None, "  ", 5)),
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


@pytest.mark.parametrize("query", ["hang", "drip"])
def test_time_is_bounded(running_engine: SearchEngine, query: str) -> None:
    began = time.monotonic()
    with override_engine("searxng", running_engine.url, ROUTER_SEARCH_TIMEOUT=0.3):
        result = search(query=query)
    assert error_of(result) == ("unavailable", "The search took too long")
    in_time(time.monotonic() - began, 3)


def test_an_engine_that_is_not_there(caplog: pytest.LogCaptureFixture) -> None:
    with override_engine("searxng", "http://127.0.0.1:9/hidden-place"):
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
    own = {"type": "router:web_search", "parameters": {"engine": wanted}}
    with override_engine(engine_name, ""):
        for tool in (own, {"type": "web_search", "engine": wanted}):
            assert list_missing([tool]) == (["router:web_search"] if lacking else [])
