"""What workers do: each step that can go wrong, probes, budgets, and what is put right by hand."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from accounts import ports
from accounts.models import ApiKey, SpendCounter, Workspace
from accounts.services.keys import delete_keys, set_disabled
from accounts.services.organization import open_workspace
from accounts.spending import ALL_TIME
from interns import leases
from interns.errors import InvalidState
from interns.jobs import provision as provisioning
from interns.jobs import teardown
from interns.jobs.prober import PROBES_MAX, probe_all
from interns.jobs.reconcile import reconcile
from interns.models import Intern, InternTransition, LeaseKind, WorkspaceArchive
from interns.operations import release_intern
from interns.runtime.driver import current_driver
from tests.accounts.higher import ReplacedApps
from tests.interns.farm import Farm, carry_out, queue_provision

pytestmark = [pytest.mark.django_db, pytest.mark.both]
LOSS = {"acknowledge_workspace_loss": True}
NOBODY = "00000000-0000-4000-8000-000000000001"


def test_a_runtime_that_does_not_start_fails(farm: Farm) -> None:
    farm.script.fail("start", {"error": "no room"})
    made = farm.create_running()
    assert (made["status"], made["progress"]) == ("failed", None)
    assert made["last_failure_message"] == "runtime_start_failed: no room"
    assert farm.row(made["id"]).lease_id is None
    assert farm.rules(made["id"])[-1] == "T11"
    assert farm.script.calls("stop")
    farm.ok("POST", f"/interns/{made['id']}/provision", status=202)
    assert farm.get(made["id"])["last_failure_message"] is None
    farm.queue.work()
    assert farm.get(made["id"])["status"] == "running"
    assert "T6" in farm.rules(made["id"])


@pytest.mark.parametrize(
    ("step", "bound", "message"),
    [
        ("start", "", "image_unavailable: not yet"),
        ("health", "INTERN_HEALTH_SECONDS", "health_check_failed: not yet"),
        ("health", "INTERN_PROVISION_SECONDS", "provisioning_timeout: not running after 0.2 s"),
    ],
)
def test_a_provisioning_has_an_end(
    farm: Farm, settings: Any, step: str, bound: str, message: str
) -> None:
    setattr(settings, bound or "INTERN_HEALTH_SECONDS", 0.2)
    farm.script.fail(step, {"error": "not yet", "code": "image_unavailable"}, always=True)
    assert farm.create_running()["last_failure_message"] == message
    assert farm.script.runtimes() == {}


def test_a_runtime_that_exits_at_once_fails_at_once(farm: Farm) -> None:
    made, message = queue_provision(farm)
    farm.script.sicken(made["id"], {"ok": False, "exited": True, "detail": "exit status 1"})
    carry_out(message)
    assert farm.get(made["id"])["last_failure_message"] == "health_check_failed: exit status 1"


def test_a_fault_of_ours_fails_without_its_words(
    farm: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> str:
        raise ZeroDivisionError("secret words")

    monkeypatch.setattr(provisioning, "prepare_key", broken)
    made = farm.create_running()
    assert made["last_failure_message"] == (
        "runtime_start_failed: ZeroDivisionError while the intern was being set up"
    )


def test_a_taken_hostname_gets_another_if_there_is_one(
    farm: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = farm.create_running("research")
    second = farm.ok("POST", "/interns", {"name": "research"}, status=201, key=farm.admin_key)
    farm.ok("POST", f"/interns/{second['id']}/provision", status=202, key=farm.admin_key)
    farm.queue.work()
    assert first["hostname"] == "research.interns.localhost"
    another = farm.get(second["id"])["hostname"]
    assert re.fullmatch(r"research-.{6}\.interns\.localhost", another)
    monkeypatch.setattr(provisioning, "_candidates", lambda name: [another])
    assert farm.create_running()["last_failure_message"].startswith("hostname_unavailable: ")


def test_a_key_is_kept_over_boots_and_made_anew_where_it_is_gone(farm: Farm) -> None:
    made = farm.create_suspended()
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


@pytest.mark.parametrize(("budget_usd", "limit_usd"), [(None, 5), (2, 2), (6, 5)])
def test_a_member_s_intern_has_a_key_as_members_have(
    farm: Farm, monkeypatch: pytest.MonkeyPatch, budget_usd: int | None, limit_usd: int
) -> None:
    rates = [{"requests_per_minute": 10}]
    most = {"limit_nano": 5 * 10**9, "limit_reset": "daily", "allowed_models": ["acme/one"]}
    Workspace.objects.update(member_key_limits=most | {"rate_limits": rates})
    apps = ReplacedApps(
        find_model_slugs=lambda names: {name: name for name in names if "acme/" in name}
    )
    monkeypatch.setattr(ports, "_registered", [apps])
    made = farm.new()
    budget_nano = None if budget_usd is None else budget_usd * 10**9
    Intern.objects.update(budget_nano=budget_nano, budget_reset="daily", model="acme/two")
    farm.queue.at_once = True
    own_path = f"/interns/{made['id']}"
    path = f"{own_path}/provision"
    # Before there is a key, and once there is one.
    farm.expect_refusal(400, "invalid_body", "PATCH", own_path, {"model": "acme/two"})

    farm.ok("POST", path, status=202)

    refused = farm.expect_refusal(400, "invalid_body", "PATCH", own_path, {"model": "acme/two"})
    assert refused["message"] == "the intern's API key may not ask for acme/two"
    assert farm.get(made["id"])["last_failure_message"] == (
        "runtime_start_failed: the intern's API key may not ask for acme/two"
    )
    key = ApiKey.objects.get(intern_id=made["id"])
    assert (key.limit_nano, key.limit_reset) == (limit_usd * 10**9, "daily")
    assert (key.allowed_models, key.rate_limits) == (["acme/one"], rates)
    row = farm.row(made["id"])
    assert (row.budget_nano, row.budget_reset) == (key.limit_nano, "daily")
    for model in ("acme/one", "router/any", None):
        farm.ok("PATCH", own_path, {"model": model})
        farm.ok("POST", path, status=202)
        assert farm.get(made["id"])["status"] == "running"
        farm.ok("POST", f"/interns/{made['id']}/suspend")


def test_what_a_manager_does_to_an_intern_s_key(farm: Farm) -> None:
    """Its limit is the budget from then on; where it belongs stays."""
    made = farm.create_suspended()
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


def test_three_bad_probes_are_the_end(farm: Farm) -> None:
    made = farm.create_running()
    driver = current_driver()
    farm.script.fail("health", {"error": "silent"}, {"error": "silent"})
    assert [probe_all(driver) for _ in range(3)] == [1, 1, 0]
    assert farm.row(made["id"]).failed_probes == 0
    farm.script.sicken(made["id"], {"ok": False, "is_unknown": True})
    assert [probe_all(driver) for _ in range(PROBES_MAX)] == [1] * PROBES_MAX
    assert farm.row(made["id"]).failed_probes == 0
    farm.script.heal()

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


def test_a_runtime_that_exited_is_told_of_at_once_unless_it_is_held(farm: Farm) -> None:
    made = farm.create_running()
    farm.script.lose(made["id"])
    now = datetime.now(UTC)
    lease = leases.take(farm.row(made["id"]), LeaseKind.SUSPEND, by="test", now=now)
    assert lease is not None
    assert probe_all(current_driver()) == 0
    leases.release(lease, by="test", why="")
    assert probe_all(current_driver()) == 1
    assert farm.get(made["id"])["status"] == "failed"
    farm.queue.at_once = True
    farm.ok("POST", f"/interns/{made['id']}/provision", status=202)
    assert farm.get(made["id"])["status"] == "running"


@pytest.mark.parametrize(("by", "reset"), [("runtime", "daily"), ("books", None)])
def test_a_budget_is_the_key_s_limit_and_its_end_suspends_with_a_reason(
    farm: Farm, by: str, reset: str | None
) -> None:
    made = farm.new()
    Intern.objects.update(budget_nano=5, budget_reset=reset)
    farm.queue.at_once = True
    farm.ok("POST", f"/interns/{made['id']}/provision", status=202)
    key = ApiKey.objects.get(intern_id=made["id"])
    assert (key.limit_nano, key.limit_reset) == (5, reset)
    assert probe_all(current_driver()) == 0
    assert farm.get(made["id"])["status"] == "running"
    if by == "runtime":
        farm.script.sicken(made["id"], {"ok": True, "budget_ended": True})
    else:
        counted: Any = {"window": "total", "window_start": ALL_TIME, "defaults": {"spent_nano": 5}}
        SpendCounter.objects.update_or_create(scope="key", scope_id=str(key.pk), **counted)

    probe_all(current_driver())
    stopped = farm.get(made["id"])
    assert (stopped["status"], stopped["last_failure_message"]) == ("stopped", None)
    assert farm.row(made["id"]).status_reason.startswith("budget_ended: ")
    last = InternTransition.objects.filter(intern_id=made["id"], rule="T13").get()
    assert last.why.startswith("budget_ended: ")


def test_leaked_and_lost_runtimes_are_found(farm: Farm) -> None:
    well, lost, stopped = farm.create_running(), farm.create_running(), farm.create_suspended()
    farm.script.lose(lost["id"])
    farm.script.plant(stopped["id"], NOBODY)
    farm.script.plant(NOBODY, NOBODY)
    driver = current_driver()
    seen = reconcile(driver, dry=True)
    assert (seen.lost, sorted(seen.leaked)) == ([lost["id"]], sorted([stopped["id"], NOBODY]))
    assert farm.get(lost["id"])["status"] == "running"
    found = reconcile(driver)
    assert (found.lost, sorted(found.leaked)) == (seen.lost, sorted(seen.leaked))
    assert list(farm.script.runtimes()) == [well["id"]]
    assert farm.get(lost["id"])["last_failure_message"] == "runtime_exited: the runtime is gone"
    assert reconcile(driver).is_clean


def test_a_leaked_runtime_that_does_not_stop_is_told_of(farm: Farm) -> None:
    farm.script.plant(NOBODY, NOBODY)
    farm.script.fail("stop", {"error": "stuck", "code": "runtime_teardown_failed"})
    assert reconcile(current_driver()).stuck == [NOBODY]


def test_an_operation_can_be_released_by_hand(farm: Farm) -> None:
    made, message = queue_provision(farm)
    assert release_intern(farm.row(made["id"]).pk, by="operator ann") == "provision"
    assert farm.get(made["id"])["last_failure_message"] == (
        "operation_lost: an operator released the intern"
    )
    assert carry_out(message) is False
    with pytest.raises(InvalidState):
        release_intern(farm.row(made["id"]).pk, by="operator ann")
    assert InternTransition.objects.filter(by="operator ann", rule="T12").exists()


# --- Taking an intern down ------------------------------------------------------------------------


def delete(farm: Farm, made: Any, body: Any = None) -> Any:
    """What is told of an intern after its deletion was tried; None if it is gone."""
    farm.queue.at_once = True
    farm.ok("DELETE", f"/interns/{made['id']}", body, status=202)
    status, said = farm.call("GET", f"/interns/{made['id']}")
    if status == 404:
        return None
    assert said["status"] == "destroy_failed"
    return said["last_failure_message"]


def test_a_teardown_without_an_archive_waits_for_a_word(farm: Farm) -> None:
    made = farm.create_running()
    farm.script.fail("archive", {"error": "disk broken", "code": "workspace_archive_failed"})

    assert delete(farm, made) == "workspace_archive_failed: disk broken"
    assert farm.rules(made["id"])[-1] == "T18"
    assert list(farm.script.read()["disks"]) == [made["id"]]
    assert ApiKey.objects.living().filter(intern_id=made["id"]).exists()

    for body in (None, {}, {"acknowledge_workspace_loss": False}):
        asked = ("DELETE", f"/interns/{made['id']}", body)
        refused = farm.expect_refusal(409, "workspace_archive_failed", *asked)
        assert refused["metadata"]["retryable"] is False
    farm.script.fail("archive", {"error": "still", "code": "workspace_archive_failed"})
    assert delete(farm, made, LOSS) is None
    assert farm.rules(made["id"])[-3:] == ["T16", "T19", "T17"]
    assert not WorkspaceArchive.objects.exists()


def test_what_the_store_says_is_for_the_log(
    farm: Farm, settings: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings.GATEWAY_HOME = tmp_path
    made = farm.create_running()
    (tmp_path / "archives").write_text("in the way")
    told = "workspace_archive_failed: the archive could not be kept: File exists"
    assert delete(farm, made) == told
    assert f"File exists: '{tmp_path / 'archives'}" in caplog.text


def test_a_loss_can_be_acknowledged_from_the_beginning(farm: Farm) -> None:
    made = farm.create_running()
    farm.script.fail("archive", {"error": "no", "code": "workspace_archive_failed"}, always=True)
    assert delete(farm, made, LOSS) is None
    assert farm.script.read()["disks"] == {}


@pytest.mark.parametrize("step", ["stop", "destroy"])
def test_a_runtime_that_cannot_be_taken_down(farm: Farm, step: str) -> None:
    made = farm.create_running()
    farm.script.fail(step, {"error": "stuck", "code": "runtime_teardown_failed"})
    assert delete(farm, made) == "runtime_teardown_failed: stuck"
    assert farm.rules(made["id"])[-1] == "T20"
    for operation in ("provision", "suspend"):
        farm.expect_refusal(409, "invalid_state", "POST", f"/interns/{made['id']}/{operation}")
    assert delete(farm, made) is None
    assert WorkspaceArchive.objects.count() == 1


def test_a_vault_that_cannot_be_taken_down(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(intern_id: Any) -> None:
        raise ZeroDivisionError("secret words")

    made = farm.create_running()
    with monkeypatch.context() as patch:
        patch.setattr(teardown, "delete_intern_vault", broken)
        assert delete(farm, made) == "vault_teardown_failed: ZeroDivisionError"
    assert delete(farm, made) is None


def test_where_no_boot_came_so_far_there_is_nothing_to_archive(farm: Farm) -> None:
    """As where the image of its containers cannot be had."""
    assert delete(farm, farm.new(), {"acknowledge_workspace_loss": False}) is None
    assert farm.script.calls("archive") == []
    farm.queue.at_once = False
    farm.script.fail("start", {"error": "none", "code": "image_unavailable"})
    made = farm.create_running()
    assert made["status"] == "failed"
    assert delete(farm, made) is None
    assert not WorkspaceArchive.objects.exists()


def test_a_disk_that_is_lost_is_a_loss(farm: Farm) -> None:
    made = farm.create_suspended()
    with farm.script.change_state() as state:
        del state["disks"][made["id"]]
    assert delete(farm, made) == "workspace_archive_failed: there is no disk"
