"""What becomes of work whose messages come twice or late, and whose workers die."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from accounts.models import Event
from interns import leases
from interns.jobs.prober import probe_all
from interns.jobs.reaper import publish_waiting, reap
from interns.leases import InternLease
from interns.machine import STEPS, WAITING_TEXT, MoveRule
from interns.models import Intern, InternTransition, LeaseKind, Status
from interns.operations import release_intern
from interns.runtime.driver import current_driver
from tests.interns.farm import Farm, carry_out, queue_provision

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def pick_up(message: InternLease) -> None:
    """From then on the lease is the worker's, and not that of the message."""
    now = datetime.now(UTC)
    picked = leases.pick_up(message, by="worker", now=now)
    assert picked is not None
    assert leases.renew(picked[1], now=now)
    assert not leases.renew(message, now=now)


def take(farm: Farm, made: Any, kind: LeaseKind = LeaseKind.SUSPEND) -> InternLease:
    taken = leases.take(farm.row(made["id"]), kind, by="test", now=datetime.now(UTC))
    assert taken is not None
    return taken


@pytest.mark.parametrize("kind", list(LeaseKind))
def test_of_five_deliveries_four_find_nothing_to_do(farm: Farm, kind: LeaseKind) -> None:
    if kind == LeaseKind.PROVISION:
        made, message = queue_provision(farm)
    else:
        made = farm.create_running()
        message = take(farm, made, kind)
    before = len(farm.script.calls("start"))
    assert [carry_out(message) for _ in range(5)] == [True, False, False, False, False]
    assert len(farm.script.calls("start")) - before == int(kind == LeaseKind.PROVISION)


def when_it_starts(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], Any]) -> None:
    """What happens behind the back of the next worker that has started a runtime."""
    kind: Any = type(current_driver())
    real = kind.start

    def start(self: Any, plan: Any) -> Any:
        monkeypatch.setattr(kind, "start", real)
        runtime = real(self, plan)
        meanwhile()
        return runtime

    monkeypatch.setattr(kind, "start", start)


