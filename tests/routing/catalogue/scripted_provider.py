"""A provider on this machine that lists and answers what a test tells it to."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.support.local_site import LocalSite, SiteHandler


def able(body: dict[str, Any]) -> tuple[int, Any]:
    """A model that does whatever it is asked for."""
    message: dict[str, Any] = {"role": "assistant", "content": "Yes."}
    choice: dict[str, Any] = {"index": 0, "finish_reason": "stop", "message": message}
    if body.get("logprobs"):
        token = {"token": "Yes", "logprob": -0.1}
        choice["logprobs"] = {"content": [{**token, "top_logprobs": [token]}]}
    if body.get("tools"):
        function = {"name": "weather", "arguments": '{"city": "Oslo"}'}
        message["tool_calls"] = [{"id": "c", "type": "function", "function": function}]
    if body.get("response_format"):
        message["content"] = '{"blue": true}'
    return 200, {"id": "x", "choices": [choice], "usage": {}}


@dataclass
class ScriptedProvider(LocalSite):
    """Answers every GET with what it is told to, and chats as `chat` does."""

    chat: Callable[[dict[str, Any]], tuple[int, Any]] = able
    chats: list[dict[str, Any]] = field(default_factory=list)
    status: int = 200
    body: bytes = b'{"data": []}'
    headers: dict[str, str] = field(default_factory=dict)
    # The path and the headers of each GET.
    seen: list[tuple[str, Any]] = field(default_factory=list)

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    def lists(self, *models: Any) -> None:
        entries = [{"id": model} if isinstance(model, str) else model for model in models]
        self.body = json.dumps({"data": entries}).encode()


class Handler(SiteHandler):
    site: ScriptedProvider

    def do_GET(self) -> None:
        self.site.seen.append((self.path, self.headers))
        self.answer(self.site.body, status=self.site.status, **self.site.headers)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.site.chats.append(body)
        status, said = self.site.chat(body)
        self.answer(json.dumps(said).encode(), status=status, Content_Type="application/json")
