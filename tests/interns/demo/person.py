"""Somebody with the demo's key, and what a chat told them."""

import json
import time
from typing import Any

import requests

from tests.support import processes

SETTLED_S = 60.0


class Person:
    """Calls the API as the demo's member."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self._base_url = facts["base_url"]
        self._headers = {"Authorization": f"Bearer {facts['api_key']}"}

    def ask(self, method: str, path: str, body: Any = None) -> requests.Response:
        url = self._base_url + path
        return requests.request(method, url, json=body, headers=self._headers, timeout=60)

    def call(self, method: str, path: str, body: Any = None, *, expect: int = 200) -> Any:
        answer = self.ask(method, path, body)
        assert answer.status_code == expect, (answer.status_code, answer.text)
        return answer.json()

    def await_status(self, intern_id: str, status: str) -> dict[str, Any]:
        seen: dict[str, Any] = {}

        def is_there() -> bool:
            seen.update(self.call("GET", f"/interns/{intern_id}"))
            assert seen["status"] != "failed" or status == "failed", seen
            return bool(seen["status"] == status)

        processes.eventually(is_there, within_s=SETTLED_S, what=status, log=None)
        return seen

    def await_gone(self, intern_id: str) -> None:
        def is_gone() -> bool:
            return self.ask("GET", f"/interns/{intern_id}").status_code == 404

        processes.eventually(is_gone, within_s=SETTLED_S, what="its end", log=None)

    def boot(self, *names: str) -> float:
        """Create interns, and provision them all at once. Seconds until the last one runs."""
        made = [self.call("POST", "/interns", {"name": n}, expect=201)["id"] for n in names]
        began = time.monotonic()
        for intern_id in made:
            self.call("POST", f"/interns/{intern_id}/provision", expect=202)
        for intern_id in made:
            self.await_status(intern_id, "running")
        return time.monotonic() - began

    def chat(self, intern_id: str, *messages: Any, **more: Any) -> list[dict[str, Any]]:
        """The chunks of one stream."""
        body = {"stream": True, "messages": list(messages)} | more
        answer = self.ask("POST", f"/interns/{intern_id}/chat/completions", body)
        assert answer.status_code == 200, answer.text
        data = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ")]
        assert data[-1] == "[DONE]"
        return [json.loads(line) for line in data[:-1]]


def question_of(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    calls: list[dict[str, Any]] = [call for d in deltas for call in d.get("tool_calls", [])]
    assert len(calls) == 1, chunks
    return calls[0]
