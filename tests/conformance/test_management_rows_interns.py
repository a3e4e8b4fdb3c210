"""Rows 45 to 58 of the management reference's section 19: the life of interns, with real workers on
a driver that runs nothing."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.bed import Bed
from tests.support.gateways import StartGateway
from tests.support.promptness import in_time
from tests.support.ranch import Ranch, ranch_of

pytestmark = [pytest.mark.both, pytest.mark.timeout(180), pytest.mark.thorough]


@pytest.fixture(scope="module")
def ranch(tmp_path_factory: pytest.TempPathFactory, stores: Bed) -> Iterator[Ranch]:
    folder = tmp_path_factory.mktemp("ranch")
    settings = {"REGIONAL_HOSTS": "eu.example.com=europe", "INTERNS_MAX_PER_MEMBER": "100"}
    with StartGateway(stores, folder) as starter:
        ranch = ranch_of(starter, folder / "r", **settings)
        ranch.start()
        yield ranch
        ranch.stop()


@pytest.fixture(autouse=True)
def heal_script(request: pytest.FixtureRequest) -> None:
    if "ranch" in request.fixturenames:
        request.getfixturevalue("ranch").script.heal()


def refused(response: Any, status: int, reason: str | None = None) -> Any:
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert error["code"] == status
    if reason is None:
        assert "metadata" not in error
    else:
        assert error["metadata"]["reason"] == reason
    return error


def test_provisioning_ends_in_running(ranch: Ranch) -> None:
    intern_id = ranch.new("worker")

    assert ranch.ok("POST", f"/interns/{intern_id}/provision", status=202) == {"provisioning": True}
    ranch.eventually(intern_id, "running")
    running = ranch.ok("GET", f"/interns/{intern_id}")
    assert running["hostname"] == "worker.interns.localhost"
    assert running["progress"] is None


def test_suspending_and_resuming(ranch: Ranch) -> None:
    intern_id = ranch.running("sleeper")
    path = f"/interns/{intern_id}"
    hostname = ranch.ok("GET", path)["hostname"]

    assert ranch.ok("POST", f"{path}/suspend") == {"suspended": True}
    stopped = ranch.ok("GET", path)
    assert (stopped["status"], stopped["hostname"]) == ("stopped", hostname)
    error = refused(ranch.call("POST", f"{path}/suspend"), 409, "invalid_state")
    assert error["metadata"]["retryable"] is False
    ranch.ok("POST", f"{path}/provision", status=202)
    ranch.eventually(intern_id, "running")


def test_a_slow_stop_is_a_timeout_that_undoes_nothing(ranch: Ranch) -> None:
    intern_id = ranch.running("slow")
    ranch.script.fail("stop", {"delay_s": 12})

    began = time.monotonic()
    error = refused(ranch.call("POST", f"/interns/{intern_id}/suspend"), 408, "timeout")
    in_time(time.monotonic() - began, 10.5)
    assert error["metadata"]["retryable"] is True
    assert error["message"] == "Operation timed out after 10s. Please try again later."
    ranch.eventually(intern_id, "stopped")


def test_a_missing_archive_is_to_be_acknowledged(ranch: Ranch) -> None:
    intern_id = ranch.running("archived")
    path = f"/interns/{intern_id}"
    fault = {"error": "disk broken", "code": "workspace_archive_failed"}
    ranch.script.fail("archive", fault, always=True)

    assert ranch.ok("DELETE", path, status=202) == {"deleting": True}
    ranch.eventually(intern_id, "destroy_failed")
    failed = ranch.ok("GET", path)
    assert "workspace_archive_failed" in failed["last_failure_message"]
    refused(ranch.call("DELETE", path), 409, "workspace_archive_failed")
    said = {"acknowledge_workspace_loss": True}
    assert ranch.ok("DELETE", path, said, status=202) == {"deleting": True}
    ranch.eventually(intern_id, "")
