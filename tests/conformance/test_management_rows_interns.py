"""Rows 45 to 58 of the management reference's section 19: the life of interns, with real workers on
a driver that runs nothing."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.bed import Bed
from tests.support.gateways import StartGateway, seed_account
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
def healed(request: pytest.FixtureRequest) -> None:
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


def test_creation_and_its_replay(ranch: Ranch) -> None:
    body = {"name": "research"}
    made = ranch.ok("POST", "/interns", body, status=201)

    assert made["status"] == "awaiting_slack_install"
    assert made["vault_id"] is not None
    assert (made["hostname"], made["progress"]) == (None, None)
    assert ranch.ok("POST", "/interns", body)["id"] == made["id"]
    refused(ranch.call("POST", "/interns", {**body, "description": "x"}), 409, "name_taken")


@pytest.mark.parametrize("name", ["R", "a", "abcdefghijklmnopqr", "a--b", "1a"])
def test_names_that_are_none(ranch: Ranch, name: str) -> None:
    refused(ranch.call("POST", "/interns", {"name": name}), 400, "invalid_body")


def test_who_sees_no_intern(ranch: Ranch) -> None:
    intern_id = ranch.new("unseen")

    manager = ranch.account.management_key
    error = refused(ranch.call("GET", f"/interns/{intern_id}", key=manager), 401)
    assert error["message"] == "Invalid or missing API key"
    error = refused(ranch.call("GET", "/interns/none"), 404, "not_found")
    assert error["metadata"]["retryable"] is False
    regional = {"headers": {"Host": "eu.example.com"}}
    refused(ranch.call("GET", f"/interns/{intern_id}", **regional), 403)


def test_provisioning_ends_in_running(ranch: Ranch) -> None:
    intern_id = ranch.new("worker")

    assert ranch.ok("POST", f"/interns/{intern_id}/provision", status=202) == {"provisioning": True}
    ranch.eventually(intern_id, "running")
    running = ranch.ok("GET", f"/interns/{intern_id}")
    assert running["hostname"] == "worker.interns.localhost"
    assert running["progress"] is None


def test_a_provision_says_nothing(ranch: Ranch) -> None:
    path = f"/interns/{ranch.new('silent')}/provision"

    refused(ranch.call("POST", path, {"force": True}), 400, "invalid_body")
    plain = {"data": b"x", "headers": {"Content-Type": "text/plain"}}
    refused(ranch.call("POST", path, **plain), 415, "unsupported_media_type")


def test_a_held_intern_is_busy(ranch: Ranch) -> None:
    intern_id = ranch.new("held")
    ranch.script.fail("start", {"delay_s": 1.0})
    ranch.ok("POST", f"/interns/{intern_id}/provision", status=202)

    error = refused(ranch.call("POST", f"/interns/{intern_id}/provision"), 409, "intern_busy")
    assert error["metadata"]["retryable"] is True
    ranch.eventually(intern_id, "running")


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


def test_a_queue_that_is_down(tmp_path_factory: pytest.TempPathFactory, stores: Bed) -> None:
    folder = tmp_path_factory.mktemp("no-queue")
    with StartGateway(stores, folder) as starter:
        ranch = ranch_of(starter, folder / "r", redis_url="redis://127.0.0.1:1/0")
        ranch.server.start()
        ranch.account = seed_account(ranch.server)
        intern_id = ranch.new("untold")

        asked = ranch.call("POST", f"/interns/{intern_id}/provision")
        error = refused(asked, 502, "upstream_unavailable")
        assert error["metadata"]["retryable"] is True
        assert ranch.status(intern_id) == "awaiting_slack_install"


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


def test_a_body_that_is_too_large(ranch: Ranch) -> None:
    path = f"/interns/{ranch.new('large')}"
    body = b'{"acknowledge_workspace_loss": true' + b" " * 1_048_541 + b"}"
    assert len(body) == 1_048_577

    json = {"data": body, "headers": {"Content-Type": "application/json"}}
    error = refused(ranch.call("DELETE", path, **json), 413, "payload_too_large")
    assert error["message"] == "Request body exceeds 1048576 bytes"
    json["data"] = body[:-2] + b"}"
    assert ranch.call("DELETE", path, **json).status_code == 202
