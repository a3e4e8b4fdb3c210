"""W6: suspend, delete and provision against each other, twenty at once: never two operations, and
every refusal is the table's."""

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction

from interns.models import Intern, Vault
from tests.faults.test_w1_workers_die import SHORT
from tests.support.bed import Bed
from tests.support.callers import at_a_time
from tests.support.promptness import in_time
from tests.support.ranch import Ranch, running_ranch

pytestmark = [pytest.mark.timeout(300), pytest.mark.thorough]
REASONS = {"intern_busy": True, "invalid_state": False}


@pytest.fixture(scope="module")
def one_ranch(stores: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranch]:
    settings = {**SHORT, "INTERN_LEASE_SECONDS": "30", "INTERN_OPERATION_SECONDS": "4"}
    with running_ranch(stores, tmp_path_factory.mktemp("w6"), **settings) as ranch:
        yield ranch


@pytest.fixture
def ranch(one_ranch: Ranch) -> Iterator[Ranch]:
    yield one_ranch
    one_ranch.clear()


def race(ranch: Ranch, intern_id: str, *, delete: bool) -> Counter[Any]:
    """Twenty requests at once: how often each status and reason was answered."""
    path = f"/interns/{intern_id}"
    asked = [("POST", f"{path}/suspend"), ("POST", f"{path}/provision")]
    if delete:
        asked.append(("DELETE", path))
    seen: Counter[Any] = Counter()

    def one(number: int) -> None:
        began = time.monotonic()
        response = ranch.call(*asked[number % len(asked)])
        in_time(time.monotonic() - began, 5.0)
        reason = ""
        if response.status_code == 409:
            said = response.json()["error"]["metadata"]
            assert REASONS[said["reason"]] is said["retryable"]
            reason = said["reason"]
        seen[response.status_code, reason] += 1

    at_a_time(20, 20, one)
    return seen


@pytest.mark.parametrize("number", range(3))
def test_never_two_operations_at_once(ranch: Ranch, number: int) -> None:
    intern_id = ranch.running(f"raced-{number}")
    ranch.script.fail("stop", {"delay_s": 0.3}, always=True)

    seen = race(ranch, intern_id, delete=False)
    assert set(seen) <= {
        *((200, ""), (202, ""), (409, "intern_busy"), (409, "invalid_state")),
    }
    assert seen[200, ""] >= 1
    ranch.eventually(intern_id, "stopped", "running")
    assert len(ranch.script.runtimes()) <= 1


def test_one_deletion_wins(ranch: Ranch) -> None:
    intern_id = ranch.running("deleted")
    ranch.script.fail("stop", {"delay_s": 0.3}, always=True)

    seen = race(ranch, intern_id, delete=True)
    assert set(seen) <= {
        *((200, ""), (202, ""), (404, ""), (409, "intern_busy"), (409, "invalid_state")),
    }
    ranch.script.heal()
    if ranch.settled(intern_id):
        ranch.ok("DELETE", f"/interns/{intern_id}", status=202)
    ranch.eventually(intern_id, "")
    assert ranch.script.runtimes() == {}


def test_a_runtime_that_will_not_stop_undoes_nothing(ranch: Ranch, tmp_path: Path) -> None:
    intern_id = ranch.running("stubborn")
    hang = tmp_path / "hang"
    hang.touch()
    ranch.script.fail("stop", {"hang": str(hang)})

    began = time.monotonic()
    response = ranch.call("POST", f"/interns/{intern_id}/suspend")
    assert response.status_code == 408
    in_time(time.monotonic() - began, 4.5)
    for method, end in (("POST", "/suspend"), ("POST", "/provision"), ("DELETE", "")):
        refused = ranch.call(method, f"/interns/{intern_id}{end}")
        assert (refused.status_code, refused.json()["error"]["metadata"]["reason"]) == (
            409,
            "intern_busy",
        )
    hang.unlink()
    assert ranch.eventually(intern_id, "stopped") == "stopped"


def test_a_request_that_waits_for_a_row_is_over_in_time(ranch: Ranch, orm_of: Any) -> None:
    intern_id = ranch.new("locked")
    with orm_of(ranch.server), transaction.atomic():
        Intern.objects.select_for_update().get(pk=intern_id)
        began = time.monotonic()
        response = ranch.call("POST", f"/interns/{intern_id}/provision")
        assert response.status_code == 408, response.text
        in_time(time.monotonic() - began, 4.5)
        assert ranch.status(intern_id) == "awaiting_slack_install"

    ranch.ok("POST", f"/interns/{intern_id}/provision", status=202)
    assert ranch.eventually(intern_id, "running") == "running"


def test_a_vault_whose_row_is_held_is_over_in_time(ranch: Ranch, orm_of: Any) -> None:
    intern_id = ranch.new("sealed")
    path = f"/vault/interns/{intern_id}/secrets/token"
    body = {"value": "v", "hosts": ["api.example.com"]}
    with orm_of(ranch.server), transaction.atomic():
        Vault.objects.select_for_update().get(intern=UUID(intern_id))
        began = time.monotonic()
        response = ranch.call("PUT", path, body)
        in_time(time.monotonic() - began, 4.5)
    said = {"code": 408, "message": "Operation timed out. Please try again later."}
    assert (response.status_code, response.json()) == (408, {"error": said})
    assert ranch.ok("PUT", path, body)["data"]["name"] == "token"


def test_a_long_provisioning_keeps_no_suspension_waiting(ranch: Ranch, tmp_path: Path) -> None:
    running = ranch.running("running")
    hang = tmp_path / "hang"
    hang.touch()
    ranch.script.fail("start", {"hang": str(hang)}, always=True)
    slow = [ranch.new(f"slow-{number}", provision=True) for number in range(5)]

    assert ranch.call("POST", f"/interns/{running}/suspend").status_code == 200
    hang.unlink()
    for intern_id in slow:
        assert ranch.eventually(intern_id, "running", "failed") == "running"
