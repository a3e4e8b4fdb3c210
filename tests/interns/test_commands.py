"""Commands that mirror what operators do on the pages."""

import json
from contextlib import nullcontext
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from gateway.home import write_private
from interns import leases
from interns.management.commands import suspend_interns
from interns.models import Intern, LeaseKind
from interns.vault.service import read_managed
from tests.interns.farm import Farm

pytestmark = [pytest.mark.django_db, pytest.mark.both]


class Serial:
    """Threads have connections of their own, which do not see a test's transaction."""

    def __init__(self, workers: int) -> None:
        self.map = map

    def __enter__(self) -> "Serial":
        return self

    def __exit__(self, *_: object) -> None:
        return None


@pytest.fixture(autouse=True)
def serial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suspend_interns, "ThreadPoolExecutor", Serial)


def run_json(*arguments: str, status: int = 0) -> Any:
    """The JSON of a command."""
    out = StringIO()
    with pytest.raises((SystemExit, CommandError)) if status else nullcontext() as ended:
        call_command(*arguments, "--json", stdout=out)
    if ended is not None:
        end: Any = ended.value
        assert status == (end.code if isinstance(end, SystemExit) else end.returncode)
    return json.loads(out.getvalue())


def test_a_whole_life_by_commands(farm: Farm) -> None:
    made = farm.new("research")
    name = f"{farm.account.name}/research"
    farm.queue.at_once = True
    assert run_json("provision_intern", name) == {"intern_id": made["id"], "provisioning": True}
    listed = run_json("interns", "--account", farm.account.name)
    assert (listed["interns"][0]["status"], listed["counts"]["running"]) == ("running", 1)
    assert run_json("interns", "--status", "stopped")["interns"] == []
    host = "research.interns.localhost"
    assert run_json("suspend_interns", host) == {"suspended": [made["id"]], "failed": {}}
    assert list(run_json("suspend_interns", host, status=1)["failed"]) == [made["id"]]
    assert run_json("delete_intern", made["id"]) == {"intern_id": made["id"], "deleting": True}
    assert "There is no intern" in run_json("provision_intern", name, status=1)["error"]


def test_all_are_suspended_here_without_a_queue(farm: Farm) -> None:
    """When everything stops."""
    running = [farm.create_running()["id"] for _ in range(2)]
    waiting = farm.new()["id"]
    farm.queue.down = True
    assert "Name interns" in run_json("suspend_interns", status=2)["error"]
    failed = run_json("suspend_interns", waiting, "--here", status=1)["failed"]
    assert list(failed) == [waiting]
    done = run_json("suspend_interns", "--all", "--here")
    assert sorted(done["suspended"]) == sorted(running)
    assert {farm.get(each)["status"] for each in running} == {"stopped"}
    assert {farm.row(each).status_reason for each in running} == {"the gateway stopped"}
    assert farm.script.runtimes() == {}


def test_without_the_run_of_its_home_nothing_is_asked_for(
    farm: Farm, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = farm.new()
    monkeypatch.setenv("GATEWAY_HOME", str(tmp_path))
    write_private(tmp_path / "secrets" / "demo.json", "{}")
    settings.REDIS_URL = ""
    assert "start the gateway" in run_json("provision_intern", made["id"], status=1)["error"]
    assert farm.get(made["id"])["status"] == made["status"]


def test_a_name_of_two_interns_names_none(farm: Farm) -> None:
    farm.new("research")
    farm.ok("POST", "/interns", {"name": "research"}, status=201, key=farm.admin_key)
    name = f"{farm.account.name}/research"
    assert "several interns" in run_json("provision_intern", name, status=1)["error"]


def test_a_stuck_operation_is_released(farm: Farm) -> None:
    made = farm.create_running()
    row = farm.row(made["id"])
    leases.take(row, LeaseKind.SUSPEND, by="test", now=row.created_at)
    released = {"intern_id": made["id"], "released": "suspend", "status": "running"}
    assert run_json("release_intern", made["id"]) == released
    assert "Nothing holds" in run_json("release_intern", made["id"], status=1)["error"]


def test_slack_tokens_come_on_stdin(
    farm: Farm, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.INTERN_REQUIRE_SLACK_INSTALL = True
    made = farm.new(provision=True)
    monkeypatch.setattr("sys.stdin", StringIO("xoxb-1\n"))
    assert run_json("slack_installed", made["id"], "--tokens")["provisioning"] is True
    assert read_managed(Intern.objects.get().pk, "slack_tokens") == "xoxb-1"
    assert "not in a state" in run_json("slack_installed", made["id"], status=1)["error"]


def test_differences_are_an_exit_status(farm: Farm) -> None:
    made = farm.create_running()
    assert run_json("reconcile_interns")["lost"] == []
    farm.script.lose(made["id"])
    assert run_json("reconcile_interns", "--dry-run", status=1)["lost"] == [made["id"]]
    assert run_json("reconcile_interns", status=1)["lost"] == [made["id"]]
    assert run_json("reconcile_interns")["runtimes"] == 0
    farm.script.fail("runtimes", {"error": "no daemon"})
    assert "no daemon" in run_json("reconcile_interns", status=1)["error"]
