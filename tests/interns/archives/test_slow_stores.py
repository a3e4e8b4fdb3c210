"""A store that does not answer ends an archive in time, and nothing is removed because of it."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from gateway.environment.interns import archive_storage
from interns.archives.store import StoreTimedOut, run_with_limit
from interns.leases import LeaseLost
from interns.models import WorkspaceArchive
from tests.gateway.outbound.raw_upstream import Peer, RawUpstream
from tests.interns.archives.s3 import FakeS3, set_credentials
from tests.interns.farm import Farm
from tests.support.promptness import in_time

SILENCE_S, WHOLE_S = 0.3, 1.5
# Two silences and the pause between the tries; a busy machine takes some more.
GIVEN_UP_S = 15.0
FAILED = "workspace_archive_failed: the archive could not be kept: "


@pytest.fixture
def elsewhere(farm: Farm, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Has archives kept by the S3 server at a URL."""
    set_credentials(monkeypatch)
    settings.INTERN_ARCHIVE_STORE = place = "s3://bucket"

    def use(url: str, silence_s: float, whole_s: float = WHOLE_S) -> None:
        settings.INTERN_ARCHIVE_SECONDS = whole_s
        kept = archive_storage(place, url, tmp_path, silence_s=silence_s)
        settings.STORAGES = {**settings.STORAGES, "intern-archives": kept}

    return use


@pytest.mark.django_db
def test_a_store_that_is_silent(farm: Farm, elsewhere: Any) -> None:
    made = farm.create_suspended()
    intern_id = made["id"]
    farm.queue.at_once = True
    with RawUpstream(Peer.hold) as silent:
        elsewhere(silent.url, SILENCE_S)
        began = time.monotonic()
        farm.ok("DELETE", f"/interns/{intern_id}", status=202)
        in_time(time.monotonic() - began, GIVEN_UP_S)
    failed = farm.get(intern_id)
    assert failed["status"] == "destroy_failed"
    assert failed["last_failure_message"].startswith(FAILED)
    # All else is as it was.
    assert list(farm.script.read()["disks"]) == [intern_id]
    assert farm.row(intern_id).lease_id is None
    assert not WorkspaceArchive.objects.exists()
    # Once it works the disk is still there to be kept.
    with FakeS3() as s3:
        elsewhere(s3.url, GIVEN_UP_S, whole_s=60)
        farm.expect_refusal(409, "workspace_archive_failed", "DELETE", f"/interns/{intern_id}")
        word = {"acknowledge_workspace_loss": True}
        farm.ok("DELETE", f"/interns/{intern_id}", word, status=202)
        farm.get(intern_id, status=404)
        assert list(s3.objects) == [f"bucket/{intern_id}.tar"]
    assert WorkspaceArchive.objects.count() == 1


def test_a_store_that_takes_its_time_is_given_up() -> None:
    over = threading.Event()
    with pytest.raises(StoreTimedOut, match=r"the store took more than 0\.05 s"):
        run_with_limit(over.wait, 0.05, lambda: None)
    over.set()


def test_whoever_lost_the_lease_does_not_wait_for_the_store() -> None:
    over = threading.Event()

    def alive() -> None:
        raise LeaseLost

    with pytest.raises(LeaseLost):
        run_with_limit(over.wait, 60, alive)
    over.set()


def test_what_is_done_in_time_is_given_back() -> None:
    assert run_with_limit(lambda: 7, 60, lambda: None) == 7
    with pytest.raises(ZeroDivisionError):
        run_with_limit(lambda: 1 // 0, 60, lambda: None)
