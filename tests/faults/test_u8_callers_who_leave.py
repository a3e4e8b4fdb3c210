"""U8: a caller leaves in any phase of a stream. The upstream's connection is closed within a
second, or read to its end within the limits of every call where its provider bills to the end."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from routing.simulator.testing import SimulatedUpstream, Wire
from tests.conformance.desk import Desk
from tests.faults.bench import DEAR, as_yaml, endpoint, model, personas, provider
from tests.faults.conftest import loaded
from tests.faults.test_hang_ups import begin
from tests.faults.test_u1_refusals import black_hole
from tests.routing.upstreams.raw_upstream import PATIENCE_S
from tests.support.bed import Bed
from tests.support.gateways import StartGateway, seed_account
from tests.support.promptness import in_time
from tests.support.raw_desk import IDLE_S, TOTAL_S, RawDesk, cpu_s, worker_pids
from tests.support.raw_upstream import (
    END,
    Script,
    Visit,
    content,
    event,
    head,
)
from tests.support.server import GatewayServer

pytestmark = pytest.mark.thorough

pytest_plugins = ["tests.support.raw_fixtures"]
CLOSED_S = 1.0


def before_the_head(visit: Visit) -> None:
    visit.silence()


def in_the_head(visit: Visit) -> None:
    visit.send(b"HTTP/1.1 200 OK\r\nContent-")
    visit.silence()


def after_the_head(visit: Visit) -> None:
    visit.send(head())
    visit.silence()


def after_content(visit: Visit) -> None:
    visit.send(head() + event(content("Said.")))
    visit.silence()


def among_comments(visit: Visit) -> None:
    visit.send(head())
    visit.drip(b": thinking\n\n", every_s=0.02)


def among_content(visit: Visit) -> None:
    visit.send(head())
    visit.drip(event(content("Said.")), every_s=0.02)


def in_an_event(visit: Visit) -> None:
    visit.send(head() + event(content("Said.")) + b'data: {"choices"')
    visit.silence()


def in_a_flood(visit: Visit) -> None:
    visit.send(head())
    visit.flood(event(content("Said." * 100)))


def in_a_flood_of_comments(visit: Visit) -> None:
    """The stream is committed in time, though something comes at every look."""
    visit.send(head())
    visit.flood(b": thinking\n\n" * 5000)


# What the caller waits for before it leaves; None where it is told nothing yet.
PHASES: list[tuple[Script, bytes | None]] = [
    (before_the_head, None),
    (in_the_head, None),
    (after_the_head, b": ROUTER PROCESSING"),
    (after_content, b"Said."),
    (among_comments, b": ROUTER PROCESSING"),
    (among_content, b"Said."),
    (in_an_event, b"Said."),
    (in_a_flood, b"Said."),
    (in_a_flood_of_comments, b": ROUTER PROCESSING"),
]


@pytest.mark.parametrize(("script", "mark"), PHASES, ids=[row[0].__name__ for row in PHASES])
def test_the_upstream_is_closed_within_a_second(
    raw: RawDesk, script: Script, mark: bytes | None
) -> None:
    model_id = raw.model(script)
    wire = raw.begin(model_id)
    visit = raw.visit(model_id)
    if mark is not None:
        wire.until(mark)

    left_at = time.monotonic()
    wire.close()

    assert visit.closed.wait(PATIENCE_S)
    assert visit.closed_at is not None
    in_time(visit.closed_at - left_at, CLOSED_S)
    raw.wait_settled()


def test_a_keep_alive_phase_is_left_as_well(raw: RawDesk) -> None:
    """Committed without content, the stream falls back; the next endpoint says nothing."""
    raw.desk.upstream.script("second", {"gate": "never"})

    def commits_and_breaks(visit: Visit) -> None:
        visit.send(head())
        visit.silence(0.5)
        visit.reset()

    wire = raw.begin(raw.model(commits_and_breaks, "pair"))
    raw.desk.upstream.wait(1, "received")
    for _ in range(2):
        wire.until(b": ROUTER PROCESSING")

    wire.close()

    assert raw.desk.upstream.wait(1, "disconnected", timeout_s=CLOSED_S)["closed_by"] == "client"
    raw.wait_settled()


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


@pytest.fixture(scope="module")
def odd_gateway(
    stores: Bed, simulator: SimulatedUpstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[GatewayServer, "Silent"]]:
    """With providers that never get as far as a request, and patience for them."""
    folder = tmp_path_factory.mktemp("odd")
    with ExitStack() as stack:
        silent = stack.enter_context(closing(Silent()))
        providers = [
            provider("dead", f"http://127.0.0.1:{stack.enter_context(black_hole())}/v1"),
            provider("mute", f"https://127.0.0.1:{silent.port}/v1"),
            *personas(simulator),
        ]
        models = [
            model("plain/dead", endpoint("dead")),
            model("plain/mute", endpoint("mute")),
            model("plain/slow", endpoint("first"), endpoint("drained", pricing=DEAR)),
        ]
        starter = stack.enter_context(StartGateway(stores, folder))
        patience = {"ROUTER_CONNECT_TIMEOUT": "20", "ROUTER_FIRST_BYTE_TIMEOUT": "2"}
        yield loaded(starter, folder, as_yaml(providers, models), **patience), silent


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


def open_holds(desk: Desk) -> int:
    count: int = desk.server.manage("audit_ledger")["open_holds"]
    return count


def leave(wire: Wire, raw: RawDesk) -> None:
    wire.close()
    # Its event loop has seen the closed socket once it has answered something that came later.
    raw.server.get("/healthz")


def test_an_upstream_that_is_read_out_is_read_to_its_end(raw: RawDesk) -> None:
    gate = threading.Event()

    def script(visit: Visit) -> None:
        visit.send(head() + event(content("Said.")))
        visit.wait_open(gate)
        visit.send(event(content("More.")) + END)
        visit.end()
        visit.silence()

    model_id = raw.model(script, "drain")
    wire = raw.begin(model_id)
    wire.until(b"Said.")

    leave(wire, raw)

    visit = raw.visit(model_id)
    assert not visit.closed.is_set()
    gate.set()
    assert visit.closed.wait(PATIENCE_S)
    raw.wait_settled()


@pytest.mark.parametrize(
    ("script", "limit_s"),
    [(after_content, IDLE_S), (among_content, TOTAL_S), (in_a_flood, TOTAL_S)],
)
def test_reading_out_has_the_limits_of_every_call(
    raw: RawDesk, script: Script, limit_s: float
) -> None:
    model_id = raw.model(script, "drain")
    wire = raw.begin(model_id)
    visit = raw.visit(model_id)
    wire.until(b"Said.")

    leave(wire, raw)

    assert visit.closed.wait(PATIENCE_S)
    assert visit.closed_at is not None
    in_time(visit.closed_at - visit.came_at, limit_s * 1.1 + 0.75)
    raw.wait_settled()


def test_waiting_for_a_reply_nobody_wants_costs_no_processor_time(odd: Desk) -> None:
    """Committed, fallen back, and the caller gone: what is waited for is the reply alone."""
    broken = {"events": [{"pause_s": 0.4}, {"cut": "reset"}]}
    odd.upstream.script("first", broken)
    odd.upstream.script("drained", {"gate": "never"})
    wire = begin(odd, model="plain/slow")
    odd.upstream.wait(2, "received")
    wire.until(b": ROUTER PROCESSING")
    wire.close()
    odd.server.get("/healthz")
    (pid,) = worker_pids(odd.server)
    used_s, began = cpu_s(pid), time.monotonic()

    odd.upstream.wait(2, "disconnected")

    waited_s = time.monotonic() - began
    assert waited_s > 1
    assert cpu_s(pid) - used_s < waited_s / 4
    odd.server.wait_until(lambda: open_holds(odd) == 0)
