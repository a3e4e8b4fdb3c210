"""One caller at a running gateway: what it asks, what the upstream got, what the books say."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeVar

import requests

from routing.simulator.testing import RawConnection, SimulatedUpstream
from tests.support.gateways import SeededAccount
from tests.support.server import GatewayServer, as_json
from tests.support.wires import begin_request

CHAT = "/api/v1/chat/completions"
TEXT = "Hello there"
HELLO = [{"role": "user", "content": TEXT}]
NANO = Decimal(1_000_000_000)
# Far longer than anything here takes; only a failing test waits this long.
PATIENCE_S = 10.0


def saying(text: str) -> Any:
    """The messages of a user who says this."""
    return [{"role": "user", "content": text}]


def exact(response: requests.Response) -> Any:
    """The body as JSON, numbers with a fraction as exact decimals."""
    return json.loads(response.text, parse_float=Decimal)


def nano(usd: Any) -> int:
    """USD as the API shows it, in nano-USD. There is never more than nine places."""
    amount = Decimal(usd) * NANO
    assert amount == int(amount), usd
    return int(amount)


def issue_paths(error: dict[str, Any]) -> list[str]:
    """The fields a schema refusal names."""
    return [issue["path"] for issue in error["metadata"]["issues"]]


@dataclass
class Streamed:
    """A finished event stream. `blocks` are its events and comments as sent, in order."""

    response: requests.Response
    blocks: list[str] = field(default_factory=list)

    @property
    def chunks(self) -> list[Any]:
        """The JSON of every data line but `[DONE]`."""
        lines = [block for block in self.blocks if block.startswith("data: {")]
        return [json.loads(line[len("data: ") :], parse_float=Decimal) for line in lines]

    @property
    def text(self) -> str:
        deltas = [choice["delta"] for chunk in self.chunks for choice in chunk["choices"]]
        return "".join(delta.get("content") or "" for delta in deltas)

    @property
    def comments(self) -> int:
        return self.blocks.count(": ROUTER PROCESSING")

    @property
    def usage(self) -> Any:
        """The usage of the usage chunk."""
        return self.chunks[-1]["usage"]


def read_stream(response: requests.Response) -> Streamed:
    """Read a stream to its end. Nothing but events and comments may be in it."""
    assert response.status_code == 200, response.text
    assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    text = response.content.decode("utf-8")
    assert text.endswith("\n\n"), text[-200:]
    blocks = text[:-2].split("\n\n")
    assert all(block.startswith(("data: ", ": ")) for block in blocks), blocks
    return Streamed(response, blocks)


@dataclass
class Desk:
    """A fresh account on a running server, with the simulated upstream cleared for it."""

    server: GatewayServer
    upstream: SimulatedUpstream
    account: SeededAccount
    model: str = "acme/solo"
    spent_nano: int = 0

    def post(self, *, headers: dict[str, str] | None = None, **body: Any) -> requests.Response:
        """A chat request, valid but for what `body` says. A value of None stays in as null."""
        given = {"model": self.model, "messages": HELLO} | body
        return self.raw(json.dumps(given).encode(), headers=headers or {})

    def raw(self, body: bytes, *, headers: dict[str, str] | None = None) -> requests.Response:
        """A chat request of exactly these bytes."""
        sent = {"Content-Type": "application/json", **(headers or {})}
        return self.server.post(CHAT, key=self.account.api_key, data=body, headers=sent)

    def ok(self, **options: Any) -> Any:
        """The body of an answer that must be a 200; money in it is exact."""
        response = self.post(**options)
        assert response.status_code == 200, response.text
        return exact(response)

    def stream(self, **options: Any) -> Streamed:
        return read_stream(self.post(stream=True, **options))

    def expect_refusal(self, status: int, error_type: str, **options: Any) -> Any:
        """The error of a request that must be refused before anything is sent or charged."""
        return self.check_refused(self.post(**options), status, error_type)

    def check_refused(self, response: requests.Response, status: int, error_type: str) -> Any:
        error = self.check_error(response, status, error_type)
        assert "X-Generation-Id" not in response.headers
        assert self.upstream.requests() == []
        assert self.total_usage_nano() == self.spent_nano
        return error

    def check_error(self, response: requests.Response, status: int, error_type: str) -> Any:
        """The `error` object of a JSON error answer to this caller."""
        assert response.status_code == status, response.text
        assert response.headers["Content-Type"] == "application/json"
        body = as_json(response)
        assert body["user_id"] == self.account.user_id
        assert body["error"]["code"] == status
        assert body["error"]["metadata"]["error_type"] == error_type, body
        error: dict[str, Any] = body["error"]
        return error

    def manage(self, method: str, path: str, body: Any = None) -> requests.Response:
        """What the account's management key is answered; `path` begins below `/api/v1`."""
        options = {} if body is None else {"json": body}
        key = self.account.management_key
        return self.server.request(method, f"/api/v1{path}", key=key, **options)

    def list_sent_bodies(self, persona: str = "gamma") -> list[dict[str, Any]]:
        """The chat bodies a provider received, oldest first."""
        return [entry["body"] for entry in self.upstream.requests(persona)]

    def the_one_sent(self, persona: str = "gamma") -> dict[str, Any]:
        """The body of the only request that went upstream at all."""
        assert len(self.upstream.requests()) == 1
        (body,) = self.list_sent_bodies(persona)
        return body

    def generation(self, generation_id: str) -> Any:
        """The record of one generation, as GET /generation tells it."""
        response = self.generation_response(generation_id)
        assert response.status_code == 200, response.text
        return exact(response)["data"]

    def generation_response(self, generation_id: str) -> requests.Response:
        path = f"/api/v1/generation?id={generation_id}"
        return self.server.get(path, key=self.account.api_key)

    def total_usage_nano(self) -> int:
        response = self.server.get("/api/v1/credits", key=self.account.management_key)
        return nano(exact(response)["data"]["total_usage"])

    def ledger_nano(self, generation_id: str) -> int:
        """The one usage entry of a generation."""
        (entry,) = self.server.manage("ledger", "--generation", generation_id)["entries"]
        assert entry["kind"] == "usage"
        assert entry["account_id"] == self.account.account_id
        amount: int = entry["amount_nano"]
        return amount

    def charged_nano(self, generation_id: str) -> int:
        """What a generation was charged: ledger, record and credits say the same."""
        amount = self.ledger_nano(generation_id)
        record = self.generation(generation_id)
        assert nano(record["total_cost"]) == nano(record["usage"]) == amount
        self.spent_nano += amount
        assert self.total_usage_nano() == self.spent_nano
        return amount

    def paid_nano(self, answer: Any) -> int:
        """What an answer cost by its own word, which all the books must repeat."""
        amount = nano(answer["usage"]["cost"])
        assert self.charged_nano(answer["id"]) == amount
        return amount

    def wait_record(self, generation_id: str) -> Any:
        """The record of a call whose caller has left; it is written once the call has ended."""
        self.server.wait_until(
            lambda: self.generation_response(generation_id).status_code == 200, within_s=PATIENCE_S
        )
        return self.generation(generation_id)


