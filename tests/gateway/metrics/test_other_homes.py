"""Metrics of what has a home of its own: beat in a container, interns' files on a volume."""

import shutil
import sys
import time
from pathlib import Path

import pytest
from pytest_django import Settings

from gateway.metrics.host import DISK_SIZE, read_beat, read_disk
from tests.support import processes
from tests.support.bed import Bed
from tests.support.manage import PROJECT

SHM = "/dev/shm"  # noqa: S108 - Nothing is written there.


def test_beat_of_another_home_is_heard(stores: Bed, settings: Settings, tmp_path: Path) -> None:
    home = tmp_path / "beat"
    home.mkdir(mode=0o700)
    celery = Path(sys.executable).parent / "celery"
    env = stores.environment(
        home=home, database_url=stores.database_url, redis_url=stores.redis_url
    )
    began = time.time()
    beat = processes.spawn(
        [celery, "--quiet", "-A", "gateway", "beat", "--schedule", home / "schedule", "--pidfile="],
        log=tmp_path / "beat.log",
        # All processes of an installation have the key.
        env=env | {"VAULT_MASTER_KEY": settings.VAULT_MASTER_KEY},
        cwd=PROJECT,
    )

    def is_heard() -> bool:
        return any(each.value >= began for each in read_beat())

    try:
        what = "beat's time"
        processes.eventually(is_heard, within_s=90, what=what, log=tmp_path / "beat.log")
    finally:
        processes.kill(beat)


def test_the_disk_is_that_of_interns(settings: Settings, tmp_path: Path) -> None:
    volume = shutil.disk_usage(SHM)
    if volume.total == shutil.disk_usage(tmp_path).total:
        pytest.skip("there is one disk only")
    settings.GATEWAY_HOME = tmp_path
    sizes = []
    for _ in range(2):
        sizes += [each.value for each in read_disk() if each.family is DISK_SIZE]
        if not (tmp_path / "interns").exists():
            (tmp_path / "interns").symlink_to(SHM)

    assert sizes == [shutil.disk_usage(tmp_path).total, volume.total]
