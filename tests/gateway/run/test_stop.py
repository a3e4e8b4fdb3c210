"""However a run ends, nothing of it is left."""

import os
import signal
import time
from pathlib import Path

import pytest
import requests

from tests.support.manage import manage_process
from tests.support.promptness import in_time
from tests.support.running import StartRun, clean_environment

pytestmark = pytest.mark.thorough

STOP_S = 10.0
# Each of the two is tried on one of the two ways in at every commit, SIGTERM to the pid where a
# stream is in progress.
NIGHTLY_INT = pytest.param(signal.SIGINT, marks=pytest.mark.nightly)
NIGHTLY_TERM = pytest.param(signal.SIGTERM, marks=pytest.mark.nightly)
SLOW_CATALOGUE = """
providers:
  - {{slug: slow, name: Slow, base_url: "{simulator_url}/slow/v1"}}
models:
  - id: slow/model
    name: Slow
    context_length: 1000
    endpoints:
      - {{provider: slow, upstream_model: sim/silence-mid-stream,
         pricing: {{prompt: "0.000001", completion: "0.000001"}}}}
"""


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


def test_who_is_killed_leaves_nothing_and_a_run_starts_again(start_run: StartRun) -> None:
    """First the supervisor, then make."""
    killed = start_run()
    facts = killed.ready()

    os.kill(facts["pid"], signal.SIGKILL)

    assert killed.process.wait(STOP_S) != 0
    killed.wait_gone()
    again = start_run()
    found = again.ready()
    assert found["pid"] != facts["pid"]
    assert found["api_key"] == facts["api_key"]

    again.process.kill()
    again.process.wait(STOP_S)

    again.wait_gone()
    assert not again.ready_file.exists()


def test_a_stream_in_progress_does_not_hold_the_stop_up(
    start_run: StartRun, tmp_path: Path
) -> None:
    run = start_run()
    facts = run.ready()
    catalogue = tmp_path / "slow.yaml"
    catalogue.write_text(SLOW_CATALOGUE.format(**facts))
    env = clean_environment() | {"GATEWAY_HOME": str(run.home)}
    loaded = manage_process(env, "load_catalogue", str(catalogue), "--wait", "--json")
    assert loaded.status == 0, loaded
    body = {"model": "slow/model", "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
    stream = requests.post(
        f"{facts['base_url']}/chat/completions",
        headers={"Authorization": f"Bearer {facts['api_key']}"},
        json=body,
        stream=True,
        timeout=30,
    )
    assert stream.status_code == 200
    assert next(stream.iter_lines(chunk_size=1))
    asked = time.monotonic()

    status = run.stop(signal.SIGTERM, pid=facts["pid"])

    assert status == 0
    in_time(time.monotonic() - asked, STOP_S)
    assert not run.ready_file.exists()
    stream.close()
