"""`router:web_fetch`: pages of a site as models read them."""

import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from gateway.outbound import doors
from routing.fetching import pages
from routing.fetching.files import NO_TEXT
from routing.tools.registry import list_missing
from routing.tools.web.fetch import WebFetch
from tests.routing.tools.made import context
from tests.support.promptness import in_time
from tests.support.web_site import WebSite, serve_web_site

NOON = "2026-03-01T12:00:00+00:00"


@pytest.fixture(scope="module")
def running_web_site() -> Iterator[WebSite]:
    with serve_web_site() as site:
        yield site
    for private in ((), ("any",)):
        doors.door_for("any", private=private).close_idle()
    pages.end_readers()


@pytest.fixture
def site(running_web_site: WebSite, settings: Any) -> WebSite:
    """A site of the web on this machine, which the operator let the tool reach."""
    settings.ROUTER_FETCH_PRIVATE_HOSTS = frozenset({"127.0.0.1"})
    running_web_site.met.clear()
    return running_web_site


def fetch(url: Any, tool: WebFetch | None = None, **given: Any) -> Any:
    return (tool or WebFetch(given)).run({"url": url}, context())


def told_of(url: str, **given: Any) -> Any:
    return json.loads(fetch(url, **given).text)


def error_of(result: Any) -> tuple[str, str]:
    assert result.failed
    assert result.block_type == "web_fetch_tool_result"
    assert result.block["type"] == "web_fetch_tool_result_error"
    told = json.loads(result.text)["error"]
    assert result.item["error"] == told
    assert result.fetches == 0
    return result.block["error_code"], told


def test_a_page_is_its_article_with_its_links(site: WebSite) -> None:
    result = fetch(f"{site.url}/page")
    told = json.loads(result.text)
    content = told.pop("content")
    assert told == {"url": f"{site.url}/page", "title": "On cats", "retrieved_at": NOON}
    assert "Paragraph 11 of the article tells of cats" in content
    assert "[more of them](" in content
    assert not any(word in content for word in ("alert", "Imprint", "<p>"))
    assert (result.failed, result.fetches) == (False, 1)


def test_what_each_format_shows_of_it(site: WebSite) -> None:
    url = f"{site.url}/plain"
    result = fetch(url)
    page = {"url": url, "title": None, "content": "Grüße"}
    assert result.item == {**page, "httpStatus": 200, "error": None}
    source = {"type": "text", "media_type": "text/plain", "data": "Grüße"}
    document = {"type": "document", "source": source, "title": None, "citations": None}
    shown = {"url": url, "retrieved_at": NOON, "content": document}
    assert result.block == {"type": "web_fetch_result", **shown}
    assert fetch(f"{site.url}/gone").item["httpStatus"] == 404
    assert fetch("http://127.0.0.1:1024/").item["httpStatus"] is None


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("/short", "Few words."),
        ("/latin", "Grüße"),
        ("/meta", "Grüße"),
        ("/json", '{"a": 1}'),
        ("/odd-charset", "words"),
        ("/punycode", "words-"),
        ("/empty", ""),
        ("/pdf", "On paper\n\nand its back"),
        ("/download", "On paper\n\nand its back"),
        ("/scan", NO_TEXT),
    ],
)
def test_pages_of_many_kinds(site: WebSite, path: str, content: str) -> None:
    assert told_of(site.url + path)["content"] == content


def test_a_page_without_a_type_is_looked_at(site: WebSite) -> None:
    assert told_of(f"{site.url}/unnamed")["title"] == "On cats"


def test_redirects_are_followed_and_told_to_an_end(site: WebSite) -> None:
    assert told_of(f"{site.url}/to?url=/to%3Furl=/plain")["url"] == f"{site.url}/plain"
    assert len(site.met) == 3
    url = "/plain"
    for _ in range(6):
        url = f"{site.url}/to?url={quote(url, safe='')}"
    assert error_of(fetch(url)) == ("url_not_accessible", "More than 5 redirects")


def test_a_page_is_cut_at_the_tokens_wished_and_stays_json(site: WebSite, settings: Any) -> None:
    told = told_of(f"{site.url}/page", max_content_tokens=5)
    assert (len(told["content"]), told["cut"]) == (20, True)
    result = fetch(f"{site.url}/long")
    assert json.loads(result.text)["cut"] is True
    assert 90_000 < len(result.text) <= settings.ROUTER_TOOL_RESULT_CHARS


def test_no_more_is_read_than_the_operator_allows(site: WebSite, settings: Any) -> None:
    settings.ROUTER_FETCH_BYTES = 1024
    for path in ("/huge", "/bomb"):
        assert len(told_of(site.url + path)["content"]) == 1024


