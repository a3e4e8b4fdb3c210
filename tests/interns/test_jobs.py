"""What workers do: each step that can go wrong, messages that come twice or late, workers that die
and what becomes of their work."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from accounts.models import ApiKey
from accounts.services.accounts import open_workspace
from accounts.services.keys import delete_keys, set_disabled
from interns import leases
from interns.jobs import provision as provisioning
from interns.jobs import suspend as suspending
from interns.jobs.prober import PROBES_MAX, probe_all
from interns.jobs.reconcile import reconcile
from interns.models import Intern, InternTransition, LeaseKind, WorkspaceArchive
from interns.releasing import release_by_hand
from interns.runtime.driver import current_driver
from tests.interns.farm import Farm, carry_out

pytestmark = [pytest.mark.django_db, pytest.mark.both]
STUCK = {"error": "stuck", "code": "runtime_teardown_failed"}


def queued(farm: Farm) -> tuple[Any, leases.Lease]:
    """An intern that waits for a worker, and the message of it."""
    made = farm.new()
    farm.ok("POST", f"/interns/{made['id']}/provision", status=202)
    return made, farm.queue.messages.popleft()


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"error": "no room"}, "runtime_start_failed: no room"),
        ({"error": "none", "code": "image_unavailable"}, "image_unavailable: none"),
    ],
)
def test_a_runtime_that_does_not_start_fails(farm: Farm, fault: Any, message: str) -> None:
    farm.script.fail("start", fault)

    made = farm.running()
    assert (made["status"], made["last_failure_message"]) == ("failed", message)
    assert made["progress"] is None
    assert farm.row(made["id"]).lease_id is None
    assert farm.rules(made["id"])[-1] == "T11"
    assert farm.script.calls("stop")
    farm.ok("POST", f"/interns/{made['id']}/provision", status=202)
    assert farm.get(made["id"])["last_failure_message"] is None
    farm.queue.work()
    assert farm.get(made["id"])["status"] == "running"
    assert "T6" in farm.rules(made["id"])


def test_a_runtime_that_is_not_well_fails(farm: Farm, settings: Any) -> None:
    settings.INTERN_HEALTH_SECONDS = 0.2
    farm.script.fail("health", {"error": "not yet"}, always=True)

    made = farm.running()
    assert made["last_failure_message"] == "health_check_failed: not yet"
    assert farm.script.runtimes() == {}


def test_a_runtime_that_exits_at_once_fails_at_once(farm: Farm) -> None:
    made, message = queued(farm)
    farm.script.sicken(made["id"], {"ok": False, "exited": True, "detail": "exit status 1"})

    carry_out(message)
    assert farm.get(made["id"])["last_failure_message"] == "health_check_failed: exit status 1"


def test_a_runtime_that_is_well_after_a_while_runs(farm: Farm) -> None:
    farm.script.fail("health", {"error": "not yet"}, {"error": "not yet"})

    assert farm.running()["status"] == "running"


def test_a_provisioning_has_an_end(farm: Farm, settings: Any) -> None:
    settings.INTERN_PROVISION_SECONDS = 0.2
    farm.script.fail("health", {"error": "not yet"}, always=True)

    made = farm.running()
    assert made["last_failure_message"] == "provisioning_timeout: not running after 0.2 s"
    assert farm.script.runtimes() == {}


def test_a_fault_of_ours_fails_without_its_words(
    farm: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> str:
        raise ZeroDivisionError("secret words")

    monkeypatch.setattr(provisioning, "key_for_boot", broken)
    made = farm.running()
    assert made["last_failure_message"] == (
        "runtime_start_failed: ZeroDivisionError while the intern was being set up"
    )


def test_a_taken_hostname_gets_another(farm: Farm) -> None:
    first = farm.running("research")
    second = farm.ok("POST", "/interns", {"name": "research"}, status=201, key=farm.admin_key)
    farm.ok("POST", f"/interns/{second['id']}/provision", status=202, key=farm.admin_key)
    farm.queue.work()

    names = [first["hostname"], farm.get(second["id"])["hostname"]]
    assert names[0] == "research.interns.localhost"
    label, _, domain = names[1].partition(".")
    assert domain == "interns.localhost"
    assert label.startswith("research-")
    assert len(label) == len("research-") + 6


def test_no_hostname_at_all_fails(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    from interns import hostnames

    farm.running("research")
    taken = ["research.interns.localhost"]
    monkeypatch.setattr(hostnames, "_candidates", lambda name: taken)
    made = farm.running()
    assert made["last_failure_message"].startswith("hostname_unavailable: ")


def test_a_key_is_kept_over_boots_and_made_anew_where_it_is_gone(farm: Farm) -> None:
    made = farm.suspended()
    key = ApiKey.objects.get(intern_id=made["id"])
    path = f"/interns/{made['id']}"
    farm.queue.at_once = True

    farm.ok("POST", f"{path}/provision", status=202)
    assert ApiKey.objects.get(intern_id=made["id"]).hash == key.hash
    farm.ok("POST", f"{path}/suspend")
    delete_keys(keys=ApiKey.objects.filter(pk=key.pk))
    farm.ok("POST", f"{path}/provision", status=202)
    assert farm.get(made["id"])["status"] == "running"
    fresh = ApiKey.objects.living().get(intern_id=made["id"])
    assert fresh.pk != key.pk
    farm.ok("POST", f"{path}/suspend")
    set_disabled(keys=ApiKey.objects.filter(pk=fresh.pk), disabled=True)
    farm.ok("POST", f"{path}/provision", status=202)
    assert farm.get(made["id"])["last_failure_message"] == (
        "runtime_start_failed: the intern's API key is disabled"
    )


def test_a_budget_is_the_limit_of_the_key(farm: Farm) -> None:
    made = farm.new()
    Intern.objects.update(budget_nano=5, budget_reset="daily")
    farm.queue.at_once = True
    farm.ok("POST", f"/interns/{made['id']}/provision", status=202)

    key = ApiKey.objects.get(intern_id=made["id"])
    assert (key.limit_nano, key.limit_reset) == (5, "daily")
    farm.ok("POST", f"/interns/{made['id']}/suspend")


def test_what_a_manager_does_to_an_intern_s_key(farm: Farm) -> None:
    """Its limit is the budget from then on; where it belongs stays."""
    made = farm.suspended()
    key = ApiKey.objects.get(intern_id=made["id"])
    path, elsewhere = f"/keys/{key.hash}", open_workspace(account=farm.account, slug="else")
    manager = farm.management_key

    got, said = farm.call("PATCH", path, {"workspace_id": str(elsewhere.pk)}, key=manager)
    assert got == 409
    assert said["error"]["message"] == "This key belongs to an intern and stays in its workspace"
    changes = {"workspace_id": str(key.workspace_id), "name": "x", "limit": 2}
    assert farm.ok("PATCH", path, changes | {"limit_reset": "daily"}, key=manager)["data"]["limit"]
    farm.queue.at_once = True
    farm.ok("POST", f"/interns/{made['id']}/provision", status=202)
    key.refresh_from_db()
    assert (key.limit_nano, key.limit_reset, key.name) == (2 * 10**9, "daily", "x")
    row = farm.row(made["id"])
    assert (row.budget_nano, row.budget_reset) == (2 * 10**9, "daily")

    # A key with a new string keeps its limit, and the intern gets another string of it.
    farm.ok("POST", f"/interns/{made['id']}/suspend")
    farm.ok("PATCH", path, {"limit": 3}, key=manager)
    farm.ok("POST", f"{path}/rotate", {"grace_seconds": 0}, key=manager)
    farm.ok("POST", f"/interns/{made['id']}/provision", status=202)
    key.refresh_from_db()
    assert (key.limit_nano, key.limit_reset) == (3 * 10**9, "daily")
    assert farm.row(made["id"]).budget_nano == 3 * 10**9


@pytest.mark.parametrize("kind", list(LeaseKind))
def test_of_five_deliveries_four_find_nothing_to_do(farm: Farm, kind: LeaseKind) -> None:
    """W2."""
    if kind == LeaseKind.PROVISION:
        made, message = queued(farm)
    else:
        made = farm.running()
        row = farm.row(made["id"])
        taken = leases.take(row, kind, by="test", now=datetime.now(UTC))
        assert taken is not None
        message = taken
    before = len(farm.script.calls("start"))

    assert [carry_out(message) for _ in range(5)] == [True, False, False, False, False]
    assert len(farm.script.calls("start")) - before == int(kind == LeaseKind.PROVISION)


def test_a_worker_that_comes_too_late_moves_nothing(
    farm: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W2: it lost its lease while it lived on, and another one did the work."""
    made, message = queued(farm)
    driver = current_driver()
    real = type(driver).start

    def start(self: Any, plan: Any) -> Any:
        runtime = real(self, plan)
        monkeypatch.setattr(type(driver), "start", real)
        farm.expire(made["id"])
        assert farm.reap().again == 1
        assert farm.queue.work() == 1
        return runtime

    monkeypatch.setattr(type(driver), "start", start)
    assert carry_out(message) is True

    row = farm.row(made["id"])
    assert (row.status, row.lease_id) == ("running", None)
    assert farm.script.runtimes() == {made["id"]: str(row.boot_id)}
    assert farm.rules(made["id"]).count("T10") == 1


