"""Work beside requests."""

import threading

from routing.statistics.periodic import run_together


def test_work_that_does_not_end_keeps_nobody() -> None:
    done, never = threading.Event(), threading.Event()

    run_together(never.wait, done.set, within_s=0.05)

    assert done.wait(60)
    never.set()