def test_a_worker_that_comes_too_late_moves_nothing(
    farm: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lost its lease while it lived on, and another one did the work."""
    made, message = queue_provision(farm)

    def another_does_it() -> None:
        farm.expire(made["id"])
        assert farm.reap().again == 1
        assert farm.queue.work() == 1

    when_it_starts(monkeypatch, another_does_it)
    assert carry_out(message) is True

    row = farm.row(made["id"])
    assert (row.status, row.lease_id) == ("running", None)
    assert farm.script.runtimes() == {made["id"]: str(row.boot_id)}
    assert farm.rules(made["id"]).count("T10") == 1


def test_what_a_late_worker_began_for_nobody_is_stopped(
    farm: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, message = queue_provision(farm)
    row = farm.row(made["id"])
    when_it_starts(monkeypatch, lambda: release_intern(row.pk, by="operator"))
    carry_out(message)
    assert farm.get(made["id"])["last_failure_message"].startswith("operation_lost: ")
    assert farm.script.runtimes() == {}


def test_a_lease_is_handed_on_when_it_has_expired_and_not_before(farm: Farm) -> None:
    """It may have been renewed since the reaper looked."""
    made, message = queue_provision(farm)
    row = farm.row(made["id"])
    assert row.lease_expires_at is not None
    before = row.lease_expires_at - timedelta(microseconds=1)
    assert leases.reissue(row, now=before, counts=True) is None
    assert leases.extend(row, now=before) is False
    assert reap(current_driver(), now=before) == (0, 0, 0)
    assert farm.row(made["id"]).lease_id == message.lease_id
    assert leases.extend(row, now=row.lease_expires_at)
    assert leases.renew(message, now=before - leases.lease_term())
    assert leases.reissue(row, now=before, counts=True) is not None


def test_a_provisioning_that_two_workers_lost_has_failed(farm: Farm) -> None:
    made, message = queue_provision(farm)
    pick_up(message)
    farm.script.plant(made["id"], message.operation_id)
    farm.expire(made["id"])
    assert farm.reap() == (1, 0, 0)
    again = farm.queue.messages.popleft()
    pick_up(again)
    farm.expire(made["id"])

    assert farm.reap() == (0, 1, 0)
    lost = farm.get(made["id"])
    assert (lost["status"], lost["progress"]) == ("failed", None)
    assert lost["last_failure_message"] == "operation_lost: the worker was lost twice"
    assert farm.rules(made["id"])[-1] == "T12"
    assert farm.script.runtimes() == {}
    assert carry_out(again) is False


@pytest.mark.parametrize("lost_before", [False, True])
def test_what_no_worker_takes_up_waits_and_says_so(farm: Farm, lost_before: bool) -> None:
    made, message = queue_provision(farm)
    assert farm.get(made["id"])["progress"]["step_label"] == STEPS[0]
    if lost_before:
        pick_up(message)
        farm.expire(made["id"])
        assert farm.reap() == (1, 0, 0)
    farm.age(made["id"])

    for _ in range(3):
        farm.expire(made["id"])
        assert farm.reap() == (1, 0, 0)
    waiting = farm.get(made["id"])
    assert waiting["status"] == ("provisioning" if lost_before else "queued")
    assert waiting["progress"] == {"step_label": WAITING_TEXT, "step_number": 1, "total_steps": 4}
    assert waiting["last_failure_message"] is None
    assert farm.queue.work() == 3 + lost_before
    assert farm.get(made["id"])["status"] == "running"


def test_where_nobody_works_no_messages_pile_up_until_a_worker_comes(farm: Farm) -> None:
    made, _ = queue_provision(farm)
    farm.queue.has_worker = False
    for _ in range(3):
        farm.expire(made["id"])
        assert farm.reap() == (0, 0, 1)
    assert not farm.queue.messages
    assert publish_waiting() == 1
    assert farm.queue.work() == 1
    assert farm.get(made["id"])["status"] == "running"
    assert publish_waiting() == 0


def test_a_lost_teardown_ends_in_a_true_state(farm: Farm) -> None:
    made = farm.create_running()
    farm.ok("DELETE", f"/interns/{made['id']}", status=202)
    for _ in range(2):
        pick_up(farm.queue.messages.popleft())
        farm.expire(made["id"])
        farm.reap()
    lost = farm.get(made["id"])
    assert lost["status"] == "destroy_failed"
    assert lost["last_failure_message"].startswith("operation_lost")
    assert farm.rules(made["id"])[-1] == "T20"
    farm.queue.at_once = True
    farm.ok("DELETE", f"/interns/{made['id']}", status=202)
    farm.get(made["id"], status=404)
    assert farm.rules(made["id"])[-2:] == ["T16", "T17"]


def test_a_lost_suspension_is_repeated_once_and_then_forgotten(farm: Farm) -> None:
    made, other = farm.create_running(), farm.create_running()
    take(farm, made)
    take(farm, other)
    farm.expire(made["id"])
    assert farm.reap() == (1, 0, 0)
    farm.expire(made["id"])
    farm.expire(other["id"])
    assert farm.reap() == (1, 1, 0)

    row = farm.row(made["id"])
    assert (row.status, row.lease_id) == ("running", None)
    farm.script.lose(made["id"])
    assert probe_all(current_driver()) == 1
    assert farm.get(made["id"])["last_failure_message"] == "runtime_exited: the runtime is gone"
    farm.queue.work()
    assert farm.get(other["id"])["status"] == "stopped"


def test_an_attempt_that_nobody_could_be_told_of_does_not_count(farm: Farm) -> None:
    made, message = queue_provision(farm)
    farm.expire(made["id"])
    farm.queue.down = True
    assert [farm.reap() for _ in range(3)] == [(0, 0, 0)] * 3
    # A lost one is done again once.
    farm.queue.down = False
    assert [farm.reap(), farm.reap()] == [(1, 0, 0), (0, 0, 0)]
    assert carry_out(message) is False
    assert farm.queue.work() == 1
    assert farm.get(made["id"])["status"] == "running"


def test_who_waits_for_busy_workers_is_not_lost(farm: Farm, settings: Any) -> None:
    settings.INTERN_JOBS = 1
    first, message = queue_provision(farm)
    pick_up(message)
    second, _ = queue_provision(farm)
    for _ in range(3):
        farm.expire(second["id"])
        assert farm.reap() == (0, 0, 1)
    farm.expire(second["id"])
    farm.expire(first["id"])
    assert farm.reap().again == 2


def test_who_was_overtaken_in_the_queue_was_lost(farm: Farm, settings: Any) -> None:
    settings.INTERN_JOBS = 1
    first, _ = queue_provision(farm)
    _, later = queue_provision(farm)
    pick_up(later)
    farm.expire(first["id"])
    assert farm.reap() == (1, 0, 0)


def test_a_reaper_goes_by_the_moment_it_is_given(farm: Farm) -> None:
    made, _ = queue_provision(farm)
    expires_at = farm.row(made["id"]).lease_expires_at
    assert expires_at is not None
    assert reap(current_driver(), now=expires_at) == (1, 0, 0)


def test_only_what_nobody_has_taken_up_is_told_of_again(farm: Farm) -> None:
    _, message = queue_provision(farm)
    queue_provision(farm)
    assert publish_waiting() == 2
    pick_up(message)
    assert publish_waiting() == 1


def test_among_busy_workers_one_later_job_shows_that_a_message_is_lost(
    farm: Farm, settings: Any
) -> None:
    settings.INTERN_JOBS = 4
    _, earlier = queue_provision(farm)
    lost, _ = queue_provision(farm)
    _, later = queue_provision(farm)
    pick_up(earlier)
    pick_up(later)
    farm.expire(lost["id"])
    assert farm.reap() == (1, 0, 0)


def test_who_was_asked_for_at_the_same_moment_has_not_overtaken(farm: Farm, settings: Any) -> None:
    settings.INTERN_JOBS = 1
    first, _ = queue_provision(farm)
    other, message = queue_provision(farm)
    pick_up(message)
    Intern.objects.update(operation_since=farm.row(other["id"]).operation_since)
    farm.expire(first["id"])
    assert farm.reap() == (0, 0, 1)


def test_an_operation_is_overdue_from_its_term_on_and_while_no_worker_has_it() -> None:
    asked_at = datetime(2026, 1, 1, tzinfo=UTC)
    due_at = asked_at + leases.lease_term()
    intern = Intern(operation_since=asked_at)
    assert not leases.is_pickup_overdue(intern, due_at - timedelta(microseconds=1))
    assert leases.is_pickup_overdue(intern, due_at)
    intern.picked_at = asked_at
    assert not leases.is_pickup_overdue(intern, due_at)
    assert not leases.is_pickup_overdue(Intern(), due_at)


def test_an_operation_s_way_is_on_record_with_its_times_and_steps(farm: Farm) -> None:
    made, message = queue_provision(farm)
    now = datetime.now(UTC) + timedelta(seconds=1)
    picked = leases.pick_up(message, by="worker", now=now)
    assert picked is not None
    assert InternTransition.objects.filter(intern_id=made["id"], at=now).count() == 1
    _, lease = picked
    leases.begin_step(lease, 3, by="worker")
    row = farm.row(made["id"])
    assert (row.progress_step, row.lease_attempt) == (3, 0)
    later = now + timedelta(hours=1)
    assert leases.extend(row, now=later)
    assert farm.row(made["id"]).lease_expires_at == later + leases.lease_term()


def test_a_lease_is_released_once(farm: Farm) -> None:
    made = farm.create_running()
    lease = take(farm, made)
    row = farm.row(made["id"])
    assert leases.release(lease, by="operator", why="by hand")
    freed = farm.row(made["id"])
    assert (freed.lease_id, freed.lease_attempt) == (None, 0)
    assert freed.updated_at > row.updated_at
    assert not leases.release(lease, by="operator", why="by hand")
    assert leases.reissue(row, now=datetime.now(UTC), counts=True) is None


def test_a_long_failure_is_cut(farm: Farm) -> None:
    made, message = queue_provision(farm)
    picked = leases.pick_up(message, by="worker", now=datetime.now(UTC))
    assert picked is not None
    leases.settle(picked[1], MoveRule.STEP_FAILED, "failed", by="worker", failure="x" * 2000)
    assert farm.row(made["id"]).last_failure_message == "x" * 1000


def test_an_intern_that_fails_is_an_event_in_the_same_transaction(farm: Farm) -> None:
    made, message = queue_provision(farm)
    picked = leases.pick_up(message, by="worker", now=datetime.now(UTC))
    assert picked is not None
    failed: Any = (MoveRule.STEP_FAILED, Status.FAILED)

    leases.settle(picked[1], *failed, by="worker", failure="no disk")

    event = Event.objects.get(kind="intern.failed")
    assert event.data["intern_id"] == str(made["id"])
    assert "no disk" in event.text
    assert InternTransition.objects.filter(to_status="failed").count() == 1
