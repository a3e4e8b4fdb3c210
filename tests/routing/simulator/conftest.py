"""One simulated upstream for each module, emptied before each test."""

from collections.abc import Iterator
from typing import Any

import pytest

from routing.simulator.testing import SimulatedUpstream, Wire


@pytest.fixture(scope="module")
def running_upstream() -> Iterator[SimulatedUpstream]:
    with SimulatedUpstream("--seed", "7") as upstream:
        yield upstream


@pytest.fixture
def upstream(running_upstream: SimulatedUpstream) -> SimulatedUpstream:
    running_upstream.clear()
    return running_upstream


@pytest.fixture
def wire(upstream: SimulatedUpstream) -> Iterator[Wire]:
    with upstream.wire() as wire:
        yield wire


class Chat:
    """Asks over one connection and reads whole answers."""

    def __init__(self, upstream: SimulatedUpstream, wire: Wire) -> None:
        self._upstream = upstream
        self._wire = wire

    def __call__(self, model: str = "sim/small", **body: Any) -> tuple[int, dict[str, str], bytes]:
        self._wire.send(self._upstream.chat_bytes(model, **body))
        status, headers = self._wire.head()
        return status, headers, self._wire.body(headers)


@pytest.fixture
def chat(upstream: SimulatedUpstream, wire: Wire) -> Chat:
    return Chat(upstream, wire)
