"""A stop meets calls at every point where they wait. Each one is settled and answered before the
process goes, and what cannot be booked is in the log."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from routing.simulator.testing import SimulatedUpstream
from tests.faults import bench
from tests.faults.conftest import Open
from tests.faults.desks import begin
from tests.faults.raw_desk import raw_desk
from tests.support.bed import Bed
from tests.support.promptness import in_time
from tests.support.raw_upstream import JSON, Script, Visit, content, event, head
from tests.support.server import STOP_S

pytestmark = pytest.mark.thorough
PLAIN = [bench.model("plain/first", bench.endpoint("first"))]
SAID = event(content("Said."))


@pytest.fixture(autouse=True)
def as_deployed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop meets what a start has imported, and how it was patched."""
    monkeypatch.setenv("GATEWAY_TEST_FORKS", "0")


@pytest.mark.both
def test_a_stop_leaves_no_money_held_and_no_call_untold(desk_on: Open) -> None:
    desk = desk_on(PLAIN)
    desk.upstream.script("first", {"events": [{"text": "A beginning."}, {"gate": "never"}]})
    stream = begin(desk)
    stream.head()
    stream.read_until(b"A beginning.")
    desk.upstream.script("first", {"gate": "never"})
    with ThreadPoolExecutor(1) as pool:
        whole = pool.submit(desk.post)
        desk.upstream.wait(2, "received")

        desk.server.stop()

        stream.read_until(b'"finish_reason":"error"')
        stream.close()
        # Told by the stop, or before it by the upstream's short limit; never nothing.
        assert whole.result(5).status_code in (503, 524)
    audit = desk.server.run_command("audit_ledger", "--json").json()
    assert (audit["open_holds"], audit["mismatches"]) == (0, [])
    assert len(desk.upstream.requests()) == 2


LIMITS = {
    "ROUTER_FIRST_BYTE_TIMEOUT": "60",
    "ROUTER_IDLE_TIMEOUT": "60",
    "ROUTER_TOTAL_TIMEOUT": "120",
    "ROUTER_CONNECT_TIMEOUT": "60",
}


def says(data: bytes, then: Any = Visit.silence) -> Script:
    def script(visit: Visit) -> None:
        visit.send(data)
        then(visit)

    return script


def breaks(visit: Visit) -> None:
    visit.silence(0.5)
    visit.reset()


# Script, kind of model, whether a stream is asked for, whether the caller leaves before the stop.
POINTS: list[tuple[Script, str, bool, bool]] = [
    (says(b""), "alone", True, False),
    (says(b""), "alone", False, False),
    (says(b""), "drain", True, True),
    (says(head()), "alone", True, False),
    (says(head() + SAID), "alone", True, False),
    (says(head() + SAID), "drain", True, True),
    (says(head(), lambda visit: visit.drip(SAID, every_s=0.01)), "drain", True, True),
    # Nobody reads these, so that they wait in a write.
    (says(head(), lambda visit: visit.flood(SAID * 100)), "alone", True, False),
    (says(head(), lambda visit: visit.flood(SAID * 100)), "drain", True, False),
    (says(head(), breaks), "pair", True, False),
    (says(head(JSON) + b'{"choices"'), "alone", False, False),
]


def test_a_stop_leaves_nothing_held_wherever_a_call_waits(
    stores: Bed, simulator: SimulatedUpstream, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        # Its end looks into the books: nothing is held, nothing is wrong.
        raw = stack.enter_context(raw_desk(stores, simulator, tmp_path, **LIMITS))()
        raw.desk.upstream.script("second", {"gate": "never"})
        for script, kind, stream, leaves in POINTS:
            model_id = raw.model(script, kind)
            wire = stack.enter_context(closing(raw.begin(model_id, stream=stream)))
            raw.visit(model_id)
            if leaves:
                wire.close()
        raw.desk.upstream.wait(1, "received")
        raw.server.get("/healthz")
        began = time.monotonic()

        raw.server.stop()

        in_time(time.monotonic() - began, STOP_S, "it had to be killed")
        assert len(raw.desk.upstream.requests()) == 1
