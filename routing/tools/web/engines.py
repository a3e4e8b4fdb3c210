"""Search engines that the operator may choose among: how each is asked, and how its answer is read.

No I/O happens here. Answers are somebody else's: what is odd in one is left out.
"""

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import urlsplit

from gateway.http.jsonio import JsonObject

TITLE_CHARS_MAX: Final = 300
URL_CHARS_MAX: Final = 2_048
_TAG: Final = re.compile(r"</?[a-zA-Z][^<>]{0,200}>")
_COUNTRY: Final = re.compile(r"[A-Za-z]{2}")


class SearchQuery(NamedTuple):
    """One search. `chars` of text are wanted of each of the `results`; `depth` is "fast", "auto" or
    "deep"; `country` two letters, or empty."""

    query: str
    results: int
    chars: int
    depth: str = "auto"
    allowed: Sequence[str] = ()
    excluded: Sequence[str] = ()
    country: str = ""


class EngineRequest(NamedTuple):
    """A request below the engine's base URL; with `json` it is a POST."""

    path: str
    headers: Mapping[str, str]
    params: Mapping[str, str] = {}
    json: Mapping[str, Any] | None = None


class SearchResult(NamedTuple):
    """One result; `age` is when the page was published, as the engine says it."""

    url: str
    title: str
    text: str
    age: str | None


class SearchEngine(Protocol):
    """`url` is the base URL where the operator names none; empty: one must be named."""

    name: str
    url: str
    needs_key: bool

    def request(self, wish: SearchQuery, key: str) -> EngineRequest: ...

    def results(self, answer: object) -> Iterator[SearchResult]:
        """In the engine's order."""


class SearXNG:
    """https://docs.searxng.org/dev/search_api.html; the instance must allow the format `json`."""

    name, url, needs_key = "searxng", "", False

    def request(self, wish: SearchQuery, key: str) -> EngineRequest:
        # The instance itself knows no keys; what stands before it may.
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return EngineRequest("/search", headers, {"q": _with_sites(wish), "format": "json"})

    def results(self, answer: object) -> Iterator[SearchResult]:
        for each in _objects(answer, "results"):
            yield _build_result(each, text=_text(each, "content"), age=_text(each, "publishedDate"))


class Brave:
    """https://api-dashboard.search.brave.com/app/documentation/web-search"""

    name, url, needs_key = "brave", "https://api.search.brave.com/res/v1", True
    _RESULTS_MAX: Final = 20

    def request(self, wish: SearchQuery, key: str) -> EngineRequest:
        params = {"q": _with_sites(wish), "count": str(min(wish.results, self._RESULTS_MAX))}
        if wish.country:
            params["country"] = wish.country.upper()
        return EngineRequest("/web/search", {"X-Subscription-Token": key}, params)

    def results(self, answer: object) -> Iterator[SearchResult]:
        for each in _objects(_inner(answer, "web"), "results"):
            snippets = each.get("extra_snippets")
            more = [text for text in snippets if isinstance(text, str)] if snippets else []
            text = "\n".join([_text(each, "description"), *more])
            yield _build_result(each, text=text, age=_text(each, "page_age") or _text(each, "age"))


class Tavily:
    """https://docs.tavily.com/documentation/api-reference/endpoint/search"""

    name, url, needs_key = "tavily", "https://api.tavily.com", True
    _RESULTS_MAX: Final = 20

    def request(self, wish: SearchQuery, key: str) -> EngineRequest:
        asked: JsonObject = {
            "query": wish.query,
            "max_results": min(wish.results, self._RESULTS_MAX),
            "search_depth": "advanced" if wish.depth == "deep" else "basic",
        }
        if wish.allowed:
            asked["include_domains"] = list(wish.allowed)
        if wish.excluded:
            asked["exclude_domains"] = list(wish.excluded)
        return EngineRequest("/search", {"Authorization": f"Bearer {key}"}, json=asked)

    def results(self, answer: object) -> Iterator[SearchResult]:
        for each in _objects(answer, "results"):
            text = _text(each, "raw_content") or _text(each, "content")
            yield _build_result(each, text=text, age=_text(each, "published_date"))


class Exa:
    """https://docs.exa.ai/reference/search"""

    name, url, needs_key = "exa", "https://api.exa.ai", True
    _TYPES: Final = {"fast": "fast", "auto": "auto", "deep": "deep"}

    def request(self, wish: SearchQuery, key: str) -> EngineRequest:
        asked: JsonObject = {
            "query": wish.query,
            "numResults": wish.results,
            "type": self._TYPES[wish.depth],
            "contents": {"text": {"maxCharacters": wish.chars}},
        }
        if wish.allowed:
            asked["includeDomains"] = list(wish.allowed)
        if wish.excluded:
            asked["excludeDomains"] = list(wish.excluded)
        if wish.country:
            asked["userLocation"] = wish.country.upper()
        return EngineRequest("/search", {"x-api-key": key}, json=asked)

    def results(self, answer: object) -> Iterator[SearchResult]:
        for each in _objects(answer, "results"):
            marked = each.get("highlights")
            parts = [text for text in marked if isinstance(text, str)] if marked else []
            text = _text(each, "text") or _text(each, "summary") or "\n".join(parts)
            yield _build_result(each, text=text, age=_text(each, "publishedDate"))


ENGINES: Final[Mapping[str, SearchEngine]] = {
    engine.name: engine for engine in (SearXNG(), Brave(), Tavily(), Exa())
}


def country_code(location: Mapping[str, Any] | None) -> str:
    """The country of a `user_location` where it is two letters, as engines want it."""
    country = (location or {}).get("country") or ""
    return country if _COUNTRY.fullmatch(country) else ""


def _with_sites(wish: SearchQuery) -> str:
    """The query in the words of engines whose only place for domains it is."""
    wanted = " OR ".join(f"site:{domain}" for domain in wish.allowed)
    unwanted = [f"-site:{domain}" for domain in wish.excluded]
    return " ".join(filter(None, (wish.query, wanted, *unwanted)))


def _build_result(each: Mapping[str, Any], *, text: str, age: str) -> SearchResult:
    """Results without a URL of the web come with an empty one."""
    url = _text(each, "url").strip()
    try:
        is_web = urlsplit(url).scheme in ("http", "https") and bool(urlsplit(url).hostname)
    except ValueError:
        is_web = False
    url = url if is_web and len(url) <= URL_CHARS_MAX and url.isprintable() else ""
    title = " ".join(_plain(_text(each, "title")).split())[:TITLE_CHARS_MAX]
    return SearchResult(url, title, _plain(text).strip(), age or None)


def _plain(text: str) -> str:
    """Without the tags in which engines mark the words that were looked for."""
    return html.unescape(_TAG.sub("", text)).replace("\0", "")


def _inner(value: object, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _objects(value: object, name: str) -> Iterator[JsonObject]:
    found = _inner(value, name)
    return (
        (each for each in found if isinstance(each, dict)) if isinstance(found, list) else iter(())
    )


def _text(value: Mapping[str, Any], name: str) -> str:
    found = value.get(name)
    return found if isinstance(found, str) else ""
