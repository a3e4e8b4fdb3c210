"""Callers who stop reading a stream: cut off after a while, without blame for the upstream and with
little memory."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from typing import Any

import pytest

from routing.simulator.testing import RawConnection, SimulatedUpstream
from tests.faults.raw_desk import MIB, RawDesk, forget_peak, raw_desk, status_kib, worker_pids
from tests.gateway.outbound.raw_upstream import PATIENCE_S
from tests.support.bed import Bed
from tests.support.promptness import in_time
from tests.support.raw_upstream import END, Visit, content, event, good_stream, head

pytestmark = pytest.mark.thorough

STALLED_S = 1.5
IDLE_S = 0.7
BUFFERS_KIB = 256
STREAMS = 10
# So little that what the gateway has to keep is soon the most of it.
RECEIVE_BYTES = 32_768


@pytest.fixture(scope="module")
def sit_down(
    stores: Bed, simulator: SimulatedUpstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], RawDesk]]:
    limits = {
        "ROUTER_STALLED_READER_SECONDS": str(STALLED_S),
        "ROUTER_IDLE_TIMEOUT": str(IDLE_S),
        "ROUTER_TOTAL_TIMEOUT": "10",
        # Long enough that a blamed endpoint is still avoided when it is asked about.
        "ROUTER_OUTAGE_WINDOW_SECONDS": "60",
    }
    folder = tmp_path_factory.mktemp("stalled")
    with raw_desk(stores, simulator, folder, **limits) as sit_down:
        yield sit_down


@pytest.fixture
def raw(sit_down: Callable[[], RawDesk]) -> RawDesk:
    return sit_down()


def flood(visit: Visit) -> None:
    visit.send(head())
    visit.flood(event(content("word ")) * 100)


def begin(raw: RawDesk, model_id: str) -> RawConnection:
    """A stream whose caller has small buffers."""
    wire = raw.begin(model_id)
    wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
    return wire


def test_a_caller_who_reads_nothing_is_cut_and_the_upstream_is_not_blamed(raw: RawDesk) -> None:
    model_id = raw.model(flood, "pair")
    with closing(begin(raw, model_id)) as wire:
        _, headers = wire.head()
        visit = raw.visit(model_id)

        assert visit.closed.wait(PATIENCE_S)

        assert visit.closed_at is not None
        in_time(visit.closed_at - visit.came_at, 2 * STALLED_S + 0.5, at_least_s=STALLED_S * 0.9)
        with suppress(ConnectionResetError):
            assert b"[DONE]" not in wire.to_end()
    record = raw.desk.wait_record(headers["x-generation-id"])
    assert (record["cancelled"], record["finish_reason"]) == (True, None)
    assert [each["status"] for each in record["provider_responses"]] == [200]
    assert raw.desk.charged_nano(record["id"]) > 0
    assert next_provider(raw, model_id) == "Raw"


def next_provider(raw: RawDesk, model_id: str) -> Any:
    """Who serves the model next, once its script is a good one."""
    raw.stage.play(model_id.replace("/", "-"), good_stream("Good."))
    return raw.desk.stream(model=model_id).chunks[0]["provider"]


def test_the_upstreams_silence_counts_from_when_the_caller_reads_again(raw: RawDesk) -> None:
    """One large event, read late: meanwhile the upstream has had nothing to say for too long."""
    resumed, go_on = threading.Event(), threading.Event()

    def script(visit: Visit) -> None:
        visit.send(head() + event(content("x" * 2 * MIB + "end of it")))
        visit.silence(IDLE_S * 1.6)
        resumed.set()
        visit.wait_open(go_on)
        visit.send(event(content("After.")) + END)
        visit.end()

    with closing(begin(raw, raw.model(script))) as wire:
        assert resumed.wait(PATIENCE_S)
        wire.read_until(b"end of it")
        go_on.set()

        wire.read_until(b"After.")
        wire.read_until(b"[DONE]")


def test_a_caller_who_reads_slowly_is_served(raw: RawDesk) -> None:
    """A large event takes longer to be read than a stalled caller is waited for."""

    def script(visit: Visit) -> None:
        visit.send(head() + event(content("x" * 3 * MIB)) + END)
        visit.end()
        visit.silence()

    with closing(begin(raw, raw.model(script))) as wire:
        began = time.monotonic()
        received = 0
        pace = threading.Event()
        while b"[DONE]" not in wire.received[-100:]:
            more = wire.more()
            assert more, "the stream was cut"
            received += len(more)
            del wire.received[:-100]
            # A pace that leaves nothing unread for long, and takes far more than the limit in all.
            behind_s = received / MIB - (time.monotonic() - began)
            if behind_s > 0:
                pace.wait(min(behind_s, 0.2))

        assert time.monotonic() - began > 1.5 * STALLED_S


def test_a_stalled_caller_of_an_upstream_that_bills_to_the_end_is_cut_as_well(raw: RawDesk) -> None:
    """The caller's connection ends; the upstream is read on."""
    cut = threading.Event()

    def script(visit: Visit) -> None:
        visit.send(head())
        while not cut.is_set():
            visit.send(event(content("word ")) * 100)
        visit.send(END)
        visit.end()
        visit.silence()

    model_id = raw.model(script, "drain")
    with closing(begin(raw, model_id)) as wire:
        _, headers = wire.head()
        visit = raw.visit(model_id)
        raw.server.wait_until(lambda: time.monotonic() > visit.came_at + STALLED_S * 1.5)
        with suppress(ConnectionResetError):
            assert b"[DONE]" not in wire.to_end()

    assert not visit.closed.is_set()
    cut.set()
    assert visit.closed.wait(PATIENCE_S)
    record = raw.desk.wait_record(headers["x-generation-id"])
    assert record["cancelled"] is True
    assert raw.desk.charged_nano(record["id"]) > 0


def test_stalled_streams_keep_little(raw: RawDesk) -> None:
    (pid,) = worker_pids(raw.server)
    model_id = raw.model(flood)
    with closing(begin(raw, model_id)):
        assert raw.visit(model_id).closed.wait(PATIENCE_S)
    before_kib = status_kib(pid, "VmRSS")
    forget_peak(pid)
    raw.stage.play(model_id.replace("/", "-"), flood)

    with ExitStack() as stack:
        for _ in range(STREAMS):
            stack.enter_context(closing(begin(raw, model_id)))
        for nth in range(STREAMS):
            assert raw.visit(model_id, nth + 1).closed.wait(PATIENCE_S)

    assert status_kib(pid, "VmHWM") - before_kib < STREAMS * BUFFERS_KIB
    raw.wait_settled()
