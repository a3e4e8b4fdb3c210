"""Interns in a run: none outlives it, however it ends."""

import os
import signal
from typing import Any

import pytest
import requests

from tests.support.running import Run, StartRun

pytestmark = [pytest.mark.timeout(180), pytest.mark.thorough]
STOP_S = 10.0


class Keeper:
    """The demo account's key at a run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        facts = run.ready()
        self._base, self.pid = facts["base_url"], facts["pid"]
        self._headers = {"Authorization": f"Bearer {facts['api_key']}"}

    def call(self, method: str, path: str, **options: Any) -> Any:
        url = f"{self._base}{path}"
        response = requests.request(method, url, headers=self._headers, timeout=30, **options)
        assert response.ok, response.text
        return response.json()

    def running(self) -> str:
        made = self.call("POST", "/interns", json={"name": "research", "provision": True})
        self.until(made["id"], "running")
        intern_id: str = made["id"]
        return intern_id

    def until(self, intern_id: str, status: str) -> None:
        def there() -> bool:
            seen = self.call("GET", f"/interns/{intern_id}")
            assert seen["status"] != "failed", (seen, self._run.stderr)
            return bool(seen["status"] == status)

        self._run.until(there, status, within_s=60)


def test_none_outlives_a_killed_supervisor(start_run: StartRun) -> None:
    run = start_run()
    keeper = Keeper(run)
    keeper.running()

    os.kill(keeper.pid, signal.SIGKILL)
    run.process.wait(STOP_S)
    run.wait_gone(within_s=15)
