"""One simulated upstream for each module, emptied before each test, and asking it in any format."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from routing.simulator.testing import RawConnection, SimulatedUpstream

Answer = tuple[int, dict[str, str], bytes]


@pytest.fixture(scope="module")
def running_upstream() -> Iterator[SimulatedUpstream]:
    with SimulatedUpstream("--seed", "7") as upstream:
        yield upstream


@pytest.fixture
def upstream(running_upstream: SimulatedUpstream) -> SimulatedUpstream:
    running_upstream.clear()
    return running_upstream


@pytest.fixture
def wire(upstream: SimulatedUpstream) -> Iterator[RawConnection]:
    with upstream.wire() as wire:
        yield wire


def named_events(body: bytes) -> list[tuple[str, Any]]:
    """(name, value) of each event of a well-formed stream; [DONE] of chat is its own name."""
    *blocks, rest = body.decode().split("\n\n")
    assert rest == ""
    found = []
    for block in blocks:
        name, _, data = block.rpartition("data: ")
        named = name.removeprefix("event: ").strip()
        found.append((data, None) if data == "[DONE]" else (named, json.loads(data)))
    return found


class Asked:
    """Asks in one format over one connection and reads whole answers."""

    def __init__(
        self,
        upstream: SimulatedUpstream,
        wire: RawConnection,
        resource: str,
        persona: str = "default",
    ) -> None:
        self._upstream, self._wire = upstream, wire
        self._resource, self._persona = resource, persona

    def __call__(self, model: str = "sim/small", persona: str | None = None, **body: Any) -> Answer:
        asked = persona or self._persona
        self._wire.send(self._upstream.request_bytes(self._resource, model, asked, **body))
        status, headers = self._wire.head()
        return status, headers, self._wire.body(headers)

    def document(self, model: str = "sim/small", **body: Any) -> Any:
        status, _, data = self(model, **body)
        assert status == 200, data
        return json.loads(data)

    def events(self, model: str = "sim/small", **body: Any) -> list[tuple[str, Any]]:
        status, headers, data = self(model, stream=True, **body)
        assert status == 200, data
        assert headers["content-type"] == "text/event-stream; charset=utf-8"
        return named_events(data)

    def expect_refusal(self, status: int, **body: Any) -> str:
        """The message of an error that must come with this status."""
        given, _, data = self(**body)
        assert given == status, data
        message: str = json.loads(data)["error"]["message"]
        return message


@pytest.fixture
def chat(upstream: SimulatedUpstream, wire: RawConnection) -> Asked:
    return Asked(upstream, wire, "chat/completions")


@pytest.fixture
def ask(upstream: SimulatedUpstream, wire: RawConnection, format: str) -> Asked:
    """In the `format` of the test."""
    return Asked(upstream, wire, format)