@pytest.mark.parametrize(
    ("limits", "given"),
    [
        ({"ROUTER_FILE_PAGES": 1}, {}),
        ({"ROUTER_TOOL_RESULT_CHARS": 100}, {"max_content_tokens": 2}),
    ],
)
def test_of_a_pdf_only_so_much_is_read(
    site: WebSite, settings: Any, limits: dict[str, int], given: dict[str, Any]
) -> None:
    # A beginning of it would say nothing.
    for name, value in {**limits, "ROUTER_FETCH_BYTES": 100}.items():
        setattr(settings, name, value)
    told = told_of(f"{site.url}/pdf", **given)
    assert (told["content"], told["cut"]) == ("On paper", True)


def test_a_pdf_that_is_too_large_is_not_read(site: WebSite, settings: Any) -> None:
    settings.ROUTER_FILE_BYTES = 100
    told = ("url_not_accessible", "The PDF is larger than 100 bytes")
    assert error_of(fetch(f"{site.url}/pdf")) == told


def test_uses_are_counted(site: WebSite) -> None:
    tool = WebFetch({"max_uses": 1})
    assert not fetch(f"{site.url}/plain", tool).failed
    told = ("max_uses_exceeded", "No more pages may be fetched for this request")
    assert error_of(fetch(f"{site.url}/plain", tool)) == told


@pytest.mark.parametrize(
    ("url", "code", "told"),
    [
        (None, "invalid_tool_input", "url must be a text"),
        ("", "invalid_tool_input", "url must be a text"),
        ("http://a.example/" + "x" * 8200, "url_too_long", "url is longer than 8192 characters"),
        ("file:///etc/passwd", "url_not_allowed", "http:// or https://"),
        ("ftp://127.0.0.1/", "url_not_allowed", "http:// or https://"),
        ("http://a:b@127.0.0.1/", "url_not_allowed", "a URL holds no credentials"),
        ("http://127.0.0.1:25/", "url_not_allowed", "Port 25 is not one of the web's"),
        ("{site}/gone", "url_not_accessible", "The site answered with status 404"),
        ("{site}/broken", "url_not_accessible", "The site answered with status 500"),
        ("{site}/busy", "too_many_requests", "The site answered with status 429"),
        ("{site}/picture", "unsupported_content_type", "The page is no text but image/png"),
        ("{site}/locked", "unavailable", "The PDF cannot be read: it is encrypted"),
        ("{site}/no-pdf", "unavailable", "The PDF cannot be read: it is no PDF"),
        ("{site}/null", "unsupported_content_type", "The page is no text but text/plain"),
        ("{site}/to?url=file:///etc/passwd", "url_not_allowed", "http:// or https://"),
        ("http://127.0.0.1:1024/", "url_not_accessible", "The site failed"),
        ("http://nowhere.invalid/", "url_not_accessible", "The site failed"),
    ],
)
def test_what_cannot_be_fetched_is_told(site: WebSite, url: Any, code: str, told: str) -> None:
    result = fetch(url.replace("{site}", site.url) if isinstance(url, str) else url)
    found, text = error_of(result)
    assert found == code
    assert told in text
    assert "secret-detail" not in result.text


def test_a_site_that_says_nothing(site: WebSite, settings: Any) -> None:
    settings.ROUTER_TOOL_TIMEOUT = 0.4
    began = time.monotonic()
    assert error_of(fetch(f"{site.url}/silent")) == ("url_not_accessible", "The site took too long")
    in_time(time.monotonic() - began, 3)


def test_domains_hold_and_for_redirects_too(site: WebSite) -> None:
    told = ("url_not_allowed", "127.0.0.1 is not among the allowed domains")
    for name, host in (("allowed_domains", "example.com"), ("blocked_domains", "127.0.0.1")):
        lists: dict[str, Any] = {name: [host]}
        assert error_of(fetch(f"{site.url}/plain", **lists)) == told
    assert site.met == []
    allowed: dict[str, Any] = {"allowed_domains": ["127.0.0.1/to", "127.0.0.1/json"]}
    assert error_of(fetch(f"{site.url}/to?url=/plain", **allowed))[0] == "url_not_allowed"
    assert not fetch(f"{site.url}/to?url=/json", **allowed).failed
    assert "/plain" not in site.met


@pytest.mark.parametrize(
    ("engine", "lacking"),
    [
        *((each, ["router:web_fetch"]) for each in ("native", "exa", "parallel", "firecrawl")),
        *((each, []) for each in ("auto", "router")),
    ],
)
def test_other_engines_are_not_here(engine: str, lacking: list[str]) -> None:
    assert list_missing([{"type": "router:web_fetch", "parameters": {"engine": engine}}]) == lacking
