"""Leases as rows: who may take, pick up, hand on and undo one at which moment, and what is written
down of it."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from interns import hosts, leases
from interns.history import REAPER
from interns.jobs.reaper import ReapCounts, _give_up, publish_waiting, reap
from interns.leases import InternLease, LeaseLost
from interns.machine import MoveRule
from interns.models import Intern, InternTransition, LeaseKind, Status
from interns.runtime.driver import current_driver
from tests.interns.farm import Farm

pytestmark = [pytest.mark.django_db, pytest.mark.both]
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
TICK = timedelta(microseconds=1)
LATER = NOW + timedelta(hours=1)


@pytest.fixture
def interns(farm: Farm) -> list[Intern]:
    """Two that are alike, down to the moment of their last change."""
    ids = [farm.new()["id"] for _ in range(2)]
    Intern.objects.update(updated_at=NOW - timedelta(days=1))
    return [farm.row(each) for each in ids]


def read(intern: Intern) -> Intern:
    return Intern.objects.select_related("workspace", "creator").get(pk=intern.pk)


def take(intern: Intern, kind: LeaseKind = LeaseKind.PROVISION, **more: Any) -> InternLease:
    asked: Any = {"by": "me", "now": NOW} | more
    lease = leases.take(read(intern), kind, **asked)
    assert lease is not None
    return lease


def pick_up(lease: InternLease, now: datetime = NOW) -> InternLease:
    found = leases.pick_up(lease, by="worker", now=now)
    assert found is not None
    return found[1]


def history() -> list[Any]:
    names = "rule", "from_status", "to_status", "why", "by", "at"
    rows = InternTransition.objects.exclude(rule=MoveRule.CREATED)
    return list(rows.order_by("pk").values_list(*names))


def expiry_of(intern: Intern) -> datetime | None:
    return read(intern).lease_expires_at


def test_a_lease_is_held_until_it_expires() -> None:
    intern = Intern(lease_expires_at=NOW)
    assert [leases.is_held(intern, at) for at in (NOW - TICK, NOW)] == [True, False]
    assert not leases.is_held(Intern(), NOW)


def test_one_takes_what_is_free_and_as_it_was_read_and_no_other_moves(interns) -> None:
    intern, other = interns
    lease = take(intern, host="far")
    row = read(intern)
    begun = row.status, row.status_since, row.updated_at, row.progress_step, row.lease_attempt
    assert begun == (Status.QUEUED, NOW, NOW, 1, 0)
    assert (row.lease_id, row.operation_id, row.host) == (lease.lease_id, lease.operation_id, "far")
    assert (row.lease_expires_at, row.operation_since) == (NOW + leases.lease_term(), NOW)
    assert (row.provision_requested, row.picked_at) == (False, None)
    assert (read(other).lease_id, read(other).status) == (None, other.status)
    assert history() == [("T4", other.status, "queued", "", "me", NOW)]

    # What was read is outdated by any change, and by a move above all.
    nobody: Any = {"by": "me", "now": NOW}
    stale = read(other)
    Intern.objects.filter(pk=other.pk).update(updated_at=NOW)
    assert leases.take(stale, LeaseKind.PROVISION, **nobody) is None
    stale = read(other)
    Intern.objects.filter(pk=other.pk).update(status=Status.FAILED)
    assert leases.take(stale, LeaseKind.PROVISION, **nobody) is None
    assert len(history()) == 1


def test_what_is_held_is_taken_from_its_expiry_on(interns) -> None:
    intern, other = interns
    for each in interns:
        Intern.objects.filter(pk=each.pk).update(status=Status.RUNNING, host="far")
    take(intern, LeaseKind.SUSPEND, why="idle", host=None)
    take(other, LeaseKind.SUSPEND)
    expires_at = NOW + leases.lease_term()
    before: Any = {"by": "me", "now": expires_at - TICK}
    at: Any = {"by": "me", "now": expires_at}
    assert leases.take(read(intern), LeaseKind.SUSPEND, **before) is None
    assert leases.take(read(intern), LeaseKind.DELETE, why="away", **at) is not None
    assert (read(intern).status, read(intern).host) == (Status.DESTROYING, "far")
    # A suspension moves nothing yet.
    assert [(rule, source, target, why) for rule, source, target, why, *_ in history()] == [
        ("", "running", "running", "idle"),
        ("", "running", "running", f"{LeaseKind.SUSPEND.label} asked for"),
        ("T15", "running", "destroying", "away"),
    ]


def test_a_move_may_be_of_another_rule_than_the_usual_one(interns) -> None:
    take(interns[0], rule=MoveRule.SLACK_INSTALLED)
    assert [rule for rule, *_ in history()] == ["T5"]


def test_an_operation_whose_message_never_left_leaves_nothing_behind(interns) -> None:
    intern, other = interns
    Intern.objects.update(acknowledge_workspace_loss=False, provision_requested=True)
    before = read(intern)
    lease = take(intern, host="far", acknowledge_workspace_loss=True)
    theirs = take(other)
    assert leases.undo_take(lease, before, by="me", why="no queue")
    row = read(intern)
    for name in ("status", "status_since", "progress_step", "host", "provision_requested"):
        assert getattr(row, name) == getattr(before, name), name
    assert (row.lease_id, row.lease_kind, row.acknowledge_workspace_loss) == (None, "", False)
    assert read(other).lease_id == theirs.lease_id
    *_, (rule, source, target, why, by, _) = history()
    assert (rule, source, target, why, by) == ("", "queued", before.status, "no queue", "me")
    assert not leases.undo_take(lease, before, by="me", why="no queue")
    # What a worker has it goes on with, even where the message's lease were its own.
    Intern.objects.filter(pk=other.pk).update(picked_at=NOW)
    assert not leases.undo_take(theirs, before, by="me", why="no queue")
    assert read(other).lease_id == theirs.lease_id


def test_a_worker_of_its_machine_picks_it_up_once(interns, settings) -> None:
    intern, other = interns
    far, lease = take(other, host="far"), take(intern)
    assert leases.pick_up(far, by="worker", now=LATER) is None
    found = leases.pick_up(lease, by="worker", now=LATER)
    assert found is not None
    seen, mine = found
    row = read(intern)
    picked_up = row.status, row.status_since, row.picked_at, row.updated_at, row.progress_step
    assert picked_up == (Status.PROVISIONING, LATER, LATER, LATER, 1)
    assert (seen.status, seen.lease_id) == (row.status, row.lease_id)
    assert (mine.lease_id, mine.host) == (row.lease_id, settings.INTERN_HOST)
    assert row.lease_expires_at == LATER + leases.lease_term()
    assert history()[-1] == ("T8", "queued", "provisioning", "", "worker", LATER)
    assert leases.pick_up(lease, by="worker", now=LATER) is None
    # Nobody else's operation begins a step, and it moves nothing.
    stopping = pick_up(take(make_running(other), LeaseKind.SUSPEND), LATER)
    assert (read(other).status, read(other).progress_step) == (Status.RUNNING, None)
    assert stopping.kind == LeaseKind.SUSPEND
    assert history()[-1][0] == ""


def make_running(intern: Intern) -> Intern:
    """The intern as a free one that runs here."""
    free = {**leases.NO_LEASE, "progress_step": None}
    Intern.objects.filter(pk=intern.pk).update(**free, status=Status.RUNNING, host="local")
    return read(intern)


def test_only_who_holds_the_lease_writes_and_ends_it(interns) -> None:
    intern, other = interns
    lost, mine = pick_up(take(intern)), pick_up(take(other))
    Intern.objects.filter(pk=intern.pk).update(lease_id=uuid4(), updated_at=NOW)
    ends: Any = (MoveRule.STEP_FAILED, Status.FAILED)
    for act in (
        lambda: leases.write(lost, name="x"),
        lambda: leases.settle(lost, *ends, by="worker"),
        lambda: leases.begin_step(lost, 2, by="worker"),
    ):
        with pytest.raises(LeaseLost):
            act()
    assert not leases.release(lost, by="worker", why="x")
    assert not leases.renew(lost, now=LATER)
    assert read(intern).updated_at == NOW

    assert leases.renew(mine, now=LATER)
    assert expiry_of(other) == LATER + leases.lease_term()
    leases.write(mine, description="said")
    leases.begin_step(mine, 3, by="worker", boot_id=mine.operation_id)
    row = read(other)
    assert (row.description, row.progress_step, row.boot_id) == ("said", 3, mine.operation_id)
    assert row.updated_at > LATER
    assert history()[-1][:5] == ("T9", "provisioning", "provisioning", "step 3", "worker")
    leases.settle(mine, *ends, by="worker", why="w" * 501, failure="f" * 1001)
    row = read(other)
    assert (row.status, row.lease_id, row.progress_step) == (Status.FAILED, None, None)
    assert (len(row.status_reason), len(row.last_failure_message or "")) == (500, 1000)
    rule, _, _, why, by, at = history()[-1]
    assert (rule, set(why), by, at) == ("T11", {"f"}, "worker", row.status_since)


def test_an_end_without_a_failure_says_why(interns) -> None:
    lease = pick_up(take(make_running(interns[0]), LeaseKind.SUSPEND))
    leases.settle(lease, MoveRule.SUSPENDED, Status.STOPPED, by="worker", why="idle")
    row = read(interns[0])
    assert (row.last_failure_message, row.status_reason) == (None, "idle")
    assert history()[-1][:5] == ("T13", "running", "stopped", "idle", "worker")


def test_an_expired_operation_is_handed_on_once_and_its_attempts_are_counted(interns) -> None:
    intern, other = interns
    for each in interns:
        pick_up(take(each))
    stale, at = read(intern), NOW + leases.lease_term()
    assert leases.reissue(stale, now=at - TICK, counts=True) is None
    assert not leases.extend(stale, now=at - TICK)
    again = leases.reissue(stale, now=at, counts=True)
    assert again is not None
    row = read(intern)
    handed_on = row.lease_id, row.operation_id, row.lease_attempt, row.picked_at
    assert handed_on == (again.lease_id, stale.operation_id, 1, None)
    assert row.lease_expires_at == at + leases.lease_term()
    assert (read(other).lease_attempt, expiry_of(other)) == (0, at)

    # It expires again; who had read it before goes by a lease that is gone.
    after = at + leases.lease_term()
    assert leases.reissue(stale, now=after, counts=True) is None
    assert not leases.extend(stale, now=after)
    leases.undo_reissue(again, now=at, counts=True)
    row = read(intern)
    assert (row.lease_attempt, row.lease_expires_at) == (0, at)
    assert leases.extend(row, now=at)
    assert expiry_of(intern) == after
    leases.undo_reissue(again, now=at, counts=False)
    assert (read(intern).lease_attempt, expiry_of(intern)) == (0, at)
    # A worker that has it is not disturbed.
    Intern.objects.filter(pk=intern.pk).update(picked_at=NOW)
    leases.undo_reissue(again, now=NOW, counts=True)
    assert (read(intern).lease_attempt, expiry_of(intern)) == (0, at)


def test_a_reaper_sees_to_its_own_machine_s_expired_leases(farm, interns, monkeypatch) -> None:
    intern, far = interns
    take(intern)
    take(far, host="far")
    free = farm.row(farm.new()["id"])
    at = NOW + leases.lease_term()
    assert reap(current_driver(), now=at - TICK) == ReapCounts()
    assert reap(current_driver(), now=at) == ReapCounts(again=1)
    assert publish_waiting() == 1
    assert {each.intern_id for each in farm.queue.messages} == {intern.pk}
    assert (read(far).lease_attempt, read(free).lease_id) == (0, None)
    # No attempt was lost of what nobody began; what a worker lost is done again, whoever works.
    assert read(intern).lease_attempt == 0
    farm.queue.has_worker = False
    Intern.objects.filter(pk=intern.pk).update(picked_at=NOW)
    assert reap(current_driver(), now=at + leases.lease_term()) == ReapCounts(again=1)
    assert read(intern).lease_attempt == 1
    farm.queue.down = True
    assert publish_waiting() == 0
    # What was renewed since it was looked at goes on.
    assert not _give_up(read(intern), current_driver(), NOW)
    # A machine whose name another one has sees to nothing.
    farm.queue.down = False
    monkeypatch.setattr(hosts, "is_impostor", lambda: True)
    assert (publish_waiting(), reap(current_driver())) == (0, ReapCounts())
    assert ReapCounts(1, 2, 3).add(ReapCounts(10, 20, 30)) == (11, 22, 33)
    assert history()[-1][4] != REAPER
