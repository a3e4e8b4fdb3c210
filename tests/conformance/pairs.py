"""A caller of one format at an upstream of one wire kind."""

from dataclasses import dataclass
from typing import Any

import requests

from routing.simulator.testing import RawConnection
from tests.conformance.asking import PERSONAS
from tests.conformance.desk import Desk, exact, open_stream
from tests.support.speakers import Said, Speaker, Streamed, read_stream

RESOURCES = {"openai": "chat/completions", "anthropic": "messages", "responses": "responses"}
# Twelve characters: three tokens by every counting.
HELLO = "Hello there!"


@dataclass
class Pair:
    """One caller format at one wire kind."""

    speaker: Speaker
    kind: str
    desk: Desk

    @property
    def model(self) -> str:
        return self.desk.model

    @property
    def persona(self) -> str:
        return f"{PERSONAS[self.kind]}-a"

    def script(self, *steps: dict[str, Any], repeat: bool = False) -> None:
        self.desk.upstream.script(self.persona, *steps, repeat=repeat)

    def body(
        self, history: Any = None, *, model: str = "", server_tools: Any = (), **options: Any
    ) -> dict[str, Any]:
        """`server_tools` stand before functions, as they are."""
        said = history or self.speaker.user(HELLO)
        body = self.speaker.body(model or self.model, said, **options)
        tools = [*server_tools, *body.get("tools", [])]
        return body | ({"tools": tools} if tools else {})

    def post(self, history: Any = None, **options: Any) -> requests.Response:
        server, key = self.desk.server, self.desk.account.api_key
        return server.post(self.speaker.path, key=key, json=self.body(history, **options))

    def ask(self, history: Any = None, **options: Any) -> Said:
        """What a request is answered, streamed or not; the books say what the answer says."""
        response = self.post(history, **options)
        assert response.status_code == 200, response.text
        if not options.get("stream"):
            said = self.speaker.read_answer(exact(response))
        else:
            streamed = read_stream(response)
            assert streamed.done, streamed.events[-2:]
            said = self.speaker.read_events(streamed)
        assert said.failure is None, said
        assert said.cost_nano == self.desk.charged_nano(response.headers["X-Generation-Id"])
        return said

    def stream(self, history: Any = None, **options: Any) -> Streamed:
        return read_stream(self.post(history, stream=True, **options))

    def open(self, **options: Any) -> RawConnection:
        """A streamed request on a connection of its own, to be read as it comes."""
        return open_stream(self.desk, self.speaker.path, **self.body(stream=True, **options))

    def list_sent_bodies(self) -> list[dict[str, Any]]:
        """What went upstream, all of it on the wire's own path."""
        entries = self.desk.upstream.requests()
        paths = {entry["path"].partition("/v1/")[2] for entry in entries}
        assert paths <= {RESOURCES[self.kind]}
        return [entry["body"] for entry in entries]
