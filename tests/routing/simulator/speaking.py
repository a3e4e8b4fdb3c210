"""Asking the simulated upstream in any of its formats, and reading streams with named events."""

import json
from typing import Any

from routing.simulator.testing import SimulatedUpstream, Wire


def named_events(body: bytes) -> list[tuple[str, Any]]:
    """(name, value) of each event of a well-formed stream."""
    *blocks, rest = body.decode().split("\n\n")
    assert rest == ""
    lines = [block.split("\n") for block in blocks]
    return [
        (name.removeprefix("event: "), json.loads(data.removeprefix("data: ")))
        for name, data in lines
    ]


class Asked:
    """One persona, asked in one format over one connection."""

    def __init__(
        self, upstream: SimulatedUpstream, wire: Wire, resource: str, persona: str = "default"
    ) -> None:
        self._upstream = upstream
        self._wire = wire
        self._resource = resource
        self._persona = persona

    def __call__(self, model: str = "sim/small", **body: Any) -> tuple[int, dict[str, str], bytes]:
        data = self._upstream.request_bytes(self._resource, model, self._persona, **body)
        self._wire.send(data)
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

    def refused(self, status: int, **body: Any) -> str:
        """The message of an error that must come with this status."""
        given, _, data = self(**body)
        assert given == status, data
        message: str = json.loads(data)["error"]["message"]
        return message