def test_what_a_late_worker_began_for_nobody_is_stopped(
    farm: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, message = queued(farm)
    driver = current_driver()
    real = type(driver).start

    def start(self: Any, plan: Any) -> Any:
        release_by_hand(Intern.objects.get().pk, by="operator")
        return real(self, plan)

    monkeypatch.setattr(type(driver), "start", start)
    carry_out(message)

    assert farm.get(made["id"])["last_failure_message"].startswith("operation_lost: ")
    assert farm.script.runtimes() == {}


def test_a_lost_provisioning_is_done_again_once(farm: Farm) -> None:
    made, message = queued(farm)
    farm.expire(made["id"])

    assert farm.reap() == (1, 0, 0)
    assert carry_out(message) is False
    assert farm.reap() == (0, 0, 0)
    assert farm.queue.work() == 1
    assert farm.get(made["id"])["status"] == "running"


@pytest.mark.parametrize("picked", [False, True])
def test_a_provisioning_that_is_lost_twice_has_failed(farm: Farm, picked: bool) -> None:
    made, message = queued(farm)
    if picked:
        leases.pick_up(message, by="worker", now=datetime.now(UTC))
        farm.script.plant(made["id"], message.operation_id)
    farm.expire(made["id"])
    farm.reap()
    again = farm.queue.messages.popleft()
    farm.expire(made["id"])

    assert farm.reap() == (0, 1, 0)
    lost = farm.get(made["id"])
    assert (lost["status"], lost["progress"]) == ("failed", None)
    assert lost["last_failure_message"] == "operation_lost: the worker was lost twice"
    assert farm.rules(made["id"])[-1] == "T12"
    assert farm.script.runtimes() == {}
    assert carry_out(again) is False


def test_a_lost_teardown_ends_in_a_true_state(farm: Farm) -> None:
    made = farm.running()
    farm.ok("DELETE", f"/interns/{made['id']}", status=202)
    for _ in range(2):
        farm.expire(made["id"])
        farm.reap()
    farm.queue.messages.clear()

    lost = farm.get(made["id"])
    assert lost["status"] == "destroy_failed"
    assert lost["last_failure_message"].startswith("operation_lost")
    assert farm.rules(made["id"])[-1] == "T20"
    farm.queue.at_once = True
    farm.ok("DELETE", f"/interns/{made['id']}", status=202)
    farm.get(made["id"], status=404)
    assert farm.rules(made["id"])[-2:] == ["T16", "T17"]


def test_a_lost_suspension_is_repeated_once_and_then_forgotten(farm: Farm) -> None:
    made = farm.running()
    row = farm.row(made["id"])
    leases.take(row, LeaseKind.SUSPEND, by="test", now=datetime.now(UTC))
    farm.expire(made["id"])
    assert farm.reap() == (1, 0, 0)
    farm.expire(made["id"])
    assert farm.reap() == (0, 1, 0)

    row = farm.row(made["id"])
    assert (row.status, row.lease_id) == ("running", None)
    farm.script.lose(made["id"])
    assert probe_all(current_driver()) == 1
    assert farm.get(made["id"])["last_failure_message"] == "runtime_exited: the runtime is gone"


def test_a_lost_suspension_that_is_repeated_stops(farm: Farm) -> None:
    made = farm.running()
    leases.take(farm.row(made["id"]), LeaseKind.SUSPEND, by="test", now=datetime.now(UTC))
    farm.expire(made["id"])
    farm.reap()

    assert farm.queue.work() == 1
    assert farm.get(made["id"])["status"] == "stopped"


def test_an_attempt_that_nobody_could_be_told_of_does_not_count(farm: Farm) -> None:
    made, _ = queued(farm)
    farm.expire(made["id"])
    farm.queue.down = True
    assert [farm.reap() for _ in range(3)] == [(0, 0, 0)] * 3

    farm.queue.down = False
    assert farm.reap() == (1, 0, 0)
    farm.queue.work()
    assert farm.get(made["id"])["status"] == "running"


def test_who_waits_for_busy_workers_is_not_lost(farm: Farm, settings: Any) -> None:
    settings.INTERN_JOBS = 1
    _, first = queued(farm)
    leases.pick_up(first, by="worker", now=datetime.now(UTC))
    second, _ = queued(farm)

    for _ in range(3):
        farm.expire(second["id"])
        assert farm.reap() == (0, 0, 1)
    farm.expire(second["id"])
    farm.expire(Intern.objects.exclude(pk=second["id"]).get().pk.hex)
    assert farm.reap().again == 2


def test_who_was_overtaken_in_the_queue_was_lost(farm: Farm, settings: Any) -> None:
    settings.INTERN_JOBS = 1
    first, _ = queued(farm)
    _, later = queued(farm)
    leases.pick_up(later, by="worker", now=datetime.now(UTC))

    farm.expire(first["id"])
    assert farm.reap() == (1, 0, 0)


def test_a_lease_is_renewed_while_the_work_goes_on(farm: Farm, settings: Any) -> None:
    settings.INTERN_LEASE_SECONDS = 0.2
    farm.script.fail("start", {"delay_s": 0.0})
    _, message = queued(farm)
    picked = leases.pick_up(message, by="worker", now=datetime.now(UTC))
    assert picked is not None

    assert leases.renew(picked[1], now=datetime.now(UTC) + timedelta(seconds=5))
    assert not leases.renew(message, now=datetime.now(UTC))
    assert farm.reap() == (0, 0, 0)


def test_a_teardown_without_an_archive_waits_for_a_word(farm: Farm) -> None:
    made = farm.running()
    path = f"/interns/{made['id']}"
    farm.script.fail("archive", {"error": "disk broken", "code": "workspace_archive_failed"})
    farm.queue.at_once = True

    farm.ok("DELETE", path, status=202)
    failed = farm.get(made["id"])
    assert failed["status"] == "destroy_failed"
    assert failed["last_failure_message"] == "workspace_archive_failed: disk broken"
    assert farm.rules(made["id"])[-1] == "T18"
    assert list(farm.script.read()["disks"]) == [made["id"]]
    assert ApiKey.objects.living().filter(intern_id=made["id"]).exists()

    for body in (None, {}, {"acknowledge_workspace_loss": False}):
        refused = farm.refused(409, "workspace_archive_failed", "DELETE", path, body)
        assert refused["metadata"]["retryable"] is False
    farm.script.fail("archive", {"error": "still", "code": "workspace_archive_failed"})
    farm.ok("DELETE", path, {"acknowledge_workspace_loss": True}, status=202)
    farm.get(made["id"], status=404)
    assert farm.rules(made["id"])[-3:] == ["T16", "T19", "T17"]
    assert not WorkspaceArchive.objects.exists()


def test_a_loss_can_be_acknowledged_from_the_beginning(farm: Farm) -> None:
    made = farm.running()
    farm.script.fail("archive", {"error": "no", "code": "workspace_archive_failed"}, always=True)
    farm.queue.at_once = True

    farm.ok("DELETE", f"/interns/{made['id']}", {"acknowledge_workspace_loss": True}, status=202)
    farm.get(made["id"], status=404)
    assert farm.script.read()["disks"] == {}


@pytest.mark.parametrize("step", ["stop", "destroy"])
def test_a_runtime_that_cannot_be_taken_down(farm: Farm, step: str) -> None:
    made = farm.running()
    farm.script.fail(step, STUCK)
    farm.queue.at_once = True

    farm.ok("DELETE", f"/interns/{made['id']}", status=202)
    failed = farm.get(made["id"])
    assert failed["last_failure_message"] == "runtime_teardown_failed: stuck"
    assert farm.rules(made["id"])[-1] == "T20"
    farm.refused(409, "invalid_state", "POST", f"/interns/{made['id']}/provision")
    farm.refused(409, "invalid_state", "POST", f"/interns/{made['id']}/suspend")
    farm.ok("DELETE", f"/interns/{made['id']}", status=202)
    farm.get(made["id"], status=404)
    assert WorkspaceArchive.objects.count() == 1


def test_a_vault_that_cannot_be_taken_down(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    from interns.jobs import teardown

    def broken(intern_id: Any) -> None:
        raise ZeroDivisionError("secret words")

    made = farm.running()
    farm.queue.at_once = True
    with monkeypatch.context() as patch:
        patch.setattr(teardown, "delete_intern_vault", broken)
        farm.ok("DELETE", f"/interns/{made['id']}", status=202)
    failed = farm.get(made["id"])
    assert failed["last_failure_message"] == "vault_teardown_failed: ZeroDivisionError"
    farm.ok("DELETE", f"/interns/{made['id']}", status=202)
    farm.get(made["id"], status=404)


def test_three_bad_probes_are_the_end(farm: Farm) -> None:
    made = farm.running()
    driver = current_driver()
    farm.script.fail("health", {"error": "silent"}, {"error": "silent"})
    assert [probe_all(driver) for _ in range(3)] == [1, 1, 0]
    assert farm.row(made["id"]).failed_probes == 0

    farm.script.fail("health", {"error": "silent"}, always=True)
    for _ in range(PROBES_MAX - 1):
        probe_all(driver)
    assert farm.get(made["id"])["status"] == "running"
    probe_all(driver)
    failed = farm.get(made["id"])
    assert failed["status"] == "failed"
    assert failed["last_failure_message"] == "runtime_exited: 3 probes failed: silent"
    assert farm.rules(made["id"])[-1] == "T14"
    assert farm.script.runtimes() == {}


def test_a_runtime_that_exited_is_told_of_at_once(farm: Farm) -> None:
    made = farm.running()
    farm.script.lose(made["id"])

    assert probe_all(current_driver()) == 1
    assert farm.get(made["id"])["status"] == "failed"
    farm.queue.at_once = True
    farm.ok("POST", f"/interns/{made['id']}/provision", status=202)
    assert farm.get(made["id"])["status"] == "running"


def test_whoever_is_held_is_not_probed(farm: Farm) -> None:
    made = farm.running()
    leases.take(farm.row(made["id"]), LeaseKind.SUSPEND, by="test", now=datetime.now(UTC))
    farm.script.lose(made["id"])

    assert probe_all(current_driver()) == 0


@pytest.mark.parametrize("by", ["runtime", "books"])
def test_a_budget_that_ends_suspends_with_a_reason(
    farm: Farm, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from accounts.models import SpendCounter
    from accounts.windows import ALL_TIME

    made = farm.new()
    Intern.objects.update(budget_nano=5)
    farm.queue.at_once = True
    farm.ok("POST", f"/interns/{made['id']}/provision", status=202)
    assert probe_all(current_driver()) == 0
    assert farm.get(made["id"])["status"] == "running"
    if by == "runtime":
        farm.script.sicken(made["id"], {"ok": True, "budget_ended": True})
    else:
        key = ApiKey.objects.get(intern_id=made["id"])
        SpendCounter.objects.update_or_create(
            scope="key",
            scope_id=str(key.pk),
            window="total",
            window_start=ALL_TIME,
            defaults={"spent_nano": 5},
        )

    probe_all(current_driver())
    stopped = farm.get(made["id"])
    assert (stopped["status"], stopped["last_failure_message"]) == ("stopped", None)
    assert farm.row(made["id"]).status_reason.startswith("budget_ended: ")
    last = InternTransition.objects.filter(intern_id=made["id"], rule="T13").get()
    assert last.why.startswith("budget_ended: ")


def test_leaked_and_lost_runtimes_are_found(farm: Farm) -> None:
    well, lost, stopped = farm.running(), farm.running(), farm.suspended()
    nobody = "00000000-0000-4000-8000-000000000001"
    farm.script.lose(lost["id"])
    farm.script.plant(stopped["id"], nobody)
    farm.script.plant(nobody, nobody)
    driver = current_driver()

    seen = reconcile(driver, dry=True)
    assert (seen.lost, sorted(seen.leaked)) == ([lost["id"]], sorted([stopped["id"], nobody]))
    assert farm.get(lost["id"])["status"] == "running"
    found = reconcile(driver)
    assert (found.lost, sorted(found.leaked)) == (seen.lost, sorted(seen.leaked))
    assert list(farm.script.runtimes()) == [well["id"]]
    assert farm.get(lost["id"])["last_failure_message"] == "runtime_exited: the runtime is gone"
    assert reconcile(driver).clean


def test_a_leaked_runtime_that_does_not_stop_is_told_of(farm: Farm) -> None:
    nobody = "00000000-0000-4000-8000-000000000001"
    farm.script.plant(nobody, nobody)
    farm.script.fail("stop", STUCK)

    assert reconcile(current_driver()).stuck == [nobody]


def test_an_operation_can_be_released_by_hand(farm: Farm) -> None:
    from interns.errors import InvalidState

    made, message = queued(farm)
    assert release_by_hand(farm.row(made["id"]).pk, by="operator ann") == "provision"
    assert farm.get(made["id"])["last_failure_message"] == (
        "operation_lost: an operator released the intern"
    )
    assert carry_out(message) is False
    with pytest.raises(InvalidState):
        release_by_hand(farm.row(made["id"]).pk, by="operator ann")
    assert InternTransition.objects.filter(by="operator ann", rule="T12").exists()


def test_a_suspension_gives_up_after_three_tries(
    farm: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suspending, "_PAUSE_S", 0)
    made = farm.running()
    farm.script.fail("stop", STUCK, STUCK)
    farm.queue.at_once = True

    farm.ok("POST", f"/interns/{made['id']}/suspend")
    assert farm.get(made["id"])["status"] == "stopped"


def test_where_no_boot_came_so_far_there_is_nothing_to_archive(farm: Farm) -> None:
    """As where the image of its containers cannot be had."""
    made = farm.new()
    farm.script.fail("start", {"error": "none", "code": "image_unavailable"})
    farm.ok("POST", f"/interns/{made['id']}/provision", status=202)
    farm.queue.work()
    assert farm.get(made["id"])["status"] == "failed"

    farm.ok("DELETE", f"/interns/{made['id']}", status=202)
    farm.queue.work()
    farm.get(made["id"], status=404)
    assert not WorkspaceArchive.objects.exists()


def test_a_disk_that_is_lost_is_a_loss(farm: Farm) -> None:
    made = farm.suspended()
    with farm.script.changed() as state:
        del state["disks"][made["id"]]

    farm.ok("DELETE", f"/interns/{made['id']}", status=202)
    farm.queue.work()
    failed = farm.get(made["id"])
    assert failed["status"] == "destroy_failed"
    assert failed["last_failure_message"] == "workspace_archive_failed: there is no disk"
