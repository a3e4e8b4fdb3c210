"""Metrics of what has a home of its own: beat in a container, interns' files on a volume."""

import shutil
import sys
from pathlib import Path

import pytest
import requests
from pytest_django import Settings

from gateway.metrics.host import DISK_SIZE, read_disk
from tests.support import processes
from tests.support.gateways import StartGateway
from tests.support.manage import PROJECT

# All processes of an installation have it.
KEY = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
SHM = "/dev/shm"  # noqa: S108 - Nothing is written there.


def test_beat_of_another_home_is_shown(start_gateway: StartGateway, tmp_path: Path) -> None:
    server = start_gateway(METRICS_BIND="127.0.0.1:0", VAULT_MASTER_KEY=KEY)
    url = (Path(server.env["GATEWAY_HOME"]) / "run" / "metrics" / "url").read_text().strip()
    home = tmp_path / "beat"
    home.mkdir(mode=0o700)
    celery = Path(sys.executable).parent / "celery"
    beat = processes.spawn(
        [celery, "--quiet", "-A", "gateway", "beat", "--schedule", home / "schedule", "--pidfile="],
        log=tmp_path / "beat.log",
        env=server.env | {"GATEWAY_HOME": str(home)},
        cwd=PROJECT,
    )
    try:
        name = "gateway_beat_timestamp_seconds 1"
        server.wait_until(lambda: name in requests.get(url, timeout=10).text, within_s=90)
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
