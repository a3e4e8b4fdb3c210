"""There are so many places for requests and connections; who finds none is told, or waits, and who
sends slowly holds none."""

from contextlib import ExitStack, closing
from typing import Any

import pytest

from routing.simulator.testing import RawConnection
from tests.faults.bench import endpoint, model
from tests.faults.desks import begin
from tests.support.wires import head_bytes

FIRST = [model("plain/first", endpoint("first"))]


def test_a_request_too_many_is_told_to_come_back(desk_on: Any) -> None:
    desk = desk_on(FIRST, ROUTER_MAX_CONCURRENCY="2")
    desk.upstream.script("first", {"events": [{"text": "A"}, {"gate": "never"}]}, repeat=True)
    with ExitStack() as stack:
        held = [stack.enter_context(closing(begin(desk, model="plain/first"))) for _ in range(2)]
        for wire in held:
            wire.until(b'"content":"A"')

        answer = desk.post(stream=True)
        error = desk.told(answer, 503, "provider_overloaded")

        assert error["message"] == "Too many requests in progress"
        assert int(answer.headers["Retry-After"]) > 0
        assert len(desk.upstream.requests()) == 2

        # What is no inference goes on, and a place that becomes free is there again.
        assert desk.server.get("/healthz").status_code == 200
        held[0].close()
        desk.upstream.script("first", {"text": "There is room."}, repeat=True)
        desk.server.wait_until(lambda: desk.post().status_code == 200)


def test_connections_are_bounded_and_the_next_waits_for_one_to_end(desk_on: Any) -> None:
    # Four connections for each request in progress.
    desk = desk_on(FIRST, ROUTER_MAX_CONCURRENCY="1")
    port = int(desk.server.env["PORT"])
    ask = head_bytes(method="GET", path="/healthz")
    with ExitStack() as stack:
        wires = [stack.enter_context(closing(RawConnection(port))) for _ in range(5)]
        for wire in wires[:4]:
            wire.send(ask[:-2])
        wires[4].send(ask)
        wires[4].socket.settimeout(0.5)
        with pytest.raises(TimeoutError):
            wires[4].more()

        wires[0].send(ask[-2:])
        assert wires[0].body(wires[0].head()[1])
        wires[0].close()

        wires[4].socket.settimeout(20)
        assert wires[4].head()[0] == 200
