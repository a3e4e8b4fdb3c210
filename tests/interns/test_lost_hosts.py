"""Machines that die, and come back: no intern runs twice, none is lost, and owners are told."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from accounts.models import Event
from interns import hosts, operations
from interns.jobs.archiving import archive_disks
from interns.jobs.heartbeat import Heartbeat
from interns.jobs.moving import move_interns
from interns.jobs.prober import probe_all
from interns.jobs.reconcile import reconcile
from interns.models import Intern, InternHost, LeaseKind
from interns.runtime import host_lease
from interns.runtime.driver import current_driver
from tests.interns.farm import carry_out
from tests.interns.machines import Machines
from tests.interns.test_commands import run_json

pytestmark = pytest.mark.django_db


def archived_and_running(machines: Machines, name: str) -> Any:
    """An intern there that was archived, and has written a file since."""
    made = machines.running_on(name)
    machines.suspend(made)
    assert archive_disks(machines.on(name)) == 1
    machines.farm.ok("POST", f"/interns/{made['id']}/provision", status=202)
    assert machines.work() == [name]
    machines.write_file(name, made, "since.txt")
    return made


def events(made: Any) -> list[str]:
    rows = Event.objects.filter(data__intern_id=made["id"]).order_by("at")
    return list(rows.values_list("kind", flat=True))


def test_what_ran_on_a_dead_machine_runs_elsewhere_as_archived_and_nowhere_twice(
    machines: Machines,
) -> None:
    made = archived_and_running(machines, "a")
    machines.silence("a")
    assert move_interns() == 2
    (now_on,) = machines.work()
    assert now_on != "a"
    assert machines.farm.get(made["id"])["status"] == "running"
    assert machines.script(now_on).read()["disks"][made["id"]] == ["notes.txt"]
    assert events(made) == ["intern.host_lost"]
    event = Event.objects.get(kind="intern.host_lost")
    assert (event.account_id, event.data["host"]) == (machines.farm.account.pk, "a")
    assert machines.farm.rules(made["id"]).count("T21") == 1

    # The machine comes back with what it ran: it owns nothing of it any more.
    assert made["id"] in machines.script("a").runtimes()
    machines.beat("a")
    assert probe_all(machines.on("a")) == 0
    assert reconcile(machines.on("a")).leaked == [made["id"]]
    assert machines.places(made) == [now_on]
    assert move_interns() == 0


def test_a_disk_that_nobody_archived_waits_for_its_machine(machines: Machines) -> None:
    made = machines.running_on("a")
    machines.silence("a")
    assert move_interns() == 1
    got = machines.farm.get(made["id"])
    assert got["status"] == "failed"
    assert got["last_failure_message"].startswith("host_lost: its machine a is gone")
    assert events(made) == ["intern.failed"]
    # Asked for, it waits rather than begin with nothing.
    machines.farm.ok("POST", f"/interns/{made['id']}/provision", status=202)
    assert [lease.host for lease in machines.farm.queue.messages] == ["a"]
    machines.beat("a")
    assert machines.work() == ["a"]
    assert machines.places(made) == ["a"]
    assert machines.script("a").read()["disks"][made["id"]] == ["notes.txt"]


def test_nobody_is_gone_while_nobody_was_heard_of(machines: Machines) -> None:
    """As after an outage of the database: who looks first sees all others silent."""
    made = archived_and_running(machines, "a")
    past = datetime.now(UTC) - timedelta(hours=1)
    InternHost.objects.update(last_seen_at=past, alive_since=past)
    machines.beat("b")
    assert (hosts.list_gone(datetime.now(UTC)), move_interns()) == ([], 0)
    assert machines.farm.get(made["id"])["status"] == "running"
    machines.beat("a", "c")
    InternHost.objects.update(alive_since=past)
    assert hosts.list_gone(datetime.now(UTC)) == []


@pytest.mark.parametrize("is_begun", [False, True])
def test_a_boot_that_its_machine_does_not_finish_is_made_elsewhere(
    machines: Machines, is_begun: bool
) -> None:
    made = machines.farm.new(provision=True)
    lease = machines.farm.queue.messages.popleft()
    if is_begun:
        rows = Intern.objects.filter(pk=made["id"])
        rows.update(status="provisioning", picked_at=datetime.now(UTC))
    machines.silence(lease.host)
    assert move_interns() == 2
    (now_on,) = machines.work()
    assert now_on != lease.host
    assert machines.places(made) == [now_on]
    # No disk was lost, so there is nothing to tell.
    assert events(made) == []
    machines.on(lease.host)
    assert not carry_out(lease)
    assert machines.places(made) == [now_on]


def test_one_that_was_being_suspended_stays_stopped(machines: Machines) -> None:
    made = archived_and_running(machines, "a")
    operations.begin_suspend(machines.farm.row(made["id"]).pk, by="test")
    machines.farm.queue.messages.clear()
    machines.silence("a")
    assert move_interns() == 1
    assert machines.farm.get(made["id"])["status"] == "stopped"
    assert move_interns() == 0


def test_a_stopped_one_boots_with_its_older_archive_and_its_owner_is_told(
    machines: Machines,
) -> None:
    made = archived_and_running(machines, "a")
    machines.suspend(made)
    machines.farm.queue.messages.clear()
    # While its machine may be back in a moment, it is waited for.
    InternHost.objects.filter(name="a").update(last_seen_at=datetime.now(UTC) - timedelta(hours=1))
    machines.on("b")
    assert (
        hosts.place(
            machines.farm.row(made["id"]),
            LeaseKind.PROVISION,
            account_id=machines.farm.account.pk,
        )
        == "a"
    )
    machines.silence("a")
    machines.farm.ok("POST", f"/interns/{made['id']}/provision", status=202)
    (now_on,) = machines.work()
    assert machines.script(now_on).read()["disks"][made["id"]] == ["notes.txt"]
    assert events(made) == ["intern.host_lost"]


def test_a_teardown_goes_on_elsewhere_or_says_what_is_lost(machines: Machines) -> None:
    kept, lost = machines.running_on("a"), machines.running_on("a")
    machines.suspend(kept)
    archive_disks(machines.on("a"))
    for each in (kept, lost):
        machines.farm.ok("DELETE", f"/interns/{each['id']}", status=202)
    machines.farm.queue.messages.clear()
    machines.silence("a")
    assert move_interns() == 2
    assert "a" not in machines.work()
    machines.farm.get(kept["id"], status=404)
    got = machines.farm.get(lost["id"])
    assert got["status"] == "destroy_failed"
    assert got["last_failure_message"].startswith("workspace_archive_failed: ")
    # The machine is back before anybody acknowledged the loss: nothing is lost.
    machines.beat("a")
    acknowledged = {"acknowledge_workspace_loss": True}
    machines.farm.ok("DELETE", f"/interns/{lost['id']}", acknowledged, status=202)
    assert machines.work() == ["a"]
    machines.farm.get(lost["id"], status=404)
    assert machines.script("a").calls("archive")[-1] == ["archive", lost["id"]]


def test_a_teardown_waits_for_no_machine_that_is_gone_while_others_are_drained(
    machines: Machines,
) -> None:
    made = machines.running_on("a")
    machines.suspend(made)
    archive_disks(machines.on("a"))
    machines.silence("a")
    InternHost.objects.update(draining=True)
    machines.farm.ok("DELETE", f"/interns/{made['id']}", status=202)
    assert "a" not in machines.work()
    machines.farm.get(made["id"], status=404)


def test_what_waits_where_no_worker_is_left_goes_on_elsewhere(machines: Machines) -> None:
    fixed = machines.running_on("a")
    machines.suspend(fixed)
    made = machines.farm.new(provision=True)
    machines.farm.ok("POST", f"/interns/{fixed['id']}/provision", status=202)
    assert [lease.host for lease in machines.farm.queue.messages] == ["a", "a"]
    machines.farm.queue.messages.clear()
    machines.farm.queue.unread.add("a")
    assert move_interns() == 0
    for each in (made, fixed):
        machines.farm.age(each["id"])
    # The disk of the other one is only there.
    assert move_interns() == 2
    (now_on,) = machines.work()
    assert machines.places(made) == [now_on]
    assert now_on != "a"
    assert machines.farm.get(fixed["id"])["status"] == "queued"
    assert move_interns() == 0
    # Nothing new is placed there, as long as others work.
    other = machines.farm.new(provision=True)
    assert "a" not in machines.work()
    machines.farm.queue.unread |= {"b", "c"}
    machines.farm.ok("DELETE", f"/interns/{other['id']}", status=202)
    machines.work()
    machines.farm.get(other["id"], status=404)


@pytest.mark.parametrize("end", ["was_fenced", "was_stopped"])
def test_one_that_had_to_stop_where_it_is_boots_again_there(machines: Machines, end: str) -> None:
    made = archived_and_running(machines, "a")
    machines.script("a").sicken(made["id"], {"ok": False, "exited": True, end: True})
    machines.script("a").lose(made["id"])
    assert reconcile(machines.on("a")).lost == []
    assert probe_all(machines.on("a")) == 1
    assert machines.farm.get(made["id"])["status"] == "stopped"
    assert move_interns() == 1
    # So does a boot that is cut short in the same way, however often.
    for _ in range(3):
        assert machines.work() == ["a"]
        assert machines.farm.get(made["id"])["status"] == "provisioning"
        machines.farm.expire(made["id"])
        assert machines.farm.reap() == (1, 0, 0)
    machines.script("a").heal()
    assert machines.work() == ["a"]
    assert machines.farm.get(made["id"])["status"] == "running"
    assert machines.script("a").read()["disks"][made["id"]] == ["notes.txt", "since.txt"]
    assert events(made) == []


def test_what_waits_for_a_machine_that_was_never_there_boots_on_one_that_is(
    machines: Machines,
) -> None:
    InternHost.objects.all().delete()
    made = machines.farm.new(provision=True)
    (lease,) = machines.farm.queue.messages
    machines.farm.queue.messages.clear()
    assert lease.host == "local"
    machines.beat("b")
    assert move_interns() == 0
    machines.farm.age(made["id"])
    assert move_interns() == 2
    assert machines.work() == ["b"]


def test_a_machine_s_interns_have_a_bound_while_there_are_others(
    machines: Machines, settings: Any
) -> None:
    machines.on("a")
    file = Path(settings.GATEWAY_HOME) / "run" / host_lease.FILE_NAME
    compared: list[bool] = []

    def compare() -> bool:
        compared.append(True)
        return len(compared) > 1

    heartbeat = Heartbeat(compare)
    before = host_lease.read_clock()
    heartbeat.beat()
    until = float(file.read_text())
    assert before < until < host_lease.read_clock() + settings.INTERN_HOST_SECONDS
    assert not host_lease.is_over(file)
    for _ in range(3):
        heartbeat.beat()
    # Until it could be told once.
    assert len(compared) == 2
    # After a time in which it was not heard of, they are compared again.
    host_lease.write_lease(file, before)
    assert host_lease.is_over(file)
    heartbeat.beat()
    assert (len(compared), host_lease.is_over(file)) == (3, False)
    InternHost.objects.exclude(name="a").delete()
    heartbeat.beat()
    assert not file.exists()


def test_a_machine_is_struck_off_once_nothing_is_only_there(machines: Machines) -> None:
    made = machines.running_on("a")
    assert "is alive" in run_json("interns_host", "forget", "a", status=1)["error"]
    machines.silence("a")
    assert "still up there" in run_json("interns_host", "forget", "a", status=1)["error"]
    machines.beat("a")
    machines.suspend(made)
    archive_disks(current_driver())
    machines.silence("a")
    assert run_json("interns_host", "forget", "a") == {"host": "a", "forgotten": True}
    assert "ever heard of" in run_json("interns_host", "forget", "a", status=1)["error"]
