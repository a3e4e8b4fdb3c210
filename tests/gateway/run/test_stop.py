"""However a run ends, nothing of it is left."""

import signal
import time

import pytest

from tests.support.promptness import in_time
from tests.support.running import StartRun

pytestmark = pytest.mark.thorough

STOP_S = 10.0


# At every commit SIGINT to make is tried at the end of a start, SIGTERM to the pid in
# tests/outside.
@pytest.mark.nightly
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("whom", ["make", "its pid"])
def test_a_signal_stops_it(start_run: StartRun, number: int, whom: str) -> None:
    run = start_run()
    pid = run.ready()["pid"]
    asked = time.monotonic()

    status = run.stop(number, pid=pid if whom == "its pid" else None)

    # GNU make ends by the signal it got, once everything under it has ended well.
    assert status in ({0} if whom == "its pid" else {0, -number})
    in_time(time.monotonic() - asked, STOP_S)
    assert not run.ready_file.exists()


def test_a_stop_during_the_start_leaves_nothing(start_run: StartRun) -> None:
    run = start_run()
    run.until(lambda: bool(run.children("gateway.run.prepare")), "preparing")
    run.stop(signal.SIGTERM)
    assert not run.ready_file.exists()
