"""U8: a caller leaves in any phase of a stream. The upstream's connection is closed within a
second. Where its provider bills to the end, it is read to its end within the limits of every call.
"""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import pytest

from routing.simulator.testing import RawConnection, SimulatedUpstream
from tests.conformance.desk import Desk
from tests.faults.bench import DEAR, endpoint, model, personas, provider
from tests.faults.conftest import GatewayWith, Open
from tests.faults.desks import begin, open_holds
from tests.faults.raw_desk import TOTAL_S, RawDesk
from tests.gateway.outbound.raw_upstream import PATIENCE_S
from tests.support.gateways import seed_account
from tests.support.promptness import in_time
from tests.support.raw_upstream import Script, Visit, content, event, head
from tests.support.server import GatewayServer

pytestmark = pytest.mark.thorough

pytest_plugins = ["tests.faults.raw_fixtures"]
CLOSED_S = 1.0


def says(start: bytes, again: bytes = b"", every_s: float | None = None) -> Script:
    """These bytes, and then the others for ever: in a flood, or one at a time."""

    def script(visit: Visit) -> None:
        visit.send(start)
        if again and every_s is None:
            visit.flood(again)
        elif again and every_s is not None:
            visit.drip(again, every_s=every_s)
        visit.silence()

    return script


SAID, THINKING = event(content("Said.")), b": thinking\n\n"
WAITING, HEARD = b": ROUTER PROCESSING", b"Said."
# What the caller waits for before it leaves; None where it is told nothing yet.
PHASES: dict[str, tuple[Script, bytes | None]] = {
    "before the head": (says(b""), None),
    "in the head": (says(b"HTTP/1.1 200 OK\r\nContent-"), None),
    "after the head": (says(head()), WAITING),
    "after content": (says(head() + SAID), HEARD),
    "among comments": (says(head(), THINKING, 0.02), WAITING),
    "among content": (says(head(), SAID, 0.02), HEARD),
    "in a flood": (says(head(), SAID * 100), HEARD),
    # The stream is committed in time, though something comes at every look.
    "in a flood of comments": (says(head(), THINKING * 5000), WAITING),
}


@pytest.mark.parametrize(("script", "mark"), PHASES.values(), ids=PHASES)
def test_the_upstream_is_closed_within_a_second(
    raw: RawDesk, script: Script, mark: bytes | None
) -> None:
    model_id = raw.model(script)
    wire = raw.begin(model_id)
    visit = raw.visit(model_id)
    if mark is not None:
        wire.read_until(mark)

    left_at = time.monotonic()
    wire.close()

    assert visit.closed.wait(PATIENCE_S)
    assert visit.closed_at is not None
    in_time(visit.closed_at - left_at, CLOSED_S)
    raw.wait_settled()


def test_who_leaves_is_sent_nowhere_else_and_puts_no_blame_on_the_endpoint(desk_of: Open) -> None:
    mine = desk_of([model("pair/left", endpoint("first"), endpoint("second", pricing=DEAR))])
    mine.upstream.script("first", {"gate": "go", "status": 503})
    wire = begin(mine)
    mine.upstream.wait(1, "received")

    wire.close()
    mine.upstream.wait(1, "disconnected")
    mine.upstream.open_gate("go")

    mine.server.wait_until(lambda: open_holds(mine) == 0)
    assert mine.list_sent_bodies("second") == []
    assert mine.total_usage_nano() == 0
    assert mine.ok()["provider"] == "First"


def test_a_call_that_is_still_connecting_is_left_as_well(odd: Desk) -> None:
    """Nobody takes the connection: there is nothing to be closed but the socket that tries."""
    wire = begin(odd, model="plain/dead")
    odd.server.wait_until(lambda: open_holds(odd) == 1)
    left_at = time.monotonic()

    wire.close()

    odd.server.wait_until(lambda: open_holds(odd) == 0)
    in_time(time.monotonic() - left_at, CLOSED_S + 1)
    assert odd.total_usage_nano() == 0


def test_a_handshake_that_hangs_is_left_as_well(odd: Desk, silent: "Silent") -> None:
    wire = begin(odd, model="plain/mute")
    assert silent.spoken_to.wait(PATIENCE_S)
    left_at = time.monotonic()

    wire.close()

    assert silent.closed.wait(PATIENCE_S)
    in_time(time.monotonic() - left_at, CLOSED_S)
    odd.server.wait_until(lambda: open_holds(odd) == 0)
    assert odd.total_usage_nano() == 0


@contextmanager
def black_hole() -> Iterator[int]:
    """A listener whose backlog is full: connecting neither works nor fails."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(8):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


@pytest.fixture(scope="module")
def odd_gateway(
    gateway_with: GatewayWith, simulator: SimulatedUpstream
) -> Iterator[tuple[GatewayServer, "Silent"]]:
    """With providers that never get as far as a request, and patience for them."""
    with closing(Silent()) as silent, black_hole() as hole:
        providers = [
            provider("dead", f"http://127.0.0.1:{hole}/v1"),
            provider("mute", f"https://127.0.0.1:{silent.port}/v1"),
            *personas(simulator),
        ]
        models = [
            model("plain/dead", endpoint("dead")),
            model("plain/mute", endpoint("mute")),
            model("plain/slow", endpoint("first"), endpoint("drained", pricing=DEAR)),
        ]
        patience = {"ROUTER_CONNECT_TIMEOUT": "20", "ROUTER_FIRST_BYTE_TIMEOUT": "2"}
        yield gateway_with(models, providers=providers, **patience), silent


@pytest.fixture
def odd(odd_gateway: tuple[GatewayServer, "Silent"], simulator: SimulatedUpstream) -> Desk:
    simulator.clear()
    server, _ = odd_gateway
    return Desk(server, simulator, seed_account(server, credits_usd="1000"))


@pytest.fixture
def silent(odd_gateway: tuple[GatewayServer, "Silent"]) -> "Silent":
    return odd_gateway[1]


class Silent:
    """Takes one connection, reads what comes and never answers."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.spoken_to, self.closed = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        sock, _ = self._listener.accept()
        with closing(sock):
            sock.settimeout(PATIENCE_S)
            while sock.recv(65_536):
                self.spoken_to.set()
            self.closed.set()

    def close(self) -> None:
        self._thread.join(PATIENCE_S)
        self._listener.close()


def leave(wire: RawConnection, raw: RawDesk) -> None:
    wire.close()
    # Its event loop has seen the closed socket once it has answered something that came later.
    raw.server.get("/healthz")


def test_reading_out_has_the_limits_of_every_call(raw: RawDesk) -> None:
    """That of silence is `test_m5_drops`'."""
    model_id = raw.model(PHASES["in a flood"][0], "drain")
    wire = raw.begin(model_id)
    visit = raw.visit(model_id)
    wire.read_until(b"Said.")

    leave(wire, raw)

    assert visit.closed.wait(PATIENCE_S)
    assert visit.closed_at is not None
    in_time(visit.closed_at - visit.came_at, TOTAL_S * 1.1 + 0.75)
    raw.wait_settled()
