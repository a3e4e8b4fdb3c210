"""A gateway that searches with an engine of these tests' own and fetches from a site of theirs."""

from dataclasses import dataclass
from typing import Any

from tests.conformance.asking import PERSONAS
from tests.conformance.desk import Desk, exact
from tests.support.search_engine import SearchEngine
from tests.support.speakers import SPEAKERS, read_stream
from tests.support.web_site import WebSite

LINK = "See [One](https://one.example/a) for more."
SEARCH_NANO = 5_000_000
SEARCH: dict[str, Any] = {"type": "router:web_search", "parameters": {"max_results": 2}}
FETCH: dict[str, Any] = {"type": "router:web_fetch"}


def search(query: str = "cats") -> dict[str, Any]:
    return {"tool_calls": [{"name": "web_search", "arguments": {"query": query}}]}


def fetch(url: str) -> dict[str, Any]:
    return {"tool_calls": [{"name": "web_fetch", "arguments": {"url": url}}]}


@dataclass
class WebDesk:
    """One account there."""

    desk: Desk
    engine: SearchEngine
    site: WebSite

    def script(self, *steps: dict[str, Any], kind: str = "openai") -> None:
        self.desk.upstream.script(f"{PERSONAS[kind]}-a", *steps)

    def post(self, format: str, *, kind: str = "openai", **options: Any) -> Any:
        speaker = SPEAKERS[format]
        model = options.pop("model", f"acme/over-{kind}")
        tools = options.pop("tools", [])
        body = speaker.body(model, speaker.user("Hello"), **options)
        if tools:
            body["tools"] = tools
        return self.desk.server.post(speaker.path, key=self.desk.account.api_key, json=body)

    def answer(self, format: str, **options: Any) -> Any:
        """The whole answer, its charge checked; of a stream, what its events come to."""
        response = self.post(format, **options)
        assert response.status_code == 200, response.text
        speaker = SPEAKERS[format]
        if options.get("stream"):
            streamed = read_stream(response)
            assert streamed.done, streamed.events[-2:]
            said = speaker.read_events(streamed)
            raw: Any = streamed.values
        else:
            raw = exact(response)
            said = speaker.read_answer(raw)
        assert said.failure is None
        generation_id = response.headers["X-Generation-Id"]
        assert said.cost_nano == self.desk.charged_nano(generation_id)
        return said, raw, generation_id

    def list_sent_bodies(self) -> list[Any]:
        return [entry["body"] for entry in self.desk.upstream.requests()]
