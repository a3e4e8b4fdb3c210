"""What a caller asks and hears, whatever the format."""

import json
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple, Protocol

import requests

NANO = Decimal(1_000_000_000)


class Call(NamedTuple):
    """A tool call; `arguments` as text, byte for byte."""

    id: str
    name: str
    arguments: str


class Counts(NamedTuple):
    """Tokens by the chat format's counting: the prompt includes what was cached and written."""

    prompt: int
    completion: int
    cached: int
    written: int


@dataclass
class Said:
    """One answer. `finish` is the chat format's word, `native` what a caller sends back of it.

    `failure` is the error object of an answer that broke; then there may be no usage.
    """

    text: str = ""
    reasoning: str = ""
    calls: list[Call] = field(default_factory=list)
    finish: str | None = None
    usage: Counts | None = None
    cost_nano: int | None = None
    native: list[dict[str, Any]] = field(default_factory=list)
    failure: dict[str, Any] | None = None
    model: str | None = None
    provider: str | None = None


@dataclass
class Streamed:
    """A finished stream: its events as (name, value), and everything between them.

    `done` says whether it came to the clean end of its format.
    """

    response: requests.Response
    events: list[tuple[str, Any]]
    comments: list[str]
    done: bool

    @property
    def values(self) -> list[Any]:
        return [value for _, value in self.events]


class Speaker(Protocol):
    """One caller format."""

    name: str
    path: str
    # What fills the silence of a stream.
    keep_alive: bytes

    def body(self, model: str, history: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
        """A request. Options: tools, choice (auto, none, required), schema, cap, effort, system,
        stop; whatever else there is goes into the body as it is."""

    def user(self, text: str, *, image_url: str | None = None) -> list[dict[str, Any]]:
        """What a user says, to be put into a history."""

    def results(self, outputs: dict[str, str]) -> list[dict[str, Any]]:
        """What tools gave back, by call id."""

    def read_answer(self, answer: Any) -> Said:
        """Read a whole answer."""

    def read_events(self, streamed: Streamed) -> Said:
        """Read a stream, put together as the format's clients do it."""

    def read_error(self, body: Any) -> tuple[int, str, str]:
        """Code, error type and message of an HTTP error's body."""
        error = body["error"]
        return error["code"], error["metadata"]["error_type"], error["message"]


def exact(text: str) -> Any:
    """JSON with exact decimals."""
    return json.loads(text, parse_float=Decimal)


def plain(value: Any) -> Any:
    """The same without exact decimals, to be sent back."""
    return json.loads(json.dumps(value, default=float))


def nano(usd: Any) -> int | None:
    return None if usd is None else int(Decimal(usd) * NANO)


def read_stream(response: requests.Response) -> Streamed:
    """Read a stream to its end. Nothing but events and comments may be in it."""
    assert response.status_code == 200, response.text
    assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    blocks = response.content.decode("utf-8").split("\n\n")
    assert blocks.pop() == "", blocks
    events, comments, done = [], [], False
    for block in blocks:
        assert not done, block
        if block.startswith(":"):
            comments.append(block)
        elif block == "data: [DONE]":
            done = True
        else:
            events.append(_event(block))
    done = done or (bool(events) and events[-1][0] == "message_stop")
    return Streamed(response, events, comments, done)


def _event(block: str) -> tuple[str, Any]:
    lines = block.split("\n")
    name = lines.pop(0).removeprefix("event: ") if lines[0].startswith("event: ") else ""
    (data,) = lines
    assert data.startswith("data: "), block
    value = exact(data.removeprefix("data: "))
    assert name in ("", value.get("type")), block
    return name, value
