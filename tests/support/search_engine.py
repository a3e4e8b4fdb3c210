"""Search engines as a gateway meets them: SearXNG, Brave, Tavily and Exa, in their own shapes.

The query says what goes wrong: `hang`, `huge`, `drip`, `html`, `odd`, or `status 503`.
"""

import json
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.local_site import LocalSite, Running, SiteHandler

PAGES = [
    ("https://one.example/a", "One & <b>only</b>", "The <strong>first</strong> page &amp; more."),
    ("https://two.example/b", "Two", "The second page."),
    ("https://sub.one.example/c", "Three", "The third page."),
    ("https://one.example/a", "One again", "The same page."),
    ("javascript:alert(1)", "Four", "No page at all."),
]
AGE = "2026-02-03T04:05:06"


@dataclass
class Asked:
    """One search as it came."""

    method: str
    path: str
    params: dict[str, str]
    headers: dict[str, str]
    json: Any

    @property
    def query(self) -> str:
        """In whichever place the engine has it."""
        return str(self.params.get("q") or (self.json or {}).get("query") or "")


@dataclass
class SearchEngine(LocalSite):
    """`url` is the base URL; `asked` what came so far."""

    asked: list[Asked] = field(default_factory=list)


class _Handler(SiteHandler):
    site: SearchEngine

    def handle_one(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        asked = Asked(
            self.command,
            parts.path,
            {name: values[0] for name, values in parse_qs(parts.query).items()},
            {name.lower(): value for name, value in self.headers.items()},
            json.loads(body) if body else None,
        )
        self.site.asked.append(asked)
        self._answer(asked, asked.query.partition(" site:")[0])

    do_GET = do_POST = handle_one

    def _answer(self, asked: Asked, query: str) -> None:
        if query == "hang":
            self.silence()
        elif query == "drip":
            self._drip()
        elif query == "huge":
            self._say(b'{"results": "' + b"x" * 10_000_000 + b'"}')
        elif query == "html":
            self._say(b"<html>no</html>")
        elif query == "odd":
            self._say(json.dumps({"results": [1, None, {"url": 5}, {"title": "no"}]}).encode())
        elif query.startswith("status "):
            self._say(b"secret-detail", status=int(query.removeprefix("status ")))
        else:
            self._say(json.dumps(_results_body(asked)).encode())

    def _drip(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "100000")
        self.end_headers()
        self.close_connection = True
        until = time.monotonic() + 20
        try:
            while time.monotonic() < until and not self.site.let_go.is_set():
                self.wfile.write(b" ")
                self.site.let_go.wait(0.05)
        except OSError:
            pass

    def _say(self, body: bytes, *, status: int = 200) -> None:
        self.answer(body, status=status, Content_Type="application/json")


def _results_body(asked: Asked) -> dict[str, Any]:
    """By the paths and methods of the four; the key stands where each looks for it."""
    if asked.path == "/web/search":
        assert asked.headers["x-subscription-token"] == "canary-key"
        found = _results("description", "page_age")
        return {"type": "search", "web": {"type": "search", "results": found}}
    if asked.method == "GET":
        assert asked.params["format"] == "json"
        results = _results("content", "publishedDate", engine="e")
        return {"query": asked.query, "number_of_results": 5, "results": results, "answers": []}
    if "x-api-key" in asked.headers:
        assert asked.headers["x-api-key"] == "canary-key"
        found = _results("text", "publishedDate")
        return {"requestId": "r", "results": [{"id": each["url"], **each} for each in found]}
    assert asked.headers["authorization"] == "Bearer canary-key"
    results = _results("content", "published_date", score=0.5)
    return {"query": asked.query, "results": results, "response_time": 0.1}


def _results(text_name: str, date_name: str, **more: Any) -> list[dict[str, Any]]:
    """The pages, their text and date by the engine's own names."""
    return [
        {"url": url, "title": title, text_name: text, date_name: AGE, **more}
        for url, title, text in PAGES
    ]


def serve_search_engine() -> Running[SearchEngine]:
    return Running(SearchEngine, _Handler)
