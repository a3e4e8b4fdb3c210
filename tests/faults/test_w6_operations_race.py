"""W6: suspend, delete and provision against each other, twenty at once: never two operations, and
every refusal is the table's. W8: the broker dies, and loses all it had, while interns are worked
on: the workers stay, and what waited goes on with the broker."""

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction

from interns.models import Intern, Vault
from tests.faults.test_w1_workers_die import SHORT
from tests.support.bed import Bed
from tests.support.callers import at_a_time
from tests.support.promptness import in_time
from tests.support.ranch import WORKERS, Ranch, running_ranch

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


FINE = {(200, ""), (202, ""), (409, "intern_busy"), (409, "invalid_state")}


def test_never_two_operations_at_once(ranch: Ranch) -> None:
    intern_id = ranch.create_running("raced")
    ranch.script.fail("stop", {"delay_s": 0.3}, always=True)

    seen = race(ranch, intern_id, delete=False)
    assert set(seen) <= FINE
    assert seen[200, ""] >= 1
    ranch.eventually(intern_id, "stopped", "running")
    assert len(ranch.script.runtimes()) <= 1


def test_one_deletion_wins(ranch: Ranch) -> None:
    intern_id = ranch.create_running("deleted")
    ranch.script.fail("stop", {"delay_s": 0.3}, always=True)

    seen = race(ranch, intern_id, delete=True)
    assert set(seen) <= FINE | {(404, "")}
    ranch.script.heal()
    if ranch.wait_until_settled(intern_id):
        ranch.ok("DELETE", f"/interns/{intern_id}", status=202)
    ranch.eventually(intern_id, "")
    assert ranch.script.runtimes() == {}


def test_a_request_that_waits_for_a_row_is_over_in_time(ranch: Ranch, orm_of: Any) -> None:
    """Of an intern, or of its vault."""
    intern_id = ranch.new("locked")
    secret = f"/vault/interns/{intern_id}/secrets/token"
    body = {"value": "v", "hosts": ["api.example.com"]}
    asked = [("POST", f"/interns/{intern_id}/provision", None), ("PUT", secret, body)]
    rows = [Intern.objects.filter(pk=intern_id), Vault.objects.filter(intern=UUID(intern_id))]
    for row, request in zip(rows, asked, strict=True):
        with orm_of(ranch.server), transaction.atomic():
            row.select_for_update().get()
            began = time.monotonic()
            response = ranch.call(*request)
            in_time(time.monotonic() - began, 4.5)
            assert response.status_code == 408, response.text
            assert response.json()["error"]["message"].startswith("Operation timed out")
    assert ranch.status(intern_id) == "awaiting_slack_install"

    ranch.ok(*asked[0], status=202)
    assert ranch.ok(*asked[1])["data"]["name"] == "token"
    assert ranch.eventually(intern_id, "running") == "running"


# --- W8: the broker dies --------------------------------------------------------------------------

# Celery asks a lost broker again after 2, 4, 6, ... seconds. The lease is far above that, so
# nothing here is the reaper's work.
BACK_S = 15.0


# With fewer than the worker has hands for, it waits for the next message as the broker goes.
@pytest.mark.parametrize("interns", [1, 5])
def test_a_broker_that_is_gone_for_a_moment(ranch: Ranch, interns: int) -> None:
    """It goes while interns boot and others wait."""
    pids = {name: ranch.pid(name) for name in WORKERS}
    ranch.script.fail("start", {"delay_s": 1.0}, always=True)
    made = [ranch.new(f"w8-{number}", provision=True) for number in range(interns)]
    ranch.server.wait_until(lambda: "provisioning" in map(ranch.status, made), within_s=30)
    gone_at = time.monotonic()
    ranch.hints.stop()
    # Long enough for every process to miss it.
    time.sleep(0.5)
    ranch.hints.start()
    for intern_id in made:
        assert ranch.eventually(intern_id, "running", "failed", within_s=200) == "running"
    in_time(time.monotonic() - gone_at, BACK_S)
    assert {name: ranch.pid(name) for name in WORKERS} == pids
