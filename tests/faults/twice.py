"""One `Idempotency-Key` sent twice and more, to two processes with a row in common."""

import json
from dataclasses import dataclass
from typing import Any

import requests

from tests.conformance.asking import BODIES
from tests.conformance.desk import CHAT, Desk
from tests.faults import bench
from tests.support.ledger import Call, Ledger
from tests.support.server import as_json

AT_ONCE = 50
MODEL = bench.model("plain/first", bench.endpoint("first"), context_length=2_000_000)
PATIENT = {
    "WEB_CONCURRENCY": "2",
    "ROUTER_FIRST_BYTE_TIMEOUT": "30",
    "ROUTER_IDLE_TIMEOUT": "30",
    # However many wait for their upstream, the few connections are free.
    "DATABASE_POOL_SIZE": "2",
    "DATABASE_TIMEOUT": "10",
}


@dataclass
class Twice:
    """A caller at two processes, and what came of its requests."""

    desk: Desk

    def ask(
        self, key: str, path: str = CHAT, *, headers: dict[str, str] | None = None, **body: Any
    ) -> requests.Response:
        given = {"model": "plain/first"} | BODIES[path] | body
        sent = {"Content-Type": "application/json", "Idempotency-Key": key} | (headers or {})
        data = json.dumps(given).encode()
        api_key = "" if "x-api-key" in sent else self.desk.account.api_key
        return self.desk.server.post(path, key=api_key, data=data, headers=sent)

    def calls(self) -> list[Call]:
        return Ledger(self.desk.server.env["DATABASE_URL"]).calls(self.desk.account.account_id)

    def upstream_calls(self) -> int:
        return len(self.desk.upstream.requests())

    def check_once(self, path: str = CHAT) -> Call:
        """One upstream call, one charge of more than nothing, and the totals agree."""
        assert self.upstream_calls() == 1
        (call,) = self.calls()
        assert call.entries == 1, path
        assert call.entries_nano == call.charge_nano > 0
        assert self.desk.total_usage_nano() == call.charge_nano
        return call


def reason(response: requests.Response) -> str:
    """Why a 409 is one; told the same in all formats."""
    assert response.status_code == 409, response.text
    error = as_json(response)["error"]
    assert error["code"] == 409
    word: str = error["metadata"]["reason"]
    return word


def same(first: requests.Response, again: requests.Response) -> None:
    assert (again.status_code, again.content) == (first.status_code, first.content)
    for header in ("Content-Type", "X-Generation-Id"):
        assert again.headers[header] == first.headers[header]
    assert again.headers["Idempotent-Replayed"] == "true"
    assert "Idempotent-Replayed" not in first.headers


def check_not_kept(twice: Twice, first: requests.Response, again: requests.Response) -> None:
    assert reason(again) == "answer_not_kept"
    generation = first.headers["X-Generation-Id"]
    assert again.headers["X-Generation-Id"] == generation
    assert as_json(again)["error"]["metadata"]["generation_id"] == generation
    assert twice.check_once().id == generation
