"""A child that dies comes back, but not for ever."""

import os
import signal

import pytest

from gateway.run.child import Restarts
from tests.support.running import StartRun

pytestmark = pytest.mark.thorough

CHILDREN = {
    "web": "gunicorn",
    "worker": " worker@",
    "interns": " interns@",
    "intern-control": " intern-control@",
    "beat": " beat ",
    "simulator": "routing.simulator",
    "valkey": "valkey-server",
}


def test_a_child_that_dies_comes_back_but_not_the_fifth_time(start_run: StartRun) -> None:
    run = start_run()
    facts = run.ready()
    run.until(lambda: all(run.children(part) for part in CHILDREN.values()), "all of them")
    first = {name: run.children(part) for name, part in CHILDREN.items()}

    for pids in first.values():
        os.kill(pids[0], signal.SIGKILL)

    for name, part in CHILDREN.items():
        news = f"gateway: {name} died (SIGKILL); restarting in 0.5 s"
        run.until(lambda news=news: news in run.stderr, news)  # type: ignore[misc]  # Bound now.
        run.until(lambda n=name, p=part: not set(run.children(p)) <= set(first[n]), name)  # type: ignore[misc]  # Bound now.
    run.until(lambda: run.probe("/readyz", facts["root_url"]) == 200, "readiness")
    run.until(lambda: run.probe("/_health", facts["simulator_url"]) == 200, "the simulator")
    while run.process.poll() is None:
        for pid in run.children(" beat "):
            os.kill(pid, signal.SIGKILL)
        run.until(
            lambda: bool(run.children(" beat ")) or run.process.poll() is not None,
            "beat or the end",
        )

    assert run.process.returncode != 0
    assert "gateway: beat died 5 times within a minute; giving up" in run.stderr
    assert run.stderr.count("beat died (SIGKILL)") == 4
    run.wait_gone(within_s=1)


def test_the_back_off_doubles_and_forgets_and_the_fifth_death_in_a_minute_is_the_last() -> None:
    restarts = Restarts()
    assert [restarts.after_death(now) for now in (0, 1, 2, 3)] == [0.5, 1, 2, 4]
    assert restarts.after_death(200) == 0.5
    restarts = Restarts()
    assert [restarts.after_death(now) for now in (0, 10, 20, 30, 59)][-1] is None
