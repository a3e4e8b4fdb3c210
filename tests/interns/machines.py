"""Three machines for interns, in process. Each has a driver and a home of its own; the database,
the queue and the archive store are common."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from interns import hosts
from interns.models import InternHost
from interns.runtime import driver
from interns.runtime.driver import current_driver
from tests.interns.farm import Farm, carry_out
from tests.support.scripted_driver import FOLDER, Script

GIB = 1 << 30
NAMES = ("a", "b", "c")


class Machines:
    """Three machines; what the test does is done on the one that it is on."""

    def __init__(self, folder: Path, farm: Farm, settings: Any, patch: pytest.MonkeyPatch) -> None:
        self._folder, self.farm = folder, farm
        self._settings, self._patch = settings, patch

    def on(self, name: str) -> Any:
        """Go on on that machine; its driver."""
        self._settings.INTERN_HOST = name
        self._settings.GATEWAY_HOME = self._folder / name
        self._patch.setenv(FOLDER, str(self._folder / name / "runtimes"))
        driver._load_driver.cache_clear()
        return current_driver()

    def script(self, name: str) -> Script:
        return Script(self._folder / name / "runtimes")

    def beat(self, *names: str) -> None:
        """Have them be alive, with 16 GiB of memory."""
        for name in names:
            self.on(name)
            assert hosts.write_heartbeat(datetime.now(UTC))
        InternHost.objects.filter(name__in=names).update(free_memory_bytes=16 * GIB)

    def silence(self, name: str) -> None:
        """Have it not been heard of for an hour, in which the others were."""
        past = datetime.now(UTC) - timedelta(hours=1)
        InternHost.objects.filter(name=name).update(last_seen_at=past)
        InternHost.objects.update(alive_since=past)

    def work(self) -> list[str]:
        """Carry out all messages, each on its machine; the machines."""
        done = []
        while self.farm.queue.messages:
            lease = self.farm.queue.messages.popleft()
            self.on(lease.host)
            assert carry_out(lease)
            done.append(lease.host)
        return done

    def running_on(self, name: str) -> Any:
        """An intern that was placed there: no other machine has as much memory."""
        InternHost.objects.exclude(name=name).update(free_memory_bytes=GIB)
        InternHost.objects.filter(name=name).update(free_memory_bytes=64 * GIB)
        made = self.farm.create_running()
        assert self.farm.row(made["id"]).host == name
        return made

    def suspend(self, made: Any) -> None:
        self.on(self.farm.row(made["id"]).host)
        self.farm.queue.at_once = True
        self.farm.ok("POST", f"/interns/{made['id']}/suspend")
        self.farm.queue.at_once = False

    def write_file(self, name: str, made: Any, file: str) -> None:
        with self.script(name).change_state() as state:
            state["disks"][made["id"]].append(file)

    def places(self, made: Any) -> list[str]:
        """The machines on which it runs."""
        return [name for name in NAMES if made["id"] in self.script(name).runtimes()]
