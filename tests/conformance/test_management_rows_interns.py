"""Rows 52 and 53 of the management reference's section 19, with a real worker on a driver that runs
nothing. The others are told in process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gateways import StartGateway
from tests.support.ranch import Ranch, ranch_of

pytestmark = [pytest.mark.both, pytest.mark.timeout(180), pytest.mark.thorough]


@pytest.fixture
def ranch(start_gateway: StartGateway, tmp_path: Path) -> Iterator[Ranch]:
    ranch = ranch_of(start_gateway, tmp_path / "r")
    ranch.start()
    yield ranch
    ranch.stop()


def test_suspending_and_resuming(ranch: Ranch) -> None:
    intern_id = ranch.create_running("sleeper")
    path = f"/interns/{intern_id}"
    hostname = ranch.ok("GET", path)["hostname"]

    assert ranch.ok("POST", f"{path}/suspend") == {"suspended": True}
    stopped = ranch.ok("GET", path)
    assert (stopped["status"], stopped["hostname"]) == ("stopped", hostname)
    refused = ranch.call("POST", f"{path}/suspend")
    assert refused.status_code == 409, refused.text
    error = refused.json()["error"]["metadata"]
    assert (error["reason"], error["retryable"]) == ("invalid_state", False)
    ranch.ok("POST", f"{path}/provision", status=202)
    ranch.eventually(intern_id, "running")
