"""Interns on several machines: where they boot, and how their disks follow them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from interns import hosts, leases, operations
from interns.archives.service import archive_stopped, find_current_archive
from interns.jobs.archiving import archive_disks, list_unarchived, remove_destroyed
from interns.jobs.heartbeat import Heartbeat, hold_heartbeat_lock
from interns.jobs.moving import move_interns
from interns.jobs.prober import probe_all
from interns.jobs.reaper import publish_waiting, reap
from interns.jobs.reconcile import reconcile
from interns.models import Intern, InternHost, WorkspaceArchive
from interns.runtime.driver import current_driver
from tests.interns.farm import Farm, carry_out
from tests.interns.machines import NAMES, Machines
from tests.interns.test_commands import run_json
from tests.support.scripted_driver import WorkerDied

pytestmark = pytest.mark.django_db


def test_two_machines_of_one_name_are_not_taken_for_one(machines: Machines, settings: Any) -> None:
    now = datetime.now(UTC)
    machines.on("a")
    assert hosts.write_heartbeat(now)
    settings.GATEWAY_HOME = settings.GATEWAY_HOME.parent / "another"
    assert not hosts.write_heartbeat(now)
    assert hosts.write_heartbeat(now + timedelta(seconds=settings.INTERN_HOST_SECONDS + 1))


def test_a_machine_with_another_s_name_leaves_its_interns_alone(
    machines: Machines, settings: Any
) -> None:
    made = machines.running_on("a")
    driver = machines.on("a")
    other = machines.farm.new(provision=True)
    (lease,) = machines.farm.queue.messages
    assert lease.host == "a"
    machines.script("a").forget()
    machines.farm.expire(other["id"])
    home, settings.GATEWAY_HOME = settings.GATEWAY_HOME, settings.GATEWAY_HOME.parent / "another"
    assert (probe_all(driver), reap(driver), publish_waiting()) == (0, (0, 0, 0), 0)
    assert reconcile(driver).is_clean
    assert not carry_out(lease)
    assert machines.farm.get(made["id"])["status"] == "running"
    settings.GATEWAY_HOME = home
    assert probe_all(driver) == 1
    assert carry_out(lease)


def test_machines_count_by_the_clock_of_the_database(machines: Machines) -> None:
    with connection.cursor() as cursor:
        # An hour ahead of every machine's own.
        cursor.execute("CREATE SCHEMA ahead")
        cursor.execute(
            "CREATE FUNCTION ahead.statement_timestamp() RETURNS timestamptz LANGUAGE sql AS "
            "$$ SELECT pg_catalog.statement_timestamp() + interval '1 hour' $$"
        )
        cursor.execute("SET LOCAL search_path = ahead, pg_catalog, public")
    hour = timedelta(hours=1)
    InternHost.objects.update(alive_since=datetime.now(UTC) - hour)
    machines.on("a")
    Heartbeat(lambda: True).beat()
    assert InternHost.objects.get(name="a").last_seen_at > datetime.now(UTC) + hour / 2
    shown = {each["name"]: each["alive"] for each in run_json("interns_host", "list")["hosts"]}
    assert shown == {"a": True, "b": False, "c": False}
    assert hosts.list_other_hosts() == []


def test_an_account_s_interns_are_spread_and_stay_where_they_were_put(machines: Machines) -> None:
    made = [machines.farm.create_running() for _ in range(6)]
    assert sorted(machines.places(each) for each in made) == [[n] for n in NAMES for _ in "12"]
    for each in made:
        row = machines.farm.row(each["id"])
        assert [row.host] == [row.disk_host] == machines.places(each)
    # What one machine looks after is its own.
    for name in NAMES:
        assert probe_all(machines.on(name)) == 0
        assert reconcile(machines.on(name)).is_clean
    machines.script("b").forget()
    assert probe_all(machines.on("a")) == 0
    assert probe_all(machines.on("b")) == 2


def test_a_message_that_comes_to_another_machine_is_left_alone(machines: Machines) -> None:
    made = machines.farm.new(provision=True)
    lease = machines.farm.queue.messages.popleft()
    others = [name for name in NAMES if name != lease.host]
    for name in others:
        machines.on(name)
        assert not carry_out(lease)
        machines.farm.expire(made["id"])
        assert reap(current_driver()) == (0, 0, 0)
        assert publish_waiting() == 0
    machines.on(lease.host)
    assert publish_waiting() == 1
    assert machines.work() == [lease.host]
    assert machines.places(made) == [lease.host]


def test_a_drained_machine_s_interns_run_elsewhere_with_their_files(machines: Machines) -> None:
    made, idle = machines.running_on("a"), machines.running_on("a")
    machines.write_file("a", made, "later.txt")
    machines.suspend(idle)
    assert run_json("interns_host", "drain", "a")["draining"] is True

    assert move_interns() == 1
    assert machines.work() == ["a"]
    # Not before its disk can be fetched.
    assert (move_interns(), machines.farm.get(made["id"])["status"]) == (0, "stopped")
    assert archive_disks(machines.on("a")) == 2
    assert move_interns() == 1
    (now_on,) = machines.work()
    assert now_on != "a"

    assert machines.farm.get(made["id"])["status"] == "running"
    assert machines.places(made) == [now_on]
    assert machines.script(now_on).read()["disks"][made["id"]] == ["notes.txt", "later.txt"]
    # Nobody asked for the other one to run.
    assert machines.farm.get(idle["id"])["status"] == "stopped"
    left = run_json("interns_host", "drain", "a", "--wait", "1")
    assert (left["up"], left["unarchived"]) == (0, 0)
    assert move_interns() == 0


def test_one_that_waits_for_a_machine_can_be_stopped(machines: Machines) -> None:
    made = machines.running_on("a")
    run_json("interns_host", "drain", "a")
    assert move_interns() == 1
    machines.work()
    machines.farm.ok("POST", f"/interns/{made['id']}/suspend")
    assert archive_disks(machines.on("a")) == 1
    assert move_interns() == 0
    assert machines.farm.get(made["id"])["status"] == "stopped"
    machines.farm.expect_refusal(409, "invalid_state", "POST", f"/interns/{made['id']}/suspend")


def test_an_intern_that_comes_back_finds_what_it_had_last(machines: Machines) -> None:
    made = machines.running_on("a")
    for name, file in (("b", "of-a.txt"), ("a", "of-b.txt"), ("c", "of-a-again.txt")):
        before = machines.farm.row(made["id"]).host
        machines.write_file(before, made, file)
        machines.suspend(made)
        assert archive_disks(current_driver()) == 1
        InternHost.objects.update(draining=True)
        InternHost.objects.filter(name=name).update(draining=False)
        machines.farm.ok("POST", f"/interns/{made['id']}/provision", status=202)
        assert machines.work() == [name]
    files = ["notes.txt", "of-a.txt", "of-b.txt", "of-a-again.txt"]
    assert machines.script("c").read()["disks"][made["id"]] == files
    # Of all archives the last is kept.
    assert WorkspaceArchive.objects.filter(intern_id=made["id"]).count() == 1


def test_a_disk_that_changed_is_no_longer_in_its_archive(machines: Machines) -> None:
    made = machines.running_on("a")
    machines.suspend(made)
    before = machines.farm.row(made["id"])
    assert archive_stopped(before, machines.on("a")) is not None
    assert hosts.can_move(before)
    InternHost.objects.exclude(name="a").update(draining=True)
    machines.farm.ok("POST", f"/interns/{made['id']}/provision", status=202)
    machines.work()
    machines.suspend(made)
    after = machines.farm.row(made["id"])
    assert not hosts.can_move(after)
    # One that was read while it booted again is not kept.
    WorkspaceArchive.objects.all().delete()
    assert archive_stopped(before, machines.on("a")) is None
    assert not WorkspaceArchive.objects.exists()
    assert archive_disks(machines.on("a")) == 1
    assert find_current_archive(after) is not None


def test_an_archive_that_is_damaged_boots_nothing(machines: Machines, tmp_path: Path) -> None:
    made = machines.running_on("a")
    machines.suspend(made)
    archive_disks(machines.on("a"))
    for file in (tmp_path / "archives").glob("*.tar"):
        file.write_bytes(b"[]")
    run_json("interns_host", "drain", "a")
    machines.farm.ok("POST", f"/interns/{made['id']}/provision", status=202)
    machines.work()
    got = machines.farm.get(made["id"])
    assert got["status"] == "failed"
    assert got["last_failure_message"].startswith("workspace_archive_failed: ")
    # Its disk is where it was.
    assert machines.farm.row(made["id"]).disk_host == "a"
    assert machines.script("a").read()["disks"][made["id"]] == ["notes.txt"]


def test_what_destroyed_interns_left_behind_goes_and_nothing_else(
    machines: Machines, settings: Any
) -> None:
    made, other = machines.running_on("a"), machines.running_on("a")
    machines.suspend(made)
    archive_disks(machines.on("a"))
    past = datetime.now(UTC) - timedelta(days=400)
    WorkspaceArchive.objects.update(expires_at=past)
    machines.silence("a")
    machines.farm.ok("DELETE", f"/interns/{made['id']}", status=202)
    (worked,) = machines.work()
    assert worked != "a"
    machines.farm.get(made["id"], status=404)
    # Its archive is kept from now on, not from when it was made.
    kept_until = WorkspaceArchive.objects.get(intern_id=made["id"]).expires_at
    assert kept_until is not None
    assert kept_until > datetime.now(UTC)

    home = machines.on("a")
    stranger = UUID(int=7)
    for intern_id in (made["id"], other["id"], stranger):
        folder = settings.GATEWAY_HOME / "interns" / str(intern_id)
        folder.mkdir(parents=True, exist_ok=True)
    assert remove_destroyed(home) == 1
    assert set(machines.script("a").read()["disks"]) == {other["id"]}


def test_where_nobody_can_fetch_a_disk_all_stays_as_it_is(
    machines: Machines, settings: Any
) -> None:
    made = machines.running_on("a")
    settings.INTERN_ARCHIVE_STORE = ""
    machines.suspend(made)
    assert archive_disks(machines.on("a")) == 0
    assert "INTERN_ARCHIVE_STORE" in run_json("interns_host", "drain", "a", status=1)["error"]
    InternHost.objects.filter(name="a").update(draining=True)
    machines.farm.ok("POST", f"/interns/{made['id']}/provision", status=202)
    assert machines.work() == ["a"]
    assert move_interns() == 0


def test_one_machine_alone_archives_nothing_before_a_teardown(
    farm: Farm, settings: Any, tmp_path: Path
) -> None:
    settings.INTERN_ARCHIVE_STORE = "s3://common"
    settings.GATEWAY_HOME = tmp_path / "alone"
    hosts.write_heartbeat(datetime.now(UTC))
    made = farm.create_suspended()
    assert archive_disks(current_driver()) == 0
    assert list_unarchived("local") == [Intern.objects.get(pk=made["id"])]
    # Nor has it any to fetch where somebody removed a disk.
    farm.script.forget()
    farm.ok("POST", f"/interns/{made['id']}/provision", status=202)
    farm.queue.work()
    assert farm.get(made["id"])["status"] == "running"


def test_a_machine_installed_anew_fetches_what_it_lost(machines: Machines) -> None:
    made, unkept = machines.running_on("a"), machines.running_on("a")
    machines.write_file("a", made, "later.txt")
    for each in (made, unkept):
        machines.suspend(each)
    assert archive_disks(machines.on("a")) == 2
    WorkspaceArchive.objects.filter(intern_id=unkept["id"]).delete()
    machines.script("a").forget()
    # What a first attempt put back in part is not booted by a second one.
    machines.script("a").fail("restore", {"error": "broke off"})
    machines.farm.ok("POST", f"/interns/{made['id']}/provision", status=202)
    assert machines.work() == ["a"]
    assert machines.farm.get(made["id"])["status"] == "failed"
    machines.script("a").fail("restore", {"die": "before"})
    for each in (made, unkept):
        machines.farm.ok("POST", f"/interns/{each['id']}/provision", status=202)
    with pytest.raises(WorkerDied):
        machines.work()
    assert machines.script("a").read()["disks"] == {made["id"]: []}
    machines.farm.expire(made["id"])
    machines.farm.reap()
    assert machines.work() == ["a", "a"]
    assert machines.script("a").read()["disks"] == {made["id"]: ["notes.txt", "later.txt"]}
    got = machines.farm.get(unkept["id"])
    assert got["status"] == "failed"
    assert got["last_failure_message"].startswith("workspace_archive_failed: its disk is gone")


def test_a_disk_may_take_longer_to_fetch_than_a_boot(machines: Machines, settings: Any) -> None:
    made = machines.running_on("a")
    machines.suspend(made)
    archive_disks(machines.on("a"))
    InternHost.objects.exclude(name="b").update(draining=True)
    settings.INTERN_PROVISION_SECONDS = 2
    machines.script("b").fail("restore", {"delay_s": 2.1})
    machines.farm.ok("POST", f"/interns/{made['id']}/provision", status=202)
    assert machines.work() == ["b"]
    assert machines.places(made) == ["b"]


def test_a_machine_gets_another_name_before_others_take_its_interns(machines: Machines) -> None:
    made = machines.running_on("a")
    machines.on("a")
    with hold_heartbeat_lock():
        assert "is alive" in run_json("interns_host", "rename", "a", "d", status=1)["error"]
    assert "Another machine" in run_json("interns_host", "rename", "a", "b", status=1)["error"]
    operations.begin_suspend(machines.farm.row(made["id"]).pk, by="test")
    picked = leases.pick_up(machines.farm.queue.messages.pop(), by="test", now=datetime.now(UTC))
    assert picked is not None
    assert "under way" in run_json("interns_host", "rename", "a", "d", status=1)["error"]
    assert leases.release(picked[1], by="test", why="its worker stopped")
    assert run_json("interns_host", "rename", "a", "d")["interns"] == 1
    machines.silence("b")
    assert move_interns() == 0
    assert machines.farm.row(made["id"]).host == "d"


def test_a_machine_gets_another_name(machines: Machines) -> None:
    made = machines.running_on("a")
    machines.on("b")
    assert "is alive" in run_json("interns_host", "rename", "a", "d", status=1)["error"]
    machines.silence("a")
    renamed = run_json("interns_host", "rename", "a", "d")
    assert renamed == {"host": "d", "was": "a", "interns": 1, "disks": 1}
    row = machines.farm.row(made["id"])
    assert (row.host, row.disk_host) == ("d", "d")
    shown = {each["name"]: each for each in run_json("interns_host", "list")["hosts"]}
    assert set(shown) == {"b", "c"}
    assert shown["b"]["alive"] is True