D = TypeVar("D", bound=Desk)


def returning(desk: D) -> D:
    """The desk of an account that others used before: the upstream forgets them, its books not."""
    desk.upstream.clear()
    desk.spent_nano = desk.total_usage_nano()
    return desk


def changed_workspace(desk: Desk, **settings: Any) -> None:
    """The desk's workspace has these settings from now on."""
    response = desk.manage("PATCH", f"/workspaces/{desk.account.workspace_id}", settings)
    assert response.status_code == 200, response.text


def open_stream(desk: Desk, path: str = CHAT, **body: Any) -> RawConnection:
    """A streamed request on a connection of its own, to be read as it comes."""
    given = {"model": desk.model, "stream": True} | body
    if path == CHAT:
        given = {"messages": HELLO} | given
    return begin_request(int(desk.server.env["PORT"]), desk.account.api_key, given, path=path)


def called_models(desk: Desk) -> list[str]:
    """The upstream models that were called, oldest first."""
    return [entry["body"]["model"] for entry in desk.upstream.requests()]


def called_by(desk: Desk, **options: Any) -> str:
    """The upstream model that one good request goes to, and no other."""
    before = len(called_models(desk))
    desk.ok(**options)
    (model,) = called_models(desk)[before:]
    return model


# Settings of a gateway -> what makes desks on it (the fixture `serve`).
Serve = Callable[..., Callable[[], Desk]]
