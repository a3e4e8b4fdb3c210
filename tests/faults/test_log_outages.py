"""A queue that is gone is one log line of each process when it goes and one when it returns."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.bed import Bed
from tests.support.running import SUPERVISOR, Run
from tests.support.valkey import ValkeyServer

pytestmark = pytest.mark.thorough
# Two of beat's ticks, several reconnections of each worker, and a good many polls.
GONE_S = 8.0
STORES = ("gateway.stores", "gateway.hints")
Line = dict[str, Any]


class Watch:
    """The lines of a run from here on."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._begin = len(run.stderr)

    def read(self) -> list[Line]:
        return [json.loads(line) for line in self._run.stderr[self._begin :].splitlines()]

    def count(self, text: str, *, logger: str = "gateway.stores") -> Counter[int]:
        """Lines with this text, by process."""
        found = (line for line in self.read() if line["logger"] == logger)
        return Counter(line["process"] for line in found if text in line["message"])


@pytest.fixture
def run(
    tmp_path_factory: pytest.TempPathFactory, stores: Bed, valkey: ValkeyServer
) -> Iterator[Run]:
    env = {
        "DATABASE_URL": stores.create(),
        "REDIS_URL": valkey.url,
        "LOG_FORMAT": "json",
        "HOLD_SWEEP_SECONDS": "2",
        "INTERN_REAPER_SECONDS": "2",
    }
    # Parts of the run are told by their command lines, and this test's own name has such words.
    running = Run(tmp_path_factory.mktemp("home"), env, command=SUPERVISOR)
    running.ready()
    yield running
    running.clean_up()


def test_workers_and_beat_say_once_that_the_queue_is_gone_and_once_that_it_is_back(
    run: Run, valkey: ValkeyServer
) -> None:
    masters = {run.children(part)[0] for part in ("worker@", "interns@", "intern-control@", "beat")}
    web = run.children("gunicorn")[-1]
    watch = Watch(run)

    valkey.stop()
    time.sleep(GONE_S)
    valkey.start()

    run.until(
        lambda: watch.count("queue answers again").keys() >= masters, "their return", within_s=60
    )
    # The processes of their pools follow them.
    run.until(
        lambda: watch.count("queue does not") == watch.count("queue answers"),
        "every process's return",
        within_s=60,
    )
    assert set(watch.count("queue does not").values()) == {1}, watch.read()
    # A web process has a line of its own, which a busy machine may bring again: it was slow.
    run.until(
        lambda: web in watch.count("answers again", logger="gateway.hints"), "the web process's"
    )
    assert find_others(watch) == []


def find_others(watch: Watch) -> list[Line]:
    """What was worth a warning beside the stores, and beside the simulated 503s of Thrifty."""
    lines = (line for line in watch.read() if line["logger"] not in (*STORES, "routing.upstreams"))
    return [line for line in lines if line["level"] not in ("DEBUG", "INFO")]
