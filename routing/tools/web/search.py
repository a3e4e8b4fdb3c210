"""`router:web_search`: the search engine that the operator chose."""

import time
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

from gateway.http.jsonio import JsonObject
from gateway.live_settings import settings
from routing.tools.interface import Definition, Result, ToolContext
from routing.tools.texts import json_text
from routing.tools.web.calls import UseCounter, WebFailed, build_web_failure
from routing.tools.web.domains import Domains
from routing.tools.web.engines import (
    ENGINES,
    EngineRequest,
    SearchEngine,
    SearchQuery,
    SearchResult,
    country_code,
)

RESULTS_DEFAULT: Final = 5
RESULTS_MAX: Final = 25
TOTAL_RESULTS_DEFAULT: Final = 50
QUERY_CHARS_MAX: Final = 400
# Characters of text given of each result.
CHARS_BY_SIZE: Final = {"low": 500, "medium": 1_500, "high": 5_000}
_BLOCK: Final = "web_search_tool_result"
_CITED_CHARS: Final = 300
_DEPTHS: Final = {
    **dict.fromkeys(("instant", "fast", "turbo"), "fast"),
    **dict.fromkeys(("deep-lite", "deep", "deep-reasoning", "advanced"), "deep"),
}
_DEFINITION: Final = Definition(
    "web_search",
    "Searches the web and returns titles, URLs and texts of the pages found. Cite the pages that "
    "you use as Markdown links to their URLs.",
    {
        "type": "object",
        "properties": {"query": {"type": "string", "description": "What to look for."}},
        "required": ["query"],
        "additionalProperties": False,
    },
)


class WebSearch:
    """Searches within the caller's domains. The model gets `search_prompt` beside what is found."""

    time_s: float | None = None
    definition = _DEFINITION

    def __init__(self, parameters: JsonObject) -> None:
        self._most = min(int(parameters.get("max_results", RESULTS_DEFAULT)), RESULTS_MAX)
        self._uses = UseCounter(parameters.get("max_uses"))
        self._total = UseCounter(parameters.get("max_total_results", TOTAL_RESULTS_DEFAULT))
        size = CHARS_BY_SIZE[parameters.get("search_context_size", "medium")]
        self._chars = int(parameters.get("max_characters", size))
        self._depth = _DEPTHS.get(parameters.get("mode", ""), "auto")
        self._country = country_code(parameters.get("user_location"))
        self._domains = Domains(
            parameters.get("allowed_domains"), parameters.get("excluded_domains")
        )
        self._prompt = parameters.get("search_prompt")

    @staticmethod
    def is_available(parameters: JsonObject) -> bool:
        """Whether there is an engine, and the caller wants no other one."""
        engine = configured_engine()
        return engine is not None and parameters.get("engine", "auto") in ("auto", engine.name)

    def run(self, arguments: JsonObject, context: ToolContext) -> Result:
        query = arguments.get("query")
        try:
            engine, found = self._search(query, context)
        except WebFailed as error:
            return build_web_failure(error, _BLOCK, _item(query if isinstance(query, str) else ""))
        return self._build_result(str(query), engine, found)

    def _search(
        self, query: object, context: ToolContext
    ) -> tuple[SearchEngine, list[SearchResult]]:
        engine = configured_engine()
        if not isinstance(query, str) or not query.strip():
            raise WebFailed("invalid_tool_input", "query must be a text")
        if len(query) > QUERY_CHARS_MAX:
            raise WebFailed("query_too_long", f"query is longer than {QUERY_CHARS_MAX} characters")
        if engine is None:
            raise WebFailed("unavailable", "There is no search engine")
        if not self._uses.take():
            raise WebFailed("max_uses_exceeded", "No more searches may be made for this request")
        most = self._total.take(self._most)
        if not most:
            raise WebFailed("max_uses_exceeded", "No more results may be had for this request")
        found: list[SearchResult] = []
        try:
            found = self._query_engine(engine, query.strip(), context)[:most]
        finally:
            self._total.give_back(most - len(found))
        return engine, found

    def _query_engine(
        self, engine: SearchEngine, query: str, context: ToolContext
    ) -> list[SearchResult]:
        wish = SearchQuery(
            query,
            self._most,
            self._chars,
            self._depth,
            [each.host for each in self._domains.allowed],
            [each.host for each in self._domains.blocked if not each.paths.split],
            self._country,
        )
        left_s = context.deadline - time.monotonic()
        timeout_s = min(left_s, float(settings.ROUTER_SEARCH_TIMEOUT))
        sent = engine.request(wish, settings.ROUTER_SEARCH_KEY)
        answer = ask_engine(engine, sent, timeout_s=timeout_s)
        # Each page once, whatever the engine makes of the lists.
        pages: dict[str, SearchResult] = {}
        for each in engine.results(answer):
            if each.url and each.url not in pages and self._domains.permit_url(each.url):
                pages[each.url] = each._replace(text=each.text[: self._chars])
        return list(pages.values())

    def _build_result(
        self, query: str, engine: SearchEngine, found: Sequence[SearchResult]
    ) -> Result:
        results, blocks, annotations = list[JsonObject](), list[JsonObject](), list[JsonObject]()
        for each in found:
            row: JsonObject = {"title": each.title, "url": each.url, "text": each.text}
            results.append(row | ({"published": each.age} if each.age else {}))
            block = {"type": "web_search_result", "url": each.url, "title": each.title}
            blocks.append({**block, "encrypted_content": "", "page_age": each.age})
            cited: JsonObject = {"url": each.url, "title": each.title}
            cited["content"] = each.text[:_CITED_CHARS]
            # Its place in the answer is not known yet.
            cited |= {"start_index": 0, "end_index": 0}
            annotations.append({"type": "url_citation", "url_citation": cited})
        content: JsonObject = {"query": query, "results": results}
        if self._prompt:
            content = {"instructions": self._prompt, **content}
        return Result(
            json_text(content),
            item=_item(query, found),
            block_type=_BLOCK,
            block=blocks,
            annotations=annotations,
            web_searches=1,
            search_results=len(found),
            search_engine=engine.name,
        )


def _item(query: str, found: Sequence[SearchResult] = ()) -> JsonObject:
    sources = [{"type": "url", "url": each.url} for each in found]
    return {"action": {"type": "search", "query": query, "sources": sources}}


_CLIENT: Final = "routing.tools.web.search_client"


def configured_engine() -> SearchEngine | None:
    """The engine that the operator chose."""
    return ENGINES.get(settings.ROUTER_SEARCH_ENGINE)


def load_search_client() -> None:
    """Load what asks the engine, before there are requests."""
    if configured_engine() is not None:
        import_module(_CLIENT)


def ask_engine(engine: SearchEngine, sent: EngineRequest, *, timeout_s: float) -> Any:
    """What the engine says to a request, as JSON. Raises `WebFailed`."""
    return import_module(_CLIENT).ask_engine(engine, sent, timeout_s=timeout_s)
