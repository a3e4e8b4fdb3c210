"""A stop of the worker meets calls at every point where they wait: each one is settled."""

import time
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from routing.simulator.testing import SimulatedUpstream
from tests.support.bed import Bed
from tests.support.promptness import in_time
from tests.support.raw_desk import raw_desk
from tests.support.raw_upstream import JSON, Script, Visit, content, event, head
from tests.support.server import STOP_S

pytestmark = pytest.mark.thorough

LIMITS = {
    "ROUTER_FIRST_BYTE_TIMEOUT": "60",
    "ROUTER_IDLE_TIMEOUT": "60",
    "ROUTER_TOTAL_TIMEOUT": "120",
    "ROUTER_CONNECT_TIMEOUT": "60",
}
SAID = event(content("Said."))


def before_the_head(visit: Visit) -> None:
    visit.silence()


def after_the_head(visit: Visit) -> None:
    visit.send(head())
    visit.silence()


def after_content(visit: Visit) -> None:
    visit.send(head() + SAID)
    visit.silence()


def among_content(visit: Visit) -> None:
    visit.send(head())
    visit.drip(SAID, every_s=0.01)


def flood(visit: Visit) -> None:
    visit.send(head())
    visit.flood(SAID * 100)


def commits_and_breaks(visit: Visit) -> None:
    visit.send(head())
    visit.silence(0.5)
    visit.reset()


def in_a_body(visit: Visit) -> None:
    visit.send(head(JSON) + b'{"choices"')
    visit.silence()


# Script, kind of model, whether a stream is asked for, whether the caller leaves before the stop.
POINTS: list[tuple[Script, str, bool, bool]] = [
    (before_the_head, "alone", True, False),
    (before_the_head, "alone", False, False),
    (before_the_head, "drain", True, True),
    (after_the_head, "alone", True, False),
    (after_content, "alone", True, False),
    (after_content, "drain", True, False),
    (after_content, "drain", True, True),
    (among_content, "alone", True, False),
    (among_content, "drain", True, True),
    # Nobody reads these, so that they wait in a write.
    (flood, "alone", True, False),
    (flood, "drain", True, False),
    (commits_and_breaks, "pair", True, False),
    (in_a_body, "alone", False, False),
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
