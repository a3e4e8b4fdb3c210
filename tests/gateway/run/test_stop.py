"""However a run ends, nothing of it is left."""

import signal
import time

import pytest

from tests.support.promptness import in_time
from tests.support.running import StartRun

pytestmark = pytest.mark.thorough

STOP_S = 10.0
# Each of the two is tried on one of the two ways in at every commit, SIGTERM to the pid in
# tests/outside.
NIGHTLY_INT = pytest.param(signal.SIGINT, marks=pytest.mark.nightly)
NIGHTLY_TERM = pytest.param(signal.SIGTERM, marks=pytest.mark.nightly)


@pytest.mark.parametrize("number", [NIGHTLY_TERM, NIGHTLY_INT])
def test_a_signal_to_its_pid_stops_it(start_run: StartRun, number: int) -> None:
    run = start_run()
    asked = time.monotonic()

    status = run.stop(number, pid=run.ready()["pid"])

    assert status == 0
    in_time(time.monotonic() - asked, STOP_S + 20)  # The start is in it.
    assert not run.ready_file.exists()


@pytest.mark.parametrize("number", [NIGHTLY_TERM, signal.SIGINT])
def test_a_signal_to_make_stops_it(start_run: StartRun, number: int) -> None:
    run = start_run()
    run.ready()
    asked = time.monotonic()

    status = run.stop(number)

    # GNU make ends by the signal it got, once everything under it has ended well.
    assert status in {0, -number}
    in_time(time.monotonic() - asked, STOP_S)
    assert not run.ready_file.exists()


def test_a_stop_during_the_start_leaves_nothing(start_run: StartRun) -> None:
    run = start_run()
    run.until(lambda: bool(run.children("gateway.run.prepare")), "preparing")

    run.stop(signal.SIGTERM)

    assert not run.ready_file.exists()
