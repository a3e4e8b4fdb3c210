"""Interns in process: a scripted driver, a queue to look into, and somebody who calls."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.interns.farm import Farm, Queue
    from tests.interns.machines import Machines
    from tests.interns.vault.team import Team
    from tests.support.scripted_driver import Script


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator["Script"]:
    from interns.runtime import driver
    from tests.support.scripted_driver import FOLDER, Script

    monkeypatch.setenv(FOLDER, str(tmp_path / "runtimes"))
    settings.INTERN_RUNTIME = "tests.support.scripted_driver.ScriptedDriver"
    driver._load_driver.cache_clear()
    yield Script(tmp_path / "runtimes")
    driver._load_driver.cache_clear()


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> "Queue":
    from interns import hosts, job_queue, operations
    from interns.jobs import reaper
    from tests.interns.farm import Queue

    queue = Queue(job_queue.publish_operation)
    monkeypatch.setattr(job_queue._Publishing, "_publish", lambda sending: queue.take(sending))
    monkeypatch.setattr(operations, "publish_operation", queue.publish)
    monkeypatch.setattr(reaper, "publish_operation", queue.publish)
    monkeypatch.setattr(hosts, "list_unread", queue.list_unread)
    return queue


@pytest.fixture
def farm(db: None, script: "Script", queue: "Queue", tmp_path: Path, settings: Any) -> "Farm":
    from tests.interns.farm import open_farm

    settings.STORAGES = {
        **settings.STORAGES,
        "intern-archives": {
            "BACKEND": "django.core.files.storage.FileSystemStorage",
            "OPTIONS": {"location": str(tmp_path / "archives"), "allow_overwrite": True},
        },
    }
    return open_farm(script, queue)


@pytest.fixture
def machines(
    farm: "Farm", tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> "Machines":
    """Three of them, alive for a moment, with one archive store."""
    from tests.interns.machines import NAMES, Machines

    settings.INTERN_ARCHIVE_STORE = "s3://common"
    made = Machines(tmp_path / "machines", farm, settings, monkeypatch)
    monkeypatch.setattr(farm.queue, "work", lambda: len(made.work()))
    made.beat(*NAMES)
    return made


@pytest.fixture
def team(db: None) -> "Team":
    from tests.interns.vault.team import open_team

    return open_team()
