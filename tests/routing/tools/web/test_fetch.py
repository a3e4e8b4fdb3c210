"""`router:web_fetch`: pages of a site as models read them."""

import json
import time
from typing import Any
from urllib.parse import quote

import pytest

from routing.fetching.files import NO_TEXT
from routing.tools.registry import missing
from routing.tools.web.fetch import WebFetch
from tests.routing.tools.made import context
from tests.support.promptness import in_time
from tests.support.web_site import WebSite


def fetch(url: Any, tool: WebFetch | None = None, **given: Any) -> Any:
    return (tool or WebFetch(given)).run({"url": url}, context())


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
    assert (told["url"], told["title"]) == (f"{site.url}/page", "On cats")
    assert told["retrieved_at"] == "2026-03-01T12:00:00+00:00"
    assert "Paragraph 11 of the article tells of cats" in told["content"]
    assert "[more of them](" in told["content"]
    assert not any(word in told["content"] for word in ("alert", "Imprint", "<p>"))
    assert (result.failed, result.fetches, "cut" in told) == (False, 1, False)


def test_what_each_format_shows_of_it(site: WebSite) -> None:
    url = f"{site.url}/plain"
    result = fetch(url)

    assert result.item == {
        "url": url,
        "title": None,
        "content": "Grüße",
        "httpStatus": 200,
        "error": None,
    }
    assert result.block == {
        "type": "web_fetch_result",
        "url": url,
        "retrieved_at": "2026-03-01T12:00:00+00:00",
        "content": {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "Grüße"},
            "title": None,
            "citations": None,
        },
    }


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
    assert json.loads(fetch(site.url + path).text)["content"] == content


def test_a_page_without_a_type_is_looked_at(site: WebSite) -> None:
    assert json.loads(fetch(f"{site.url}/unnamed").text)["title"] == "On cats"


def test_redirects_are_followed_and_told(site: WebSite) -> None:
    told = json.loads(fetch(f"{site.url}/to?url=/to%3Furl=/plain").text)
    assert told["url"] == f"{site.url}/plain"
    assert len(site.met) == 3


def test_tokens_are_bounded(site: WebSite) -> None:
    told = json.loads(fetch(f"{site.url}/page", max_content_tokens=5).text)
    assert (len(told["content"]), told["cut"]) == (20, True)


def test_a_long_page_is_cut_and_stays_json(site: WebSite, settings: Any) -> None:
    result = fetch(f"{site.url}/long")
    told = json.loads(result.text)
    assert told["cut"] is True
    assert 90_000 < len(result.text) <= settings.ROUTER_TOOL_RESULT_CHARS


@pytest.mark.parametrize("path", ["/huge", "/bomb"])
def test_no_more_is_read_than_the_operator_allows(site: WebSite, settings: Any, path: str) -> None:
    settings.ROUTER_FETCH_BYTES = 1024
    assert len(json.loads(fetch(site.url + path).text)["content"]) == 1024


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
    for name, value in limits.items():
        setattr(settings, name, value)
    # A beginning of it would say nothing.
    settings.ROUTER_FETCH_BYTES = 100
    told = json.loads(fetch(f"{site.url}/pdf", **given).text)
    assert (told["content"], told["cut"]) == ("On paper", True)


def test_a_pdf_that_is_too_large_is_not_read(site: WebSite, settings: Any) -> None:
    settings.ROUTER_FILE_BYTES = 100
    assert error_of(fetch(f"{site.url}/pdf")) == (
        "url_not_accessible",
        "The PDF is larger than 100 bytes",
    )


def test_uses_are_counted(site: WebSite) -> None:
    tool = WebFetch({"max_uses": 1})
    assert not fetch(f"{site.url}/plain", tool).failed
    assert error_of(fetch(f"{site.url}/plain", tool)) == (
        "max_uses_exceeded",
        "No more pages may be fetched for this request",
    )


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
    url = url.replace("{site}", site.url) if isinstance(url, str) else url
    result = fetch(url)
    found, text = error_of(result)
    assert found == code
    assert told in text
    assert "secret-detail" not in result.text


def test_what_the_site_said_is_in_the_item(site: WebSite) -> None:
    assert fetch(f"{site.url}/gone").item["httpStatus"] == 404
    assert fetch("http://127.0.0.1:1024/").item["httpStatus"] is None


def test_a_chain_of_redirects_has_an_end(site: WebSite) -> None:
    url = "/plain"
    for _ in range(6):
        url = f"{site.url}/to?url={quote(url, safe='')}"
    assert error_of(fetch(url)) == ("url_not_accessible", "More than 5 redirects")


def test_a_site_that_says_nothing(site: WebSite, settings: Any) -> None:
    settings.ROUTER_TOOL_TIMEOUT = 0.4
    began = time.monotonic()
    assert error_of(fetch(f"{site.url}/silent")) == ("url_not_accessible", "The site took too long")
    in_time(time.monotonic() - began, 3)


@pytest.mark.parametrize(
    "lists", [{"allowed_domains": ["example.com"]}, {"blocked_domains": ["127.0.0.1"]}]
)
def test_domains_hold(site: WebSite, lists: dict[str, Any]) -> None:
    code, told = error_of(fetch(f"{site.url}/plain", **lists))
    assert (code, told) == ("url_not_allowed", "127.0.0.1 is not among the allowed domains")
    assert site.met == []


def test_domains_hold_for_redirects_too(site: WebSite) -> None:
    allowed: dict[str, Any] = {"allowed_domains": ["127.0.0.1/to", "127.0.0.1/json"]}
    assert error_of(fetch(f"{site.url}/to?url=/plain", **allowed))[0] == "url_not_allowed"
    assert not fetch(f"{site.url}/to?url=/json", **allowed).failed
    assert "/plain" not in site.met


@pytest.mark.parametrize("engine", ["native", "exa", "parallel", "firecrawl"])
def test_other_engines_are_not_here(engine: str) -> None:
    tool = {"type": "router:web_fetch", "parameters": {"engine": engine}}
    assert missing([tool]) == ["router:web_fetch"]
    for own in ("auto", "router"):
        assert missing([{"type": "router:web_fetch", "parameters": {"engine": own}}]) == []
